//! A client whose scripts are counted.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use topup::{Client, testing::Topup};

/// The number of scripts so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripts(Arc<AtomicU64>);

// === impl Scripts ===

impl Scripts {
    /// A client that adds its takes and put-backs by script to this number. Commands and replies take 100 µs each.
    pub(crate) fn client(&self, topup: &Topup) -> Client {
        let scripts = self.clone();
        let way = Arc::new(move |words: &mut Vec<Vec<u8>>| {
            let takes = |word: &Vec<u8>| [b"take".as_slice(), b"share", b"refund"].contains(&word.as_slice());
            scripts.0.fetch_add(u64::from(words.iter().any(takes)), Relaxed);
            (100, 100)
        });
        topup.client_by(Client::builder(), way).unwrap()
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
