//! Rights of Redis users: what workers, daemons and viewers need, and nothing else.
//!
//! Redis 7.0 knows keys that a user may only read (`%R~`).

use crate::limit::Algorithm;

/// A kind of Redis user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes from buckets and puts tokens back. Reads records and heartbeats.
    Worker,
    /// Publishes limits and refills buckets.
    Daemon,
    /// Reads everything: `topupd status` and `topupd peek`.
    Viewer,
}

/// Commands of every role.
const ALL: &str = "ping select asking cluster|slots time evalsha evalsha_ro script|load get hget hmget hgetall exists \
                   pttl zscore zcard zcount zrange zrangebyscore lindex llen";
/// Commands of workers beyond those.
const WORKER: &str =
    "command|info set decr decrby incrby pexpireat del unlink hset hincrby zadd zrem rpush ltrim";
/// Commands of daemons beyond those.
const DAEMON: &str = "hdel mget mset pexpire rename scan info zremrangebyscore";

// === impl Role ===

impl Role {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Worker, Self::Daemon, Self::Viewer];

    /// The name of its user.
    pub const fn user(self) -> &'static str {
        match self {
            Self::Worker => "topup-worker",
            Self::Daemon => "topup-daemon",
            Self::Viewer => "topup-viewer",
        }
    }

    /// The command that makes its user, without a password, for keys that begin with `prefix` and a colon.
    pub fn set_user(self, prefix: &str) -> String {
        let prefix: String = prefix.chars().flat_map(escaped).collect();
        // A bucket's key may hold anything. No key of a record or a heartbeat has a brace behind the first.
        let letters: String = Algorithm::ALL.map(crate::keyspace::letter).into_iter().collect();
        let keys: Vec<String> = match self {
            Self::Worker => [
                &format!("~{prefix}:{{*}}:[{letters}]:*")[..],
                &format!("~{prefix}:{{*}}:due"),
                &format!("~{prefix}:{{*}}:former"),
                &format!("~{prefix}:{{*}}:counts"),
                &format!("~{prefix}:throttle:{{*}}"),
                &format!("%R~{prefix}:{{*}}:limit"),
                &format!("%R~{prefix}:{{topup}}:generation"),
                &format!("%R~{prefix}:{{topup}}:daemons"),
            ]
            .map(str::to_owned)
            .into(),
            Self::Daemon => vec![format!("~{prefix}:*")],
            Self::Viewer => vec![format!("%R~{prefix}:*")],
        };
        let more = match self {
            Self::Worker => WORKER.to_owned(),
            Self::Daemon => format!("{WORKER} {DAEMON}"),
            Self::Viewer => String::new(),
        };
        let commands = ALL.split(' ').chain(more.split_whitespace()).map(|command| format!(" +{command}"));
        format!("ACL SETUSER {} reset on {}{}", self.user(), keys.join(" "), commands.collect::<String>())
    }
}

/// A character of a name, as a pattern has it.
fn escaped(c: char) -> impl Iterator<Item = char> {
    matches!(c, '*' | '?' | '[' | ']' | '\\').then_some('\\').into_iter().chain([c])
}
