//! The terminal as a screen: taken over when opened, and given back when dropped, also by a panic.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event},
};
use tokio::sync::mpsc;

use super::{model::Model, view};

/// The longest time for which the thread of events does not notice that the screen is closed.
const NOTICES: Duration = Duration::from_millis(50);

/// The screen, and the events of its keys.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    events: mpsc::UnboundedReceiver<Event>,
    closed: Arc<AtomicBool>,
    reader: Option<thread::JoinHandle<()>>,
}

// === impl Screen ===

impl Screen {
    /// Takes the terminal over. A panic gives it back before its message.
    pub(super) fn open() -> io::Result<Self> {
        let terminal = ratatui::try_init()?;
        let (sender, events) = mpsc::unbounded_channel();
        let closed = Arc::new(AtomicBool::new(false));
        let is_closed = closed.clone();
        let reader = thread::spawn(move || {
            // An error, or a receiver that is gone, ends the events.
            while !is_closed.load(Relaxed) {
                match event::poll(NOTICES) {
                    Ok(false) => {}
                    Ok(true) => match event::read().map(|event| sender.send(event)) {
                        Ok(Ok(())) => {}
                        _ => return,
                    },
                    Err(_) => return,
                }
            }
        });
        Ok(Self { terminal, events, closed, reader: Some(reader) })
    }

    pub(super) fn draw(&mut self, model: &mut Model) -> io::Result<()> {
        self.terminal.draw(|frame| view::draw(frame, model)).map(drop)
    }

    /// The next event; `None` once the terminal has none any more.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.closed.store(true, Relaxed);
        // It reads from the terminal, whose mode is about to change.
        self.reader.take().map(thread::JoinHandle::join);
        ratatui::restore();
    }
}
