//! Calls of scripts by users who may read what daemons publish, and not write it.
//!
//! By default, all keys that a script touches are in its `KEYS`: managed and multi-threaded servers want that. `EVALSHA`
//! then asks for the right to write all of them. A worker without that right names the records in `ARGV` instead, or
//! where it only reads calls `EVALSHA_RO`. The text of a script is another one then, so the default costs no more.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use redis::{Cmd, RedisError, Script};

use crate::{constants::with_constants, keyspace::is_published};

/// The forms of scripts for users without the right to write records, by the hash of their default form. Scripts by
/// which only daemons write have none.
static FORMS: RwLock<Option<HashMap<String, Form>>> = RwLock::new(None);

/// A script for users without the right to write records.
#[derive(Clone, Debug)]
enum Form {
    /// It only reads, and may be called as such.
    Reads,
    /// It takes records as arguments.
    Moves(Arc<Moved>),
}

/// A script with records as arguments.
#[derive(Debug)]
struct Moved {
    hash: String,
    text: String,
}

/// A call of a script with records as arguments.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    script: Arc<Moved>,
    pub(crate) keys: Vec<&'a [u8]>,
    pub(crate) args: Vec<Cow<'a, [u8]>>,
}

/// The script of `text`, which workers call.
pub(crate) fn script(text: &str) -> Script {
    let script = Script::new(text);
    let text = [&with_constants(include_str!("scripts/records_as_arguments.lua")), text].concat();
    let moved = Moved { hash: Script::new(&text).get_hash().to_owned(), text };
    set_form(&script, Form::Moves(Arc::new(moved)));
    script
}

/// The script of `text`, which only reads.
pub(crate) fn reading_script(text: &str) -> Script {
    let script = Script::new(text);
    set_form(&script, Form::Reads);
    script
}

fn set_form(script: &Script, form: Form) {
    let mut forms = FORMS.write().unwrap_or_else(PoisonError::into_inner);
    forms.get_or_insert_default().insert(script.get_hash().to_owned(), form);
}

fn form_of(hash: &[u8]) -> Option<Form> {
    let forms = FORMS.read().unwrap_or_else(PoisonError::into_inner);
    forms.as_ref()?.get(std::str::from_utf8(hash).ok()?).cloned()
}

/// Whether `error` says that the user may not do this, and that nothing was done.
pub fn is_not_permitted(error: &RedisError) -> bool {
    // A script that was refused a command may have carried out others before.
    let in_script = |detail: &str| detail.contains("script:") || detail.contains("executing the script");
    error.code() == Some("NOPERM") && !error.detail().is_some_and(in_script)
}

// === impl Call ===

impl<'a> Call<'a> {
    /// The call of the script `hash`, with its records as arguments; `None` if it has none, or no such form.
    pub(crate) fn new(hash: &[u8], keys: &[&'a [u8]], args: &[&'a [u8]]) -> Option<Self> {
        let Some(Form::Moves(script)) = form_of(hash) else { return None };
        let (records, others): (Vec<_>, Vec<_>) = (1..).zip(keys).partition(|(_, key)| is_published(key));
        let mut moved = vec![Cow::Owned(records.len().to_string().into_bytes())];
        for (position, record) in &records {
            moved.push(Cow::Owned(format!("{position}").into_bytes()));
            moved.push(Cow::Borrowed(**record));
        }
        moved.extend(args.iter().copied().map(Cow::Borrowed));
        let keys = others.into_iter().map(|(_, key)| *key).collect();
        (!records.is_empty()).then_some(Self { script, keys, args: moved })
    }

    /// The hash of the script's text.
    pub(crate) fn hash(&self) -> &str {
        &self.script.hash
    }
}

/// `command`, a call of a script, as such a user may send it, and the command that loads its text. `None` for other
/// commands.
pub(crate) fn permitted(command: &Cmd) -> Option<(Cmd, Option<Cmd>)> {
    let words: Vec<&[u8]> = command
        .args_iter()
        .filter_map(|arg| if let redis::Arg::Simple(word) = arg { Some(word) } else { None })
        .collect();
    let [b"EVALSHA", hash, count, rest @ ..] = words.as_slice() else { return None };
    let (keys, args) = rest.split_at_checked(text(count).parse().ok()?)?;
    let mut call = Cmd::new();
    // Only users with the right to write pause a limit.
    if args.first().is_some_and(|first| [&b"pause"[..], b"resume", b"clear"].contains(first)) {
        return None;
    }
    // A peek is the only operation that writes nothing.
    let is_peek = args.first() == Some(&&b"peek"[..]);
    if is_peek || form_of(hash).is_some_and(|form| matches!(form, Form::Reads)) {
        words[1..].iter().fold(call.arg("EVALSHA_RO"), |call, word| call.arg(*word));
        return Some((call, None));
    }
    let moved = Call::new(hash, keys, args)?;
    call.arg("EVALSHA").arg(moved.hash()).arg(moved.keys.len());
    call.arg(&moved.keys).arg(moved.args.iter().map(|arg| &arg[..]).collect::<Vec<_>>());
    let mut load = Cmd::new();
    load.arg("SCRIPT").arg("LOAD").arg(&moved.script.text);
    Some((call, Some(load)))
}

fn text<'a>(word: &&'a [u8]) -> &'a str {
    std::str::from_utf8(word).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_move_to_the_arguments_and_nothing_else_does() {
        let hash = script("return 1").get_hash().to_owned();
        let keys: [&[u8]; 4] =
            [b"topup:{a:0}:b:}:limit", b"topup:{a:0}:limit", b"topup:{a:0}:due", b"topup:{a:0}:former"];
        let call = Call::new(hash.as_bytes(), &keys, &[b"take", b"1"]).unwrap();
        assert_eq!(call.keys, [keys[0], keys[2], keys[3]]);
        assert_eq!(
            call.args,
            ["1", "2", "topup:{a:0}:limit", "take", "1"].map(|arg| arg.as_bytes().to_vec())
        );
        assert!(Call::new(hash.as_bytes(), &keys[..1], &[]).is_none());
        assert!(Call::new(b"0", &keys, &[]).is_none());
    }

    #[test]
    fn what_only_reads_is_called_as_such() {
        let mut command = Cmd::new();
        command
            .arg("EVALSHA")
            .arg("ab")
            .arg(2)
            .arg("topup:{a:0}:limit")
            .arg("topup:{a:0}:s:k")
            .arg("peek")
            .arg(1);
        let (call, load) = permitted(&command).unwrap();
        assert!(call.get_packed_command().starts_with(b"*7\r\n$10\r\nEVALSHA_RO\r\n") && load.is_none());
        assert!(permitted(Cmd::new().arg("GET").arg("EVALSHA")).is_none());
        let call = |script: &Script| {
            let mut command = Cmd::new();
            command.arg("EVALSHA").arg(script.get_hash()).arg(1).arg("topup:{topup}:generation");
            permitted(&command).map(|(call, _)| call.get_packed_command())
        };
        let read = call(&reading_script("return 2")).unwrap();
        assert!(read.starts_with(b"*4\r\n$10\r\nEVALSHA_RO\r\n"));
        // A script of daemons may write.
        assert_eq!(call(&Script::new("return 3")), None);
    }
}
