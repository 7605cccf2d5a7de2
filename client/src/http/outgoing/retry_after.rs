//! Pauses that called services ask for.

use std::time::Duration;

use http::{
    HeaderMap, HeaderName, StatusCode,
    header::{DATE, RETRY_AFTER},
};

use super::OutgoingResponse;

/// The pause that a response asks for: 429 or 503 with a `Retry-After`.
pub(super) fn pause_of(response: &impl OutgoingResponse) -> Option<Duration> {
    let asks = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&response.status());
    asks.then(|| retry_after(response.headers())).flatten()
}

/// The duration in `Retry-After`: seconds, or a date. A date counts from the response's own `Date`, since the clock of the
/// called service may be wrong.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let after = text(&RETRY_AFTER)?;
    if !after.is_empty() && after.bytes().all(|byte| byte.is_ascii_digit()) {
        // More seconds than a `u64` holds: the longest pause.
        return Some(Duration::from_secs(after.parse().unwrap_or(u64::MAX)));
    }
    let date = |text| httpdate::parse_http_date(text).ok();
    date(after)?.duration_since(date(text(&DATE)?)?).ok()
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Response};

    use super::*;

    fn asked(status: u16, headers: &[(HeaderName, &'static str)]) -> Option<u64> {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in headers {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        pause_of(&response).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_and_dates_are_understood() {
        let date = (DATE, "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(asked(429, &[(RETRY_AFTER, "120")]), Some(120));
        assert_eq!(asked(503, &[(RETRY_AFTER, "0")]), Some(0));
        assert_eq!(asked(429, &[(RETRY_AFTER, "99999999999999999999")]), Some(u64::MAX));
        assert_eq!(asked(503, &[(RETRY_AFTER, "Sun, 06 Nov 1994 08:50:07 GMT"), date.clone()]), Some(30));
        assert_eq!(asked(503, &[(RETRY_AFTER, "Sun, 06 Nov 1994 08:49:07 GMT"), date.clone()]), None, "past");
        assert_eq!(asked(503, &[(RETRY_AFTER, "Sun, 06 Nov 1994 08:50:07 GMT")]), None, "from when?");
        for wrong in ["", "-1", "1.5", "soon"] {
            assert_eq!(asked(429, &[(RETRY_AFTER, wrong), date.clone()]), None, "{wrong:?}");
        }
        assert_eq!(asked(429, &[]), None);
        assert_eq!(asked(301, &[(RETRY_AFTER, "120")]), None, "not a rejection");
    }
}
