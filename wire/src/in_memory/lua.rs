//! Scripts, by Lua 5.1 as in Redis.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use mlua::{Error, Function, Lua, LuaOptions, MultiValue, Result, StdLib, Table, Value};
use redis::Script;

use super::{
    commands,
    database::Database,
    numbers::{number, number_text},
    reply::Reply,
    structs,
};

/// The number in `redis.REDIS_VERSION_NUM`: 7.2.
const VERSION: u32 = 0x0007_0200;

/// Scripts that were loaded, and what runs them.
pub(super) struct Scripts {
    database: Arc<Mutex<Database>>,
    /// Made for the first script.
    lua: Option<Lua>,
    loaded: HashMap<Vec<u8>, Function>,
    /// The error of the last `redis.call` that raised one.
    raised: Arc<Mutex<Option<String>>>,
    /// A text in scripts, and what stands there instead.
    planted: Option<(&'static str, &'static str)>,
}

// === impl Scripts ===

impl Scripts {
    pub(super) fn new(database: Arc<Mutex<Database>>) -> Self {
        Self { database, lua: None, loaded: HashMap::new(), raised: Arc::default(), planted: None }
    }

    pub(super) fn plant(&mut self, from: &'static str, to: &'static str) {
        self.planted = Some((from, to));
    }

    /// Carries out a command of scripts; `None` if it is another one.
    pub(super) fn execute(&mut self, words: &[&[u8]]) -> Option<Reply> {
        let (name, words) = words.split_first()?;
        match (name.to_ascii_uppercase().as_slice(), words) {
            (b"SCRIPT", [load, text]) if load.eq_ignore_ascii_case(b"LOAD") => {
                Some(self.load(text).unwrap_or_else(|error| failed(&error)))
            }
            (b"EVALSHA" | b"EVALSHA_RO", [hash, count, rest @ ..]) => {
                let keys = number(count).and_then(|count| usize::try_from(count).ok());
                let Some((keys, args)) = keys.and_then(|count| rest.split_at_checked(count)) else {
                    return Some(Reply::error("ERR Number of keys can't be greater than number of args"));
                };
                let Some(script) = self.loaded.get(*hash).cloned() else {
                    return Some(Reply::error("NOSCRIPT No matching script. Please use EVAL."));
                };
                self.take_raised();
                let reply = self.run(&script, keys, args);
                Some(
                    reply.unwrap_or_else(|error| {
                        self.take_raised().map_or_else(|| failed(&error), Reply::Error)
                    }),
                )
            }
            _ => None,
        }
    }

    fn load(&mut self, text: &[u8]) -> Result<Reply> {
        let text = std::str::from_utf8(text)?;
        let hash = Script::new(text).get_hash().as_bytes().to_vec();
        let planted = self.planted.map(|(from, to)| text.replace(from, to));
        let text = planted.as_deref().unwrap_or(text);
        let function = self.lua()?.load(text).set_name("=script").into_function()?;
        self.loaded.insert(hash.clone(), function);
        Ok(Reply::Text(hash))
    }

    fn run(&mut self, script: &Function, keys: &[&[u8]], args: &[&[u8]]) -> Result<Reply> {
        let lua = self.lua()?;
        for (name, words) in [("KEYS", keys), ("ARGV", args)] {
            let words = words.iter().map(|word| lua.create_string(word)).collect::<Result<Vec<_>>>()?;
            lua.globals().raw_set(name, lua.create_sequence_from(words)?)?;
        }
        from_lua(&script.call::<Value>(())?)
    }

    fn take_raised(&self) -> Option<String> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn lua(&mut self) -> Result<&Lua> {
        if self.lua.is_none() {
            self.lua = Some(self.make()?);
        }
        self.lua.as_ref().ok_or_else(|| Error::runtime("no Lua"))
    }

    fn make(&self) -> Result<Lua> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::default())?;
        let redis = lua.create_table()?;
        redis.set("REDIS_VERSION_NUM", VERSION)?;
        redis.set(
            "error_reply",
            lua.create_function(|lua, text: mlua::String| {
                let table = lua.create_table()?;
                table.set("err", text)?;
                Ok(table)
            })?,
        )?;
        // The redis crate has the hash of texts.
        let hash =
            |_: &Lua, text: mlua::String| Ok(Script::new(&text.to_string_lossy()).get_hash().to_owned());
        redis.set("sha1hex", lua.create_function(hash)?)?;
        let (database, raised) = (self.database.clone(), self.raised.clone());
        redis.set(
            "call",
            lua.create_function(move |lua, words: MultiValue| match ask(&database, &words)? {
                Reply::Error(text) => {
                    *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.clone());
                    Err(Error::runtime(text))
                }
                reply => to_lua(lua, reply),
            })?,
        )?;
        let database = self.database.clone();
        redis.set(
            "pcall",
            lua.create_function(move |lua, words: MultiValue| to_lua(lua, ask(&database, &words)?))?,
        )?;
        lua.globals().set("redis", redis)?;
        lua.globals().set("struct", structs::library(&lua)?)?;
        Ok(lua)
    }
}

fn failed(error: &Error) -> Reply {
    Reply::error(format!("ERR Error running script: {error}"))
}

/// Carries out a command of a script.
fn ask(database: &Mutex<Database>, words: &MultiValue) -> Result<Reply> {
    let words = words.iter().map(|word| match word {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        Value::Number(number) => Ok(number_text(*number).into_bytes()),
        _ => Err(Error::runtime("Lua redis lib command arguments must be strings or integers")),
    });
    let words = words.collect::<Result<Vec<_>>>()?;
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    Ok(commands::execute(&mut database.lock().unwrap_or_else(PoisonError::into_inner), &words))
}

fn to_lua(lua: &Lua, reply: Reply) -> Result<Value> {
    let table = |name: &str, text: &str| -> Result<Value> {
        let table = lua.create_table()?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    Ok(match reply {
        Reply::Nil => Value::Boolean(false),
        Reply::Status(text) => table("ok", text)?,
        Reply::Error(text) => table("err", &text)?,
        Reply::Number(number) => Value::Number(number as f64),
        Reply::Text(text) => Value::String(lua.create_string(text)?),
        Reply::Array(replies) => {
            // One by one: Lua has room for some thousand values outside of tables.
            let table = lua.create_table_with_capacity(replies.len(), 0)?;
            for (at, reply) in (1..).zip(replies) {
                table.raw_set(at, to_lua(lua, reply)?)?;
            }
            Value::Table(table)
        }
    })
}

fn from_lua(value: &Value) -> Result<Reply> {
    Ok(match value {
        Value::Boolean(true) => Reply::Number(1),
        Value::Integer(number) => Reply::Number(*number),
        // As Redis does: the fraction is lost.
        Value::Number(number) => Reply::Number(*number as i64),
        Value::String(text) => Reply::Text(text.as_bytes().to_vec()),
        Value::Table(table) => from_table(table)?,
        _ => Reply::Nil,
    })
}

fn from_table(table: &Table) -> Result<Reply> {
    if let Some(error) = table.raw_get::<Option<mlua::String>>("err")? {
        return Ok(Reply::error(error.to_string_lossy()));
    }
    if table.raw_get::<Option<mlua::String>>("ok")?.is_some() {
        return Ok(Reply::OK);
    }
    let mut replies = Vec::new();
    // Up to the first nil, as Redis does.
    loop {
        match table.raw_get::<Value>(replies.len() + 1)? {
            Value::Nil => return Ok(Reply::Array(replies)),
            value => replies.push(from_lua(&value)?),
        }
    }
}
