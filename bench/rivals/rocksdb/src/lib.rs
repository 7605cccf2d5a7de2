//! As much of RocksDB's interface as limitador needs to compile. A database can never be opened, so none of it runs.
//! Without it, a benchmark that stores nothing on disk would wait twenty minutes for C++.
#![allow(clippy::all, clippy::pedantic, missing_docs, reason = "the interface is not ours")]

use std::{convert::Infallible, fmt, marker::PhantomData, path::Path};

pub type DB = DBWithThreadMode<MultiThreaded>;

pub struct DBWithThreadMode<T>(Infallible, PhantomData<T>);

pub struct MultiThreaded;

#[derive(Default)]
pub struct Options;

#[derive(Debug)]
pub struct Error;

#[derive(PartialEq, Eq)]
pub enum ErrorKind {
    TimedOut,
    TryAgain,
    Unavailable,
}

pub enum CompactionDecision {
    Keep,
    Remove,
}

pub enum DBCompressionType {
    None,
    Bz2,
}

pub enum IteratorMode<'a> {
    Start,
    From(&'a [u8], Direction),
}

pub enum Direction {
    Forward,
}

type Entry = Result<(Box<[u8]>, Box<[u8]>), Error>;

impl<T> DBWithThreadMode<T> {
    pub fn open(_: &Options, _: impl AsRef<Path>) -> Result<Self, Error> {
        Err(Error)
    }

    pub fn get(&self, _: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        match self.0 {}
    }

    pub fn merge(&self, _: impl AsRef<[u8]>, _: impl AsRef<[u8]>) -> Result<(), Error> {
        match self.0 {}
    }

    pub fn delete(&self, _: impl AsRef<[u8]>) -> Result<(), Error> {
        match self.0 {}
    }

    pub fn iterator(&self, _: IteratorMode<'_>) -> std::vec::IntoIter<Entry> {
        match self.0 {}
    }

    pub fn prefix_iterator(&self, _: impl AsRef<[u8]>) -> std::vec::IntoIter<Entry> {
        match self.0 {}
    }
}

impl Options {
    pub fn create_if_missing(&mut self, _: bool) {}

    pub fn set_compression_type(&mut self, _: DBCompressionType) {}

    pub fn set_compaction_filter(
        &mut self,
        _: &str,
        _: impl FnMut(u32, &[u8], &[u8]) -> CompactionDecision + Send + 'static,
    ) {
    }

    pub fn set_merge_operator_associative(
        &mut self,
        _: &str,
        _: impl Fn(&[u8], Option<&[u8]>, &MergeOperands) -> Option<Vec<u8>> + Clone + Send + Sync + 'static,
    ) {
    }
}

pub struct MergeOperands;

impl<'a> IntoIterator for &'a MergeOperands {
    type Item = &'a [u8];
    type IntoIter = std::iter::Empty<&'a [u8]>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::empty()
    }
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Unavailable
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RocksDB is not part of this build")
    }
}

impl std::error::Error for Error {}
