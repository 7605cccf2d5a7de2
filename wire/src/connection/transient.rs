//! The errors after which the same request may succeed.

use std::borrow::Cow;

use redis::{ErrorKind, RedisError};

use super::redirect::is_elsewhere;

/// The mark that Redis 6.2 sets before an error within a script.
const IN_SCRIPT: &str = "@user_script: ";

/// Whether the same request may succeed later. Redis was away, starting, failing over or out of memory. Or a script was
/// killed, or a key has a wrong type until a daemon removes it.
pub fn is_transient(error: &RedisError) -> bool {
    let passing = |code: Cow<'_, str>| {
        matches!(
            &*code,
            "LOADING"
                | "BUSY"
                | "MASTERDOWN"
                | "READONLY"
                | "CLUSTERDOWN"
                | "OOM"
                | "NOREPLICAS"
                | "MISCONF"
                | "UNBLOCKED"
                | "NOSCRIPT"
                | "WRONGTYPE"
        )
    };
    error.is_io_error()
        || error.is_timeout()
        || error.is_connection_dropped()
        || code(error).is_some_and(passing)
        || is_elsewhere(error)
        || is_cut_off(error)
        // Redis kills no script that has written.
        || error.detail().is_some_and(|detail| detail.contains("Script killed by user"))
}

/// The code of an error reply. Redis 6.2 names that of an error within a script in the text only.
pub(crate) fn code(error: &RedisError) -> Option<Cow<'_, str>> {
    let text = error.to_string();
    let within = text.rsplit_once(IN_SCRIPT).and_then(|(_, within)| within.split_once(": "));
    let word = within.and_then(|(_, error)| error.trim_start_matches('-').split(' ').next());
    match word.filter(|word| word.chars().all(|letter| letter.is_ascii_uppercase())) {
        Some(word) => Some(Cow::Owned(word.to_owned())),
        None => error.code().map(Cow::Borrowed),
    }
}

/// Whether a connection ended in the middle of a reply. The redis crate reports that by a message of its parser only.
fn is_cut_off(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Parse && error.to_string().contains("Unexpected end of input")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_passes_or_it_does_not() {
        let script = "Error running script (call to f_fcc0): @user_script:312: @user_script: 312:";
        for (said, text, passes) in [
            (
                "OOM",
                "command not allowed when used memory > 'maxmemory'. script: f_fcc0, on @user_script:312.",
                true,
            ),
            ("WRONGTYPE", "Operation against a key holding the wrong kind of value", true),
            // Redis 7.0, Redis 6.2.
            (
                "ERR",
                "Error running script f_fcc0, @user_script:1: Script killed by user with SCRIPT KILL.",
                true,
            ),
            ("ERR", "user_script:1: Script killed by user with SCRIPT KILL... script: f_fcc0", true),
            ("ERR", &format!("{script} -OOM command not allowed when used memory > 'maxmemory'."), true),
            ("ERR", &format!("{script} -READONLY You can't write against a read only replica."), true),
            ("ERR", &format!("{script} WRONGTYPE Operation against a key"), true),
            ("ERR", &format!("{script} Unknown Redis command called from Lua script"), false),
            ("ERR", "value is not an integer or out of range", false),
            ("NOPERM", "No permissions to access a key", false),
            ("WRONGPASS", "invalid username-password pair or user is disabled.", false),
        ] {
            let error = redis::make_extension_error(said.into(), Some(text.into()));
            assert_eq!(is_transient(&error), passes, "{said} {text}");
        }
    }
}
