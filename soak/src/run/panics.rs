//! Panics of threads of this process.

use std::{sync::Mutex, thread};

/// Panics so far: the names of the threads, and the messages.
static PANICS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Remembers panics of all threads from now on.
pub fn remember_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let name = thread::current().name().unwrap_or_default().to_owned();
        if let Ok(mut panics) = PANICS.lock() {
            panics.push((name, info.to_string()));
        }
        before(info);
    }));
}

/// The messages of all panics of the threads with this name.
pub(super) fn panics_of(name: &str) -> Vec<String> {
    let panics = PANICS.lock().map(|panics| panics.clone()).unwrap_or_default();
    panics.into_iter().filter(|(thread, _)| thread == name).map(|(_, said)| said).collect()
}
