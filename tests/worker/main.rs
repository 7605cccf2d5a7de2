//! A worker process of the tests: `worker <redis url> <limit> <µs between takes>`.
//!
//! Takes one token at a time until its stdin is closed, and prints each attempt as a line.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program of the tests: they read its stdout")]

use std::time::Duration;

use tokio::io::{AsyncReadExt, stdin};
use topup_tests::{SOON, work, workers::READY};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let mut arg = || args.next().expect("a URL, a limit and µs");
    let (url, limit, every) = (arg(), arg(), arg());
    let every = Duration::from_micros(every.parse().expect("µs"));
    // No stall of the machine makes it give up.
    let topup = topup::Client::builder().deadline(SOON).connect(&url).await.expect("a Redis");
    println!("{READY}");
    let told_to_stop = async {
        let _ = stdin().read(&mut [0]).await;
    };
    work(&topup.limit(limit), every, told_to_stop, |attempt| println!("{attempt}")).await;
}
