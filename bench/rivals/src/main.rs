//! The program behind `scripts/bench`: the library beside it, and the limiters whose dependencies topup should not build.

mod governor;
#[cfg(feature = "limitador")]
mod limitador;
mod trypema;

use std::process::ExitCode;

use topup_bench::{Asker, Rivals, limiter::Limiter};

const BUILT: &[Limiter] = &[
    Limiter::Governor,
    #[cfg(feature = "limitador")]
    Limiter::Limitador,
    #[cfg(feature = "limitador")]
    Limiter::LimitadorCached,
    Limiter::Trypema,
    Limiter::TrypemaHybrid,
];

fn main() -> ExitCode {
    topup_bench::main(Rivals { built: BUILT, ask: |limiter, asker| Box::pin(ask(limiter, asker)) })
}

async fn ask(limiter: Limiter, asker: Asker) -> anyhow::Result<()> {
    let load = asker.load();
    match limiter {
        Limiter::Governor => asker.ask(governor::Governor::new(load)?).await,
        #[cfg(feature = "limitador")]
        Limiter::Limitador => asker.ask(limitador::Limitador::redis(load).await?).await,
        #[cfg(feature = "limitador")]
        Limiter::LimitadorCached => asker.ask(limitador::Limitador::cached(load).await?).await,
        Limiter::Trypema => asker.ask(trypema::Redis::new(load).await?).await,
        Limiter::TrypemaHybrid => asker.ask(trypema::Hybrid::new(load).await?).await,
        _ => anyhow::bail!("{} is no part of this program", limiter.name()),
    }
}
