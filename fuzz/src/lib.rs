//! Fuzzing on stable Rust: a corpus, mutations of it by a seed, and one function for each target.
//!
//! `scripts/fuzz TARGET --seconds 60` runs one target for longer than the tests do.

pub mod mutate;
pub mod target;

use std::{fs, panic, path::PathBuf};

use anyhow::Context;
use rand::{SeedableRng, rngs::StdRng};

use crate::{mutate::mutated, target::Target};

// === impl Target ===

impl Target {
    /// The files of its corpus.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn corpus(self) -> anyhow::Result<Vec<Vec<u8>>> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name());
        let files = fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
        let mut paths: Vec<PathBuf> = files.map(|file| Ok(file?.path())).collect::<anyhow::Result<_>>()?;
        paths.sort();
        paths.iter().map(|path| Ok(fs::read(path)?)).collect()
    }

    /// Runs the corpus, then mutations of it, until `goes_on` is false. Returns the number of executions.
    ///
    /// # Errors
    /// The input that makes the target panic, and its seed.
    pub fn run(self, seed: u64, mut goes_on: impl FnMut(u64) -> bool) -> anyhow::Result<u64> {
        let corpus = self.corpus()?;
        let mut random = StdRng::seed_from_u64(seed);
        let mut executions = 0;
        while goes_on(executions) {
            let place = usize::try_from(executions).unwrap_or(usize::MAX);
            let input = corpus.get(place).cloned().unwrap_or_else(|| mutated(&corpus, &mut random));
            executions += 1;
            if panic::catch_unwind(|| self.execute(&input)).is_err() {
                let text = String::from_utf8_lossy(&input);
                anyhow::bail!("{} panics (seed {seed}, execution {executions}):\n{text:?}", self.name());
            }
        }
        Ok(executions)
    }
}
