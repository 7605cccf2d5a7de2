//! A worker process of the tests that holds permits: `permits <redis url> <limit> <tasks>`.
//!
//! Each task acquires a permit, holds it for a while and releases it, until stdin is closed or the process is killed. Each
//! step is a line on stdout, written before the next step begins. Instants are of the monotonic clock, in µs:
//!
//! - `acquired TASK NUMBER ASKED NOW UNTIL`: the call began at ASKED and has returned. The permit is good until UNTIL
//! - `renewed TASK NUMBER UNTIL`: the permit is good for longer
//! - `releases TASK NUMBER NOW VALID`: the permit is about to be released. VALID is 1 unless it was lost

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a program of the tests: they read its stdout")]

use std::io::Write;
use std::time::Duration;

use tokio::io::{AsyncReadExt, stdin};
use topup::{Client, Permit};
use topup_lab::worker::READY;
use topup_tests::{SOON, clock};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let mut arg = || args.next().expect("a URL, a limit and a number of tasks");
    let (url, limit, tasks) = (arg(), arg(), arg().parse::<u64>().expect("a number"));
    let topup = Client::builder().deadline(SOON).connect(&url).await.expect("a Redis");
    say(READY);
    for task in 0..tasks {
        tokio::spawn(work(topup.clone(), limit.clone(), task));
    }
    let _ = stdin().read(&mut [0]).await;
}

/// Holds permits, one after the other: most for some ms, a few for longer than their ttl.
async fn work(topup: Client, limit: String, task: u64) {
    for number in 0_u64.. {
        let asked = clock::now();
        let Ok(Ok(permit)) = topup.limit(&limit).acquire(1, SOON).await else { continue };
        let mut until = until(&permit);
        say(&format!("acquired {task} {number} {asked} {} {until}", clock::now()));
        let looks = if (number + task).is_multiple_of(16) { 60 } else { (number * 7 + task * 3) % 5 };
        for _ in 0..looks {
            // The work of the holder: a part of the load.
            tokio::time::sleep(Duration::from_millis(20)).await;
            let later = self::until(&permit);
            if later > until + 1_000 {
                until = later;
                say(&format!("renewed {task} {number} {until}"));
            }
        }
        say(&format!("releases {task} {number} {} {}", clock::now(), u8::from(permit.is_valid())));
        drop(permit);
    }
}

/// The instant until which the permit is good by itself.
fn until(permit: &Permit) -> u64 {
    // The clock is read first: the instant told is never too late.
    let now = clock::now();
    now + permit.valid_for().as_micros() as u64
}

/// Writes a line at once: a process that is killed has told all that it did.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the test listens");
}
