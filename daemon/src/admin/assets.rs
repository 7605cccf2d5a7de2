//! The page: files that the binary holds. They have no data of the daemon, so they need no token.

use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use http::{
    HeaderName, StatusCode,
    header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY},
};

/// The page may load its own files, and the news of this server. No text becomes a script or markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file by its name in the URL.
macro_rules! files {
    ($($name:literal: $kind:expr),+ $(,)?) => {
        &[$(($name, $kind, include_str!(concat!("page/", $name)))),+]
    };
}

const FILES: &[(&str, &str, &str)] = files! {
    "index.html": HTML,
    "page.css": CSS,
    "limits.css": CSS,
    "icon.svg": SVG,
    "main.js": SCRIPT,
    "news.js": SCRIPT,
    "dom.js": SCRIPT,
    "units.js": SCRIPT,
    "spark.js": SCRIPT,
    "health.js": SCRIPT,
    "limits.js": SCRIPT,
    "sidebar.js": SCRIPT,
    "bucket.js": SCRIPT,
    "actions.js": SCRIPT,
};

/// Where the files are; `/` is the first of them.
pub(super) const FOLDER: &str = "/page/";

pub(super) async fn index() -> Response {
    file(Path("index.html".to_owned())).await
}

pub(super) async fn file(Path(name): Path<String>) -> Response {
    let Some((_, kind, text)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (CONTENT_TYPE, *kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (OPENER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
    ];
    (headers, *text).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Words in quotes that are names of files.
    fn named(text: &str) -> BTreeSet<String> {
        let is_file = |word: &&str| [".js", ".css", ".svg"].iter().any(|end| word.ends_with(end));
        let words = text.split(['"', '\'']).filter(is_file);
        words.map(|word| word.rsplit('/').next().unwrap_or(word).to_owned()).collect()
    }

    #[test]
    fn the_page_names_its_own_files_and_nothing_else_on_the_net() {
        let all: BTreeSet<String> = FILES.iter().skip(1).map(|(name, ..)| (*name).to_owned()).collect();
        let used: BTreeSet<String> = FILES.iter().flat_map(|(.., text)| named(text)).collect();
        assert_eq!(used, all);
        for (name, _, text) in FILES {
            let elsewhere: Vec<_> =
                text.match_indices("://").map(|(at, _)| &text[at.saturating_sub(5)..]).collect();
            let elsewhere = elsewhere.iter().filter(|rest| !rest.contains("www.w3.org/2000/svg"));
            assert_eq!(elsewhere.count(), 0, "{name}");
            for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
                assert!(!text.contains(way), "{name}: {way}");
            }
        }
    }
}
