//! `${NAME}` in a value: the environment variable of that name.

use std::env;

/// Looks up an environment variable.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The begin of a variable.
pub(super) const BEGIN: &str = "${";

/// The problem of a variable where none belongs.
pub(super) const MISPLACED: &str = "\"${\" stands for an environment variable only in redis.url and in the url of a source: write the value itself";

/// A variable that has no value. The message names the variable, never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum VariableError {
    #[error("a variable is not closed: write }} behind its name")]
    Open,
    #[error("a variable has a name of the characters A-Z a-z 0-9 _ that begins with none of 0-9")]
    Name,
    #[error("the environment variable {0} is not set: set it for this program, or write the value itself")]
    Unset(String),
}

/// The variable `name` of this process.
pub(super) fn of_process(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// `url` with all its variables replaced by their values. One that stands for user or password is taken as it is
/// written there, so its special characters are encoded.
pub(super) fn expand_url(url: &str, variables: Variables<'_>) -> Result<String, VariableError> {
    let (begins, ends) = (url.find("://").unwrap_or(url.len()), url.rfind('@').unwrap_or(0));
    let mut expanded = String::new();
    let mut rest = url;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let at = url.len() - rest.len() + before.len();
        let (name, behind) = after.split_once('}').ok_or(VariableError::Open)?;
        let value = is_name(name)
            .then(|| variables(name).ok_or_else(|| VariableError::Unset(name.to_owned())))
            .ok_or(VariableError::Name)??;
        expanded.push_str(before);
        expanded.push_str(&if (begins..ends).contains(&at) { encoded(&value) } else { value });
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(legal) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// `text` with everything encoded that means something in a URL.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let each = text.bytes().map(|byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(url: &str) -> Result<String, String> {
        let variables = |name: &str| match name {
            "USER_1" => Some("shop".to_owned()),
            "PASSWORD" => Some("p@s/s:${USER_1}%é".to_owned()),
            "URL" => Some("redis://:a%2Fb@host".to_owned()),
            "HOST" => Some("[::1]:6380".to_owned()),
            _ => None,
        };
        expand_url(url, &variables).map_err(|error| error.to_string())
    }

    #[test]
    fn a_variable_becomes_its_value_once() {
        for (url, expected) in [
            ("redis://host", "redis://host"),
            ("${URL}", "redis://:a%2Fb@host"),
            (
                "redis://${USER_1}:${PASSWORD}@${HOST}/2",
                "redis://shop:p%40s%2Fs%3A%24%7BUSER_1%7D%25%C3%A9@[::1]:6380/2",
            ),
            ("redis://:$PASSWORD}@a", "redis://:$PASSWORD}@a"),
        ] {
            assert_eq!(expanded(url).as_deref(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn an_error_names_the_variable_and_no_value() {
        for (url, expected) in [
            ("redis://${USER_1}:${SECRET}@a", "the environment variable SECRET is not set"),
            ("redis://${USER_1", "not closed"),
            ("redis://${}", "has a name"),
            ("redis://${A B}", "has a name"),
            ("redis://${1}", "has a name"),
        ] {
            let error = expanded(url).unwrap_err();
            assert!(error.contains(expected) && !error.contains("shop"), "{url}: {error}");
        }
    }
}
