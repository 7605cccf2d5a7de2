//! Which limiter is exact, and what does each cost? Every algorithm of topup's and the forms in which rate limiting on
//! Redis is usually written, under the same traffic on one real Redis, scored against an exact oracle.

pub mod clock;
pub mod oracle;
pub mod rule;
pub mod score;
pub mod take;
