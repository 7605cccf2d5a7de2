//! Trouble with Redis in an operator's words: the cause and its remedy.

use topup_wire::connection::Cause;

/// The `cause` in words.
pub fn what(cause: Cause) -> &'static str {
    match cause {
        Cause::Refused => "Redis is away: nothing listens at its address",
        Cause::Unreachable => "Redis is away: its host cannot be reached",
        Cause::Silent => "Redis is away: it does not answer in time",
        Cause::Closed => "Redis is away: connections to it break",
        Cause::Password => "Redis refuses the password",
        Cause::Rights => "Redis refuses: the user has too few rights",
        Cause::Tls => "Redis refuses: TLS on one side only, or a certificate that does not fit",
        Cause::Loading => "Redis is loading its data",
        Cause::Busy => "Redis is busy with a script of another user",
        Cause::Replica => "Redis refuses: it is a read-only replica",
        Cause::Memory => "Redis refuses: it is out of memory",
        Cause::Disk => "Redis refuses: it cannot save its data to disk",
        Cause::Replicas => "Redis refuses: it has too few replicas",
        Cause::Clients => "Redis refuses: it has too many clients",
        Cause::Cluster => "Redis refuses: a part of the cluster is down",
        Cause::Sentinel => "Redis is away: the sentinels tell no master",
        Cause::Other => "Redis refuses",
    }
}

/// The remedy for a `cause`.
pub fn action(cause: Cause) -> &'static str {
    match cause {
        Cause::Refused => "start Redis, or correct the URL",
        Cause::Unreachable => "check the host in the URL, the network and firewalls",
        Cause::Silent => "Redis hangs, or one long command holds it up: see SLOWLOG and its machine",
        Cause::Closed => "see the log of Redis, and proxies on the way",
        Cause::Password => {
            "the password in redis.url, TOPUP_REDIS_URL or the credential redis-url is missing or wrong"
        }
        Cause::Rights => "give the user its rights: topupd acl prints the commands for Redis",
        Cause::Tls => {
            "write rediss:// for a port with TLS and redis:// for one without, and see tls_ca and tls_cert"
        }
        Cause::Loading => "wait: Redis answers when it has read its data",
        Cause::Busy => "wait, or end the script: SCRIPT KILL",
        Cause::Replica => "name the master in the URL, or promote the replica: REPLICAOF NO ONE",
        Cause::Memory => "raise maxmemory, or remove other data",
        Cause::Disk => "free disk space, and see the log of Redis for its last BGSAVE",
        Cause::Replicas => "bring replicas back, or lower min-replicas-to-write",
        Cause::Clients => "raise maxclients, or end idle connections",
        Cause::Cluster => "mend the cluster: redis-cli --cluster check",
        Cause::Sentinel => {
            "check the sentinels in the URL, the name of the master behind them, and sentinel_password"
        }
        Cause::Other => "see the error, and the log of Redis",
    }
}
