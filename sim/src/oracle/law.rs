//! Laws, and by how much they were broken.

/// A law that was broken, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which bucket.
    pub bucket: usize,
    /// The instant, in µs of the run.
    pub at: u64,
    /// Which law, and by how much.
    pub law: Law,
}

/// A law, and by how much it was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Law {
    /// Law 1: more was admitted than the capacity and the rate allow, by so many thousandths of a token.
    Over(u64),
    /// Law 2: in a window of a bucket asked above its rate, so many thousandths of a token fewer than the rate came.
    Starved(u64),
    /// Law 3: so many thousandths of a token are neither in the bucket nor anywhere else.
    Vanished(u64),
    /// Law 4: a bucket has a key though it has been full for seconds.
    KeyStays(String),
    /// The only caller of a bucket waited as long as a denial told, and was denied again, for so many µs.
    ToldTooEarly(u64),
    /// A caller was not answered in time: after so many µs, or not at all.
    Unanswered(Option<u64>),
    /// The code panicked.
    Panicked(String),
}
