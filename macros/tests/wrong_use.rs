//! Wrong use is an error at its place that says what to write.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

// A procedural macro cannot be called from outside of the compiler, its parts can.
#[path = "../src/arguments.rs"]
mod arguments;
#[path = "../src/expand.rs"]
mod expand;
#[path = "../src/stack.rs"]
mod stack;

const FUNCTION: &str = "async fn function(name: &str) -> Result<(), topup::Denied> { Ok(()) }";

/// The error of the attribute with these arguments on `item`, and the text at its place.
fn error(arguments: &str, item: &str) -> (String, String) {
    let error = expand::expand(arguments.parse().unwrap(), item.parse().unwrap()).unwrap_err();
    (error.span().source_text().unwrap_or_default(), error.to_string())
}

#[test]
fn wrong_arguments_are_errors_at_their_place() {
    const NAMES: &str = "limit, key, count, message, wait, client, on_outage";
    let no_limit = "which limit? Say limit = \"name\", as in [limit.name] of topupd's config";
    for (arguments, place, message) in [
        ("", "", no_limit),
        ("key = name", "key", no_limit),
        ("limit = \"api\", per = \"user\"", "per", &format!("no argument is called `per`: {NAMES}")),
        ("\"api\"", "\"api\"", &format!("write name = value: {NAMES}")),
        ("limit = \"api\", limit = \"user\"", "limit", "`limit` is given twice"),
        ("limit = \"api\", wait", "wait", "what about `wait`? Write wait = value"),
        ("limit = \"a b\"", "\"a b\"", "the name of a limit has 1 to 64 of the characters A-Z a-z 0-9 . _ -"),
        ("limit = 7", "7", "a limit is named by a text: limit = \"name\""),
        (
            "limit = \"api\", wait = \"soon\"",
            "\"soon\"",
            "not a duration such as \"2s\" or \"500ms\": expected number at 0",
        ),
        ("limit = \"api\", wait = 2", "2", "a duration has a unit: wait = \"2s\""),
        ("limit = \"api\", count = 0", "0", "a take is of one token at least"),
        ("limit = \"api\", count = \"two\"", "\"two\"", "a count is a whole number of tokens"),
        (
            "limit = \"api\", on_outage = retry",
            "retry",
            "on_outage is `allow`, `deny` or `local`; leave it out to leave it to the limit and the client",
        ),
    ] {
        assert_eq!(error(arguments, FUNCTION), (place.to_owned(), message.to_owned()), "{arguments}");
    }
}

#[test]
fn what_speaks_for_all_limits_is_given_once() {
    for (name, one, other) in [("wait", "\"2s\"", "\"3s\""), ("on_outage", "allow", "deny")] {
        let below = format!("#[topup::limited(limit = \"user\", key = name, {name} = {other})] {FUNCTION}");
        let message = format!("`{name}` speaks for all limits of this function: give it once");
        assert_eq!(error(&format!("limit = \"api\", {name} = {one}"), &below), (name.to_owned(), message));
    }
}

#[test]
fn it_stands_before_an_async_function_that_may_fail() {
    for (item, place, message) in [
        (
            "fn function() -> Result<(), topup::Denied> { Ok(()) }",
            "fn",
            "#[topup::limited] asks Redis, so it needs an async fn",
        ),
        (
            "async fn function() {}",
            "function",
            "a limit may deny: return Result<_, E>, where E is made From<topup::Denied>",
        ),
        ("struct NotAFunction;", "struct", "#[topup::limited] stands before an async fn with a body"),
        (
            "async fn function() -> Result<(), topup::Denied>;",
            ";",
            "#[topup::limited] stands before an async fn with a body",
        ),
    ] {
        assert_eq!(error("limit = \"api\"", item), (place.to_owned(), message.to_owned()), "{item}");
    }
}
