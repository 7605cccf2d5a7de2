//! A worker process, which asks limiters as its [`Orders`] say.
//!
//! It reads orders, says that it is ready when it is connected, reads the instant to begin at, and answers at the end.

mod saturate;
mod traffic;

use std::sync::Arc;

use topup_lab::{
    clock::Micros,
    worker::{self, READY, say, say_line},
};

use crate::{
    limiter::Ask,
    orders::{Orders, Work},
};

/// Works as standard input says.
///
/// # Errors
/// When Redis does not answer at the beginning, or the parent has ended.
pub fn run() -> anyhow::Result<()> {
    worker::run(work())
}

async fn work() -> anyhow::Result<()> {
    let mut told = worker::Orders::new();
    let orders: Orders = told.expect().await?;
    match &orders.work {
        Work::Play { limiters_under_test, traffic, seed } => {
            let mut askers = Vec::new();
            for under_test in limiters_under_test {
                askers.push(under_test.asker(&orders.redis, orders.worker, orders.skew).await?.into());
            }
            say_line(READY)?;
            let begin: Micros = told.expect().await?;
            let played: Vec<_> = askers
                .into_iter()
                .zip(limiters_under_test)
                .map(|(asker, under_test)| {
                    let part = traffic::Part::new(&orders, traffic, under_test, *seed);
                    tokio::spawn(part.play(asker, begin))
                })
                .collect();
            for takes in played {
                say(&takes.await?)?;
            }
            Ok(())
        }
        Work::Saturate(load) => {
            let asker: Arc<dyn Ask> =
                load.under_test.asker(&orders.redis, orders.worker, orders.skew).await?.into();
            saturate::warm_up(load, &*asker).await;
            say_line(READY)?;
            let begin: Micros = told.expect().await?;
            say(&saturate::run(load, asker, begin, orders.worker).await?)
        }
    }
}
