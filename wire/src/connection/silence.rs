//! Gives up a connection whose server is silent, though the network acknowledges what is sent to it.
//!
//! A proxy or a host on the way may have lost the connection and not say so. A new connection then works at once.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::{
    VANISHED,
    halves::{Reader, Writer},
};

/// A reading half that fails when something was written and nothing comes, for [`VANISHED`] at least and twice that at
/// most.
struct WatchedReader {
    reader: Reader,
    /// Whether something was written since something came.
    written: Arc<AtomicBool>,
    /// Whether it was so when the timer was set.
    is_silent: bool,
    timer: Pin<Box<Sleep>>,
}

/// The writing half beside it.
struct WatchedWriter {
    writer: Writer,
    written: Arc<AtomicBool>,
}

/// The two halves of a connection, watched.
pub(super) fn watch((reader, writer): (Reader, Writer)) -> (Reader, Writer) {
    let written = Arc::new(AtomicBool::new(false));
    let timer = Box::pin(sleep(VANISHED));
    let reader = WatchedReader { reader, written: written.clone(), is_silent: false, timer };
    (Box::new(reader), Box::new(WatchedWriter { writer, written }))
}

// === impl WatchedReader ===

impl AsyncRead for WatchedReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.reader).poll_read(cx, buffer) {
            self.written.store(false, Relaxed);
            self.is_silent = false;
            return Poll::Ready(read);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if self.is_silent {
                let late = format!("the connection was silent for {VANISHED:?}");
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, late)));
            }
            self.is_silent = self.written.load(Relaxed);
            self.timer.set(sleep(VANISHED));
        }
    }
}

// === impl WatchedWriter ===

impl AsyncWrite for WatchedWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.written.store(true, Relaxed);
        Pin::new(&mut self.writer).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split},
        time::{advance, timeout},
    };

    use super::*;

    fn watched() -> (Reader, Writer, DuplexStream) {
        let (ours, theirs) = duplex(64);
        let (reader, writer) = split(ours);
        let (reader, writer) = watch((Box::new(reader), Box::new(writer)));
        (reader, writer, theirs)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_given_up_after_ten_seconds_at_most() {
        let (mut reader, mut writer, _theirs) = watched();
        advance(Duration::from_millis(3_700)).await;
        writer.write_all(b"PING").await.unwrap();
        assert!(timeout(VANISHED, reader.read_u8()).await.is_err(), "not before five seconds");
        let late = timeout(VANISHED, reader.read_u8()).await.unwrap().unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn so_is_one_that_had_just_answered_and_to_which_nothing_more_is_written() {
        let (mut reader, mut writer, mut theirs) = watched();
        advance(Duration::from_millis(3_700)).await;
        writer.write_all(b"?").await.unwrap();
        theirs.write_all(b"!").await.unwrap();
        assert_eq!(reader.read_u8().await.unwrap(), b'!');
        writer.write_all(b"?").await.unwrap();
        assert!(timeout(VANISHED, reader.read_u8()).await.is_err(), "not before five seconds");
        let late = timeout(VANISHED, reader.read_u8()).await.unwrap().unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_idle_or_answers_stays() {
        let (mut reader, mut writer, mut theirs) = watched();
        assert!(timeout(100 * VANISHED, reader.read_u8()).await.is_err(), "idle");
        for _ in 0..10 {
            writer.write_all(b"?").await.unwrap();
            assert!(timeout(VANISHED * 9 / 10, reader.read_u8()).await.is_err(), "slow");
            theirs.write_all(b"!").await.unwrap();
            assert_eq!(reader.read_u8().await.unwrap(), b'!');
        }
        assert!(timeout(100 * VANISHED, reader.read_u8()).await.is_err(), "idle");
    }
}
