//! The bytes of a connection.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::InMemoryRedis;

/// The words of a command.
type Words<'b> = Vec<&'b [u8]>;

/// One connection: commands written, and replies not yet read.
pub(super) struct Pipe {
    redis: InMemoryRedis,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    commands: Vec<u8>,
    /// Commands on their way: the instant at which each arrives, and the time that its reply takes.
    sent: VecDeque<(u64, u64, Vec<Vec<u8>>)>,
    /// Replies on their way, and the instants at which they arrive.
    answered: VecDeque<(u64, Vec<u8>)>,
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
    pub(super) fn new(redis: InMemoryRedis) -> Self {
        Self { redis, state: Mutex::default() }
    }

    /// The next instant at which something on its way arrives.
    pub(super) fn next(&self) -> Option<u64> {
        let state = self.lock();
        let command = state.sent.front().map(|(at, ..)| *at);
        command.into_iter().chain(state.answered.front().map(|(at, _)| *at)).min()
    }

    /// Lets everything arrive that is due. Returns whether anything was.
    pub(super) fn deliver(&self) -> bool {
        let (now, mut state) = (self.redis.now(), self.lock());
        let State { sent, answered, replies, reader, .. } = &mut *state;
        let mut any = false;
        while let Some((at, back, words)) =
            sent.front().is_some_and(|(at, ..)| *at <= now).then(|| sent.pop_front()).flatten()
        {
            let words: Words<'_> = words.iter().map(Vec::as_slice).collect();
            let mut reply = Vec::new();
            self.redis.execute(&words).encode(&mut reply);
            let after = answered.back().map_or(0, |(at, _)| *at);
            answered.push_back((after.max(at + back), reply));
            any = true;
        }
        while let Some((_, reply)) =
            answered.front().is_some_and(|(at, _)| *at <= now).then(|| answered.pop_front()).flatten()
        {
            replies.extend(reply);
            any = true;
        }
        if !replies.is_empty()
            && let Some(reader) = reader.take()
        {
            reader.wake();
        }
        any
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
        let (redis, State { commands, sent, replies, reader, .. }) = (&self.0.redis, &mut *state);
        commands.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((words, length)) = parse(&commands[at..])? {
            if let Some(way) = redis.way() {
                let mut words: Vec<Vec<u8>> = words.into_iter().map(<[u8]>::to_vec).collect();
                let (there, back) = way(&mut words);
                let after = sent.back().map_or(0, |(at, ..)| *at);
                sent.push_back((after.max(redis.now() + there), back, words));
            } else {
                redis.execute(&words).encode(replies);
            }
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
