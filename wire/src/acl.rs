//! Rights of Redis users: what workers, daemons and viewers need, and nothing else.
//!
//! Redis 7.0 knows keys that a user may only read (`%R~`).

use crate::{
    keyspace::{FAIR_SHARES_LETTER, PERMIT_LETTERS},
    limit::Algorithm,
    namespace::Namespace,
};

/// A kind of Redis user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes from buckets, puts tokens back and pauses limits. Reads records and heartbeats.
    Worker,
    /// Publishes limits and refills buckets.
    Daemon,
    /// Reads everything: `topupd status` and `topupd peek`.
    Viewer,
    /// A worker that defines limits by code, too.
    Definer,
}

/// Commands of every role.
const ALL: &str = "ping select asking cluster|slots role time evalsha evalsha_ro script|load get mget hget hmget hgetall \
                   hlen exists type pttl zscore zcard zcount zrange zrangebyscore lindex llen getrange";
/// Commands of workers beyond those.
const WORKER: &str = "command|info set decr decrby incrby pexpire pexpireat del unlink hset hincrby zadd zrem zremrangebyscore rpush ltrim setbit";
/// Commands of definers beyond those of workers.
const DEFINER: &str = "hdel persist rename scan";
/// Commands of daemons beyond those.
const DAEMON: &str = "hdel mset persist rename scan info setrange";

// === impl Role ===

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Worker, Self::Daemon, Self::Viewer, Self::Definer];

    /// The name of its user.
    pub const fn user(self) -> &'static str {
        match self {
            Self::Worker => "topup-worker",
            Self::Daemon => "topup-daemon",
            Self::Viewer => "topup-viewer",
            Self::Definer => "topup-definer",
        }
    }

    /// The command that makes its user, without a password, for the keys of `namespace`.
    pub fn set_user(self, namespace: Namespace) -> String {
        // No character of a namespace has a meaning in patterns.
        let prefix = namespace.as_str();
        // A bucket's key may hold anything. No key of a record or a heartbeat has a brace behind the first.
        let letters = Algorithm::ALL.map(crate::keyspace::letter).into_iter().chain(PERMIT_LETTERS);
        let letters: String = letters.chain([FAIR_SHARES_LETTER]).collect();
        let keys: Vec<String> = match self {
            Self::Worker => [
                &format!("~{prefix}:{{*}}:[{letters}]:*")[..],
                &format!("~{prefix}:{{*}}:due"),
                &format!("~{prefix}:{{*}}:former"),
                &format!("~{prefix}:{{*}}:holds"),
                &format!("~{prefix}:{{*}}:settled:*"),
                &format!("~{prefix}:{{*}}:permits"),
                &format!("~{prefix}:{{*}}:counts"),
                &format!("~{prefix}:{{*}}:top[0-5]"),
                &format!("~{prefix}:{{*}}:penalty:*"),
                &format!("~{prefix}:throttle:{{*}}"),
                &format!("%R~{prefix}:{{*}}:limit"),
                &format!("~{prefix}:{{{prefix}}}:workers"),
                &format!("~{prefix}:{{{prefix}}}:pauses"),
                &format!("~{prefix}:{{{prefix}}}:assign*"),
                &format!("~{prefix}:{{{prefix}}}:moved:*"),
                &format!("%R~{prefix}:{{{prefix}}}:generation"),
                &format!("%R~{prefix}:{{{prefix}}}:changes"),
                &format!("%R~{prefix}:{{{prefix}}}:limits"),
                &format!("%R~{prefix}:{{{prefix}}}:daemons"),
                &format!("%R~{prefix}:{{{prefix}}}:schema"),
            ]
            .map(str::to_owned)
            .into(),
            // A user who writes records may do all that a daemon may.
            Self::Daemon | Self::Definer => vec![format!("~{prefix}:*")],
            Self::Viewer => vec![format!("%R~{prefix}:*")],
        };
        let more = match self {
            Self::Worker => WORKER.to_owned(),
            Self::Definer => format!("{WORKER} {DEFINER}"),
            Self::Daemon => format!("{WORKER} {DAEMON}"),
            Self::Viewer => String::new(),
        };
        let commands = ALL.split(' ').chain(more.split_whitespace()).map(|command| format!(" +{command}"));
        format!("ACL SETUSER {} reset on {}{}", self.user(), keys.join(" "), commands.collect::<String>())
    }
}
