//! The bytes of a connection.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Carries out a command, and appends its reply.
type Execute = dyn Fn(&[&[u8]], &mut Vec<u8>) + Send + Sync;

/// The words of a command.
type Words<'b> = Vec<&'b [u8]>;

/// One connection: commands written, and replies not yet read.
pub(super) struct Pipe {
    execute: Box<Execute>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    commands: Vec<u8>,
    replies: Vec<u8>,
    reader: Option<Waker>,
    is_broken: bool,
}

/// The reading half.
pub(crate) struct ReadHalf(Arc<Pipe>);
/// The writing half.
pub(crate) struct WriteHalf(Arc<Pipe>);

/// Both halves of a connection.
pub(super) fn halves(pipe: Arc<Pipe>) -> (ReadHalf, WriteHalf) {
    (ReadHalf(pipe.clone()), WriteHalf(pipe))
}

// === impl Pipe ===

impl Pipe {
    pub(super) fn new(execute: impl Fn(&[&[u8]], &mut Vec<u8>) + Send + Sync + 'static) -> Self {
        Self { execute: Box::new(execute), state: Mutex::default() }
    }

    /// Ends the connection, as a server does that goes away.
    pub(super) fn break_off(&self) {
        let mut state = self.lock();
        state.is_broken = true;
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        if state.is_broken {
            // No byte is the end of a connection.
            return Poll::Ready(Ok(()));
        }
        if state.replies.is_empty() {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = state.replies.len().min(buffer.remaining());
        buffer.put_slice(&state.replies[..count]);
        state.replies.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock();
        if state.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let State { commands, replies, reader, .. } = &mut *state;
        commands.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((words, length)) = parse(&commands[at..])? {
            (self.0.execute)(&words, replies);
            at += length;
        }
        commands.drain(..at);
        if !replies.is_empty()
            && let Some(reader) = reader.take()
        {
            reader.wake();
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The words of the first command and its length; `None` if it is not complete yet.
fn parse(bytes: &[u8]) -> io::Result<Option<(Words<'_>, usize)>> {
    let Some((count, mut at)) = header(bytes, b'*')? else { return Ok(None) };
    let mut words = Vec::with_capacity(count.min(1_024));
    for _ in 0..count {
        let Some((length, begin)) = header(&bytes[at..], b'$')? else { return Ok(None) };
        let begin = at + begin;
        let Some(word) = bytes.get(begin..begin.saturating_add(length)) else { return Ok(None) };
        if bytes.len() < begin + length + 2 {
            return Ok(None);
        }
        words.push(word);
        at = begin + length + 2;
    }
    Ok(Some((words, at)))
}

/// The number in a line that begins with `kind`, and the length of the line.
fn header(bytes: &[u8], kind: u8) -> io::Result<Option<(usize, usize)>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let number = bytes.strip_prefix(&[kind]).and_then(|rest| rest.get(..end.checked_sub(2)?));
    let number = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    match number {
        Some(number) => Ok(Some((number, end + 1))),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "no command of Redis")),
    }
}
