//! A worker process of the tests: `worker <redis url> <limit> <pace>`.
//!
//! Takes one token at a time until its stdin is closed, and prints each attempt as a line.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program of the tests: they read its stdout")]

use tokio::io::{AsyncReadExt, stdin};
use topup_lab::worker::READY;
use topup_tests::{SOON, work};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let mut arg = || args.next().expect("a URL, a limit and a pace");
    let (url, limit, pace) = (arg(), arg(), arg().parse().expect("a pace"));
    // No stall of the machine makes it give up.
    let topup = topup::Client::builder().deadline(SOON).connect(&url).await.expect("a Redis");
    println!("{READY}");
    let told_to_stop = async {
        let _ = stdin().read(&mut [0]).await;
    };
    work(&topup.limit(limit), pace, told_to_stop, |attempt| println!("{attempt}")).await;
}
