//! The cost of takes of several limits, in scripts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use topup::{
    Client,
    testing::{Limit, Topup},
};

const SECOND: Duration = Duration::from_secs(1);
/// The time that a command takes to Redis, and the time of its reply.
const TRIP: Duration = Duration::from_micros(100);
/// Takes before those that are counted, by which the client learns how full the bucket of all is.
const WARM: u64 = 100;
const TAKES: u64 = 200;

/// Users come one after the other, each for the first time, with such pauses between them. Returns the number of their
/// scripts, and the control polls that there may have been meanwhile.
async fn scripts_for(all: Limit, pause: Duration) -> (u64, u64) {
    let limits = Topup::new().limit("all", all).limit("user", Limit::token_bucket(10, "10/s").keyed());
    let topup = limits.start().unwrap();
    assert!(topup.client().limit("all").take(400_000).await.unwrap().is_allowed());
    // This client knows nothing yet of what all share.
    let scripts = Arc::new(AtomicU64::new(0));
    let count = scripts.clone();
    let trip = TRIP.as_micros() as u64;
    let way = Arc::new(move |words: &mut Vec<Vec<u8>>| {
        count.fetch_add(u64::from(words[0].eq_ignore_ascii_case(b"evalsha")), Relaxed);
        (trip, trip)
    });
    let client = topup.client_by(Client::builder(), way).unwrap();
    topup.advance(SECOND).await;
    let mut before = (0, Duration::ZERO);
    for turn in 0..WARM + TAKES {
        if turn == WARM {
            before = (scripts.load(Relaxed), topup.elapsed());
        }
        let both = [(client.limit("all"), 1), (client.limit("user").key(turn.to_string()), 1)];
        let client = client.clone();
        let taken = tokio::spawn(async move { client.take_all(both).await.unwrap().is_allowed() });
        while !taken.is_finished() {
            topup.advance(TRIP).await;
        }
        assert!(taken.await.unwrap());
        topup.advance(pause).await;
    }
    let polls = (topup.elapsed() - before.1).as_millis() / 250 + 1;
    (scripts.load(Relaxed) - before.0, polls as u64)
}

#[tokio::test]
async fn a_user_and_what_all_share_cost_no_script() {
    let full = 1_000_000;
    for pause in [Duration::ZERO, SECOND / 50] {
        for (kind, all) in [
            ("leased", Limit::token_bucket(full, "1000/s").lease(1_000, 10 * SECOND)),
            ("unleased", Limit::token_bucket(full, "1000/s")),
            ("quota", Limit::quota(full, 30 * 86_400 * SECOND)),
        ] {
            let (scripts, polls) = scripts_for(all, pause).await;
            println!("{kind}, {pause:?} between two: {scripts} scripts in the time of {polls} polls");
            // A poll may hand over counts.
            assert!(scripts <= 2 * polls, "{kind}, {pause:?}");
        }
    }
}
