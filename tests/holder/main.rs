//! A process that holds tokens of two limits by turns, with estimates that are wrong by up to half, until its standard
//! input ends. It prints what it does, a line for each step, so that nothing is forgotten when it is killed.

#![allow(clippy::print_stdout, reason = "its standard output is its ledger")]

use std::{
    io::Read,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use topup::Client;

static STOP: AtomicBool = AtomicBool::new(false);

/// A number below `bound`.
fn random(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % bound
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (url, seed) = (args.next().ok_or("a URL")?, args.next().ok_or("a seed")?);
    let mut state: u64 = seed.parse()?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        STOP.store(true, Relaxed);
    });
    let topup = Client::builder().deadline(Duration::from_secs(30)).connect(&url).await?;
    println!("ready");
    for i in 0_u64.. {
        if STOP.load(Relaxed) {
            break;
        }
        let limit = ["charged", "refunded"][(i % 2) as usize];
        let estimate = 50 + random(&mut state, 101);
        println!("take {limit} {estimate}");
        let mut hold = topup.limit(limit).reserve_cost(estimate).await?;
        if !hold.is_allowed() {
            println!("denied");
            continue;
        }
        println!("open {}", hold.id());
        // The work of the holder: a part of the load.
        tokio::time::sleep(Duration::from_micros(random(&mut state, 4_000))).await;
        let used = estimate / 2 + random(&mut state, estimate + 1);
        if random(&mut state, 10) == 0 {
            println!("drop");
            drop(hold);
            continue;
        }
        println!("use {used}");
        let settlement = hold.settle(used).await?;
        println!("settled {} {}", settlement.charged, settlement.uncharged);
    }
    println!("end");
    Ok(())
}
