//! Notes of a run: for the judge, of broken laws, and for the story of a bucket.

use super::World;
use crate::oracle::{Broken, Law, Note};

// === impl World ===

impl World {
    pub(crate) fn breaks(&mut self, bucket: usize, law: Law) {
        self.broken.push(Broken { bucket, at: self.now, law });
    }

    /// Notes what happened to a bucket now.
    pub(crate) fn note(&mut self, bucket: usize, note: Note) {
        let order = self.next_order();
        self.books[bucket].notes.push((self.now, order, note));
    }

    /// Notes what happened to every bucket.
    pub(crate) fn note_all(&mut self, note: Note) {
        for bucket in 0..self.books.len() {
            self.note(bucket, note);
        }
    }

    /// Adds a line to the story of a bucket.
    pub(crate) fn tell(&mut self, bucket: usize, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push((self.now, bucket, line()));
        }
    }

    /// The story of everything.
    pub(crate) fn story(&mut self) -> Vec<(u64, usize, String)> {
        self.story.take().unwrap_or_default()
    }

    /// Allows the tokens of keys that ended too soon once more. Such a key ended before a change of terms reached it,
    /// or while no limit was known after a flush.
    pub(super) fn note_gifts(&mut self) {
        for (bucket, tokens, by_itself) in std::mem::take(&mut self.server.gifts) {
            // Before whatever else happened at this instant, if it was not the command itself.
            let order = if by_itself { self.next_order() } else { 0 };
            self.books[bucket].notes.push((self.now, order, Note::Given(tokens)));
            self.tell(bucket, || format!("REDIS has let a key go too soon: {tokens} tokens too many"));
        }
    }
}
