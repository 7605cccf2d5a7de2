//! The cost of takes of fixed windows, in scripts.

use std::time::Duration;

use topup::{
    Client,
    testing::{Limit, Topup},
};

use super::counted::Scripts;

const SECOND: Duration = Duration::from_secs(1);
const WINDOWS: u64 = 20;
const CAPACITY: u64 = 8;
const CLIENTS: u64 = 2;

/// Clients take in turn, so many tokens in each window. Returns the scripts that took, and the allowed takes.
async fn scripts_for(limit: Limit, takes: u64) -> (u64, u64) {
    let topup = Topup::new().limit("user", limit).start().unwrap();
    let scripts = Scripts::default();
    let clients: Vec<Client> = (0..CLIENTS).map(|_| scripts.client(&topup)).collect();
    // Amid a window, where they are aligned. Clients begin to poll.
    topup.advance(2 * SECOND + SECOND / 4).await;
    let mut allowed = 0;
    for _ in 0..WINDOWS {
        for turn in 0..takes {
            let bucket = clients[(turn % CLIENTS) as usize].limit("user");
            let taken = tokio::spawn(async move { bucket.take(1).await.unwrap().is_allowed() });
            topup.advance(SECOND / 500).await;
            allowed += u64::from(taken.await.unwrap());
        }
        // A long step would delay control polls, without which scripts take.
        let rest = SECOND + SECOND / 100 - SECOND / 500 * takes as u32;
        for _ in 0..20 {
            topup.advance(rest / 20).await;
        }
    }
    (scripts.count(), allowed)
}

#[tokio::test]
async fn takes_below_the_limit_cost_no_script_and_denied_ones_few() {
    for aligned in [false, true] {
        let limit = || if aligned { Limit::aligned_window("8/s") } else { Limit::fixed_window("8/s") };
        assert_eq!(scripts_for(limit(), CAPACITY).await, (0, CAPACITY * WINDOWS), "aligned: {aligned}");
        let (scripts, allowed) = scripts_for(limit(), 3 * CAPACITY).await;
        println!("aligned {aligned}: {scripts} scripts for {WINDOWS} windows that {CLIENTS} clients exceed");
        assert_eq!(allowed, CAPACITY * WINDOWS);
        assert!((CLIENTS..=CLIENTS * (WINDOWS + 2)).contains(&scripts), "aligned: {aligned}");
    }
}
