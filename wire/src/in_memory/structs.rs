//! The library `struct` of Redis, as far as the scripts use it: little-endian doubles, texts of a fixed length, and the
//! size of a `long`.

use mlua::{Error, Lua, MultiValue, Result, String as LuaString, Table, Value};

/// One field of a form.
enum Field {
    Double,
    Text(usize),
    Long,
}

/// The library's functions.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    library.set(
        "size",
        lua.create_function(|_, form: LuaString| Ok(fields(&form)?.iter().map(Field::size).sum::<usize>()))?,
    )?;
    library.set("pack", lua.create_function(pack)?)?;
    library.set("unpack", lua.create_function(unpack)?)?;
    Ok(library)
}

fn pack(lua: &Lua, (form, values): (LuaString, MultiValue)) -> Result<LuaString> {
    let mut bytes = Vec::new();
    let fields = fields(&form)?;
    let missing = || Error::runtime("struct.pack: too few values");
    for (field, value) in fields.iter().zip(values.iter().map(Some).chain(std::iter::repeat(None))) {
        let value = value.ok_or_else(missing)?.clone();
        match field {
            Field::Double => {
                let number =
                    lua.coerce_number(value)?.ok_or_else(|| Error::runtime("struct.pack: no number"))?;
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            Field::Text(length) => {
                let text = lua.coerce_string(value)?.ok_or_else(|| Error::runtime("struct.pack: no text"))?;
                let text = text.as_bytes();
                let text =
                    text.get(..*length).ok_or_else(|| Error::runtime("struct.pack: text too short"))?;
                bytes.extend_from_slice(text);
            }
            Field::Long => return Err(unknown()),
        }
    }
    lua.create_string(bytes)
}

/// The values, then the position behind them. Positions begin at 1.
fn unpack(lua: &Lua, (form, bytes, from): (LuaString, LuaString, Option<usize>)) -> Result<MultiValue> {
    let mut at = from.unwrap_or(1).saturating_sub(1);
    let bytes = bytes.as_bytes();
    let mut values = Vec::new();
    for field in fields(&form)? {
        let end = at + field.size();
        let part =
            bytes.get(at..end).ok_or_else(|| Error::runtime("struct.unpack: data string too short"))?;
        values.push(match field {
            Field::Double => Value::Number(f64::from_le_bytes(part.try_into().map_err(Error::external)?)),
            Field::Text(_) => Value::String(lua.create_string(part)?),
            Field::Long => return Err(unknown()),
        });
        at = end;
    }
    values.push(Value::Number(at as f64 + 1.0));
    Ok(MultiValue::from_vec(values))
}

fn fields(form: &LuaString) -> Result<Vec<Field>> {
    let form = form.as_bytes();
    let mut fields = Vec::new();
    let mut rest = form.strip_prefix(b"<").unwrap_or(&form);
    while let Some((kind, behind)) = rest.split_first() {
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, behind) = behind.split_at(digits);
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        fields.push(match (kind, number) {
            (b'd', None) => Field::Double,
            (b'c', Some(length)) => Field::Text(length),
            (b'l', None) => Field::Long,
            _ => return Err(unknown()),
        });
        rest = behind;
    }
    Ok(fields)
}

fn unknown() -> Error {
    Error::runtime("struct: the Redis in memory does not know this form")
}

// === impl Field ===

impl Field {
    const fn size(&self) -> usize {
        match self {
            Self::Double | Self::Long => 8,
            Self::Text(length) => *length,
        }
    }
}
