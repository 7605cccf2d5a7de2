//! The requests of a pipeline: those to be sent, and those without a reply.

use std::collections::VecDeque;

use redis::{RedisError, RedisResult};

use super::{Later, reply::Reply};

/// Most requests without a reply on one connection. More of them make no server faster. They wait here, and cost Redis
/// nothing if their callers have left by their turn.
pub(super) const MOST_UNANSWERED: usize = 1_024;
/// Requests to be sent, and requests without a reply.
pub(super) struct Queue<R> {
    /// Requests for the next write that has room for them.
    pub(super) pending: VecDeque<R>,
    /// Requests for the next write with others, or after [`SOON`](super::SOON).
    pub(super) soon: VecDeque<R>,
    /// Requests that have been sent, in the order of their commands.
    pub(super) waiting: VecDeque<Waiting<R>>,
    /// Work for after the next write.
    pub(super) later: Vec<Later>,
    /// Number of replies so far.
    pub(super) answered: u64,
    /// Whether work may wait for the next write: there is a connection, and no write that has to wait.
    pub(super) takes_later: bool,
    pub(super) closed: bool,
}

/// A request without its reply.
pub(super) struct Waiting<R> {
    pub(super) request: R,
    /// Replies still to come.
    pub(super) replies: usize,
    /// Whether a `SET` among its commands was carried out.
    pub(super) has_set: bool,
    /// The first error among the replies so far.
    pub(super) refused: Option<Box<RedisError>>,
}

/// When a pipeline writes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// At once.
    Now,
    /// With other requests, or after [`SOON`](super::SOON).
    Soon,
    /// When a request comes.
    Nothing,
    /// Never again.
    NoMore,
}

// === impl Queue ===

impl<R> Queue<R> {
    pub(super) fn next(&self) -> Next {
        match self.unsent() {
            0 if self.closed => Next::NoMore,
            0 => Next::Nothing,
            _ if self.waiting.len() >= MOST_UNANSWERED => Next::Nothing,
            _ if self.pending.is_empty() && !self.closed => Next::Soon,
            _ => Next::Now,
        }
    }

    /// Requests that are not encoded yet.
    pub(super) fn unsent(&self) -> usize {
        self.soon.len() + self.pending.len()
    }

    /// Takes out the requests that have room, in the order of sending.
    pub(super) fn take_pending(&mut self) -> VecDeque<R> {
        let room = MOST_UNANSWERED.saturating_sub(self.waiting.len());
        if self.soon.is_empty() && self.pending.len() <= room {
            // The whole queue is taken, and a new one of the same size is left.
            let next = VecDeque::with_capacity(self.pending.len());
            return std::mem::replace(&mut self.pending, next);
        }
        let soon = self.soon.len().min(room);
        let pending = self.pending.len().min(room - soon);
        self.soon.drain(..soon).chain(self.pending.drain(..pending)).collect()
    }

    /// Matches replies to requests. Returns the requests that are complete, each with its reply; `None` if there are
    /// more replies than commands.
    pub(super) fn answer(
        &mut self,
        answers: impl Iterator<Item = RedisResult<Reply>>,
    ) -> Option<Vec<(R, RedisResult<Reply>)>> {
        let mut answered = Vec::with_capacity(answers.size_hint().0);
        for answer in answers {
            let waiting = self.waiting.front_mut()?;
            self.answered += 1;
            waiting.replies -= 1;
            let answer = waiting.refused.take().map_or(answer, |error| Err(*error));
            if waiting.replies > 0 {
                waiting.has_set |= matches!(answer, Ok(Reply::Done));
                waiting.refused = answer.err().map(Box::new);
                continue;
            }
            let answer = match answer {
                Ok(Reply::Number(number)) if waiting.has_set => Ok(Reply::NumberAfterSet(number)),
                answer => answer,
            };
            if let Some(Waiting { request, .. }) = self.waiting.pop_front() {
                answered.push((request, answer));
            }
        }
        Some(answered)
    }
}

impl<R> Default for Queue<R> {
    fn default() -> Self {
        Self {
            pending: VecDeque::new(),
            soon: VecDeque::new(),
            waiting: VecDeque::new(),
            later: Vec::new(),
            answered: 0,
            takes_later: false,
            closed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::ErrorKind;

    use super::*;

    fn waiting(request: u32, replies: usize) -> Waiting<u32> {
        Waiting { request, replies, has_set: false, refused: None }
    }

    /// Completed requests, an error by its message.
    fn told(queue: &mut Queue<u32>, answers: Vec<RedisResult<Reply>>) -> Vec<(u32, Result<Reply, String>)> {
        let answered = queue.answer(answers.into_iter()).unwrap();
        answered.into_iter().map(|(request, answer)| (request, answer.map_err(|e| e.to_string()))).collect()
    }

    fn refusal(why: &'static str) -> RedisResult<Reply> {
        Err(RedisError::from((ErrorKind::Io, why)))
    }

    #[test]
    fn a_request_gets_the_last_reply_to_its_commands_or_the_first_error() {
        let mut queue = Queue::default();
        queue.waiting.extend([waiting(1, 2), waiting(2, 1), waiting(3, 3), waiting(4, 2)]);
        assert_eq!(told(&mut queue, vec![Ok(Reply::Done)]), []);
        let told_next = told(&mut queue, vec![Ok(Reply::Number(7)), Ok(Reply::Nothing), Ok(Reply::Done)]);
        assert_eq!(told_next, [(1, Ok(Reply::NumberAfterSet(7))), (2, Ok(Reply::Nothing))]);
        let refused = told(&mut queue, vec![refusal("first"), refusal("second"), refusal("of another")]);
        let [(3, Err(message))] = refused.as_slice() else { panic!("{refused:?}") };
        assert!(message.contains("first"), "{message}");
        let refused = told(&mut queue, vec![Ok(Reply::Done)]);
        let [(4, Err(message))] = refused.as_slice() else { panic!("{refused:?}") };
        assert!(message.contains("of another"), "{message}");
        assert!(queue.answer([Ok(Reply::Done)].into_iter()).is_none());
    }

    #[test]
    fn what_may_wait_goes_with_others_and_before_them() {
        let mut queue = Queue::default();
        assert_eq!(queue.next(), Next::Nothing);
        queue.soon.extend([1, 2]);
        assert_eq!(queue.next(), Next::Soon);
        queue.pending.push_back(3);
        assert_eq!(queue.next(), Next::Now);
        assert_eq!(queue.take_pending(), [1, 2, 3]);
        queue.soon.push_back(4);
        queue.closed = true;
        assert_eq!(queue.next(), Next::Now);
        queue.waiting.extend((0..MOST_UNANSWERED as u32).map(|request| waiting(request, 1)));
        assert_eq!((queue.next(), queue.take_pending()), (Next::Nothing, VecDeque::new()));
        queue.soon.clear();
        assert_eq!(queue.next(), Next::NoMore);
    }
}
