//! The response to a rejected request, in a form that its sender accepts.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, VARY},
    request::Parts,
};
use http_body_util::{Either, Full};
use serde_json::{Value, json};

use super::{Rejection, problem};

/// The body of a response: a rejection, or the body of the inner service.
pub type ResponseBody<B> = Either<Full<Bytes>, B>;

/// The gRPC code for each HTTP status.
const GRPC_CODES: [(StatusCode, u8); 5] = [
    (StatusCode::BAD_REQUEST, 3),            // INVALID_ARGUMENT
    (StatusCode::TOO_MANY_REQUESTS, 8),      // RESOURCE_EXHAUSTED
    (StatusCode::INTERNAL_SERVER_ERROR, 13), // INTERNAL
    (StatusCode::SERVICE_UNAVAILABLE, 14),   // UNAVAILABLE
    (StatusCode::UNAUTHORIZED, 16),          // UNAUTHENTICATED
];

/// The form of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    /// Problem details.
    Problem,
}

/// A gRPC status for a gRPC call, JSON or problem details for a sender that prefers them, text for all others.
pub(super) fn respond(request: &Parts, rejection: &Rejection) -> Response<Full<Bytes>> {
    respond_as(request, rejection, preferred(&request.headers))
}

/// A gRPC status for a gRPC call, problem details for all others.
pub(super) fn respond_with_problem(request: &Parts, rejection: &Rejection) -> Response<Full<Bytes>> {
    respond_as(request, rejection, Form::Problem)
}

fn respond_as(request: &Parts, rejection: &Rejection, form: Form) -> Response<Full<Bytes>> {
    let grpc = request
        .headers
        .get(CONTENT_TYPE)
        .map(HeaderValue::as_bytes)
        .filter(|of| of.starts_with(b"application/grpc"));
    if let Some(content_type) = grpc {
        return status(rejection, content_type);
    }
    let (content_type, body) = match form {
        Form::Text => ("text/plain; charset=utf-8", format!("{}\n", rejection.message())),
        Form::Json => {
            let mut body = json!({ "code": rejection.status().as_u16(), "message": rejection.message() });
            if let Some(limit) = rejection.limit() {
                body["limit"] = limit.into();
            }
            ("application/json", with_wait(body, rejection))
        }
        Form::Problem => (problem::MEDIA_TYPE, with_wait(problem::details(rejection), rejection)),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = rejection.status();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    response
}

/// The text of `body`, with the wait in it.
fn with_wait(mut body: Value, rejection: &Rejection) -> String {
    if let Some(wait) = rejection.retry_after() {
        // Rounded up, like Retry-After.
        body["retry_after_ms"] = (wait.as_nanos().div_ceil(1_000_000) as u64).into();
    }
    body.to_string()
}

/// A gRPC status in the trailers-only form: the trailers are the headers, and there is no body.
fn status(rejection: &Rejection, content_type: &[u8]) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    let headers = response.headers_mut();
    let code =
        GRPC_CODES.iter().find(|(status, _)| *status == rejection.status()).map_or(2, |(_, code)| *code);
    headers.insert("grpc-status", u16::from(code).into());
    if let Ok(content_type) = HeaderValue::from_bytes(content_type) {
        headers.insert(CONTENT_TYPE, content_type);
    }
    if let Ok(message) = HeaderValue::try_from(percent_encoded(rejection.message())) {
        headers.insert("grpc-message", message);
    }
    if let Some(wait) = rejection.retry_after() {
        // gRPC clients with a retry policy wait for this long.
        headers.insert("grpc-retry-pushback-ms", (wait.as_nanos().div_ceil(1_000_000) as u64).into());
    }
    response
}

/// Percent-encodes, as gRPC requires: all bytes but printable ASCII, and the percent sign.
fn percent_encoded(message: &str) -> String {
    let encode = |byte: u8| match byte {
        b'%' => "%25".to_owned(),
        b' '..=b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    message.bytes().map(encode).collect()
}

/// The form that the sender prefers. JSON has to be named, and to be wanted as much as text.
fn preferred(headers: &HeaderMap) -> Form {
    let (mut problem, mut json, mut text) = (0.0_f32, 0.0_f32, 0.0_f32);
    let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    for range in lines.flat_map(|line| line.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let quality =
            parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, |q| q.parse().unwrap_or(0.0));
        if kind == problem::MEDIA_TYPE {
            problem = problem.max(quality);
        } else if kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
        {
            json = json.max(quality);
        } else if kind.starts_with("text/") {
            text = text.max(quality);
        }
    }
    match () {
        () if problem > 0.0 && problem >= json && problem >= text => Form::Problem,
        () if json > 0.0 && json >= text => Form::Json,
        () => Form::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sender_gets_the_form_it_prefers() {
        for (accept, form) in [
            ("application/json", Form::Json),
            ("application/json, text/plain, */*", Form::Json),
            ("application/problem+json", Form::Problem),
            ("application/json, application/problem+json", Form::Problem),
            ("application/json, application/problem+json;q=0.9", Form::Json),
            ("application/vnd.shop+json", Form::Json),
            ("Application/JSON;q=0.5", Form::Json),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Form::Text),
            ("text/plain, application/json;q=0.9", Form::Text),
            ("text/plain, application/problem+json;q=0.9", Form::Text),
            ("application/json;q=0", Form::Text),
            ("*/*", Form::Text),
            ("", Form::Text),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(preferred(&headers), form, "{accept:?}");
        }
        assert_eq!(preferred(&HeaderMap::new()), Form::Text);
    }

    #[test]
    fn messages_of_grpc_are_printable() {
        assert_eq!(percent_encoded("100 % für alle\n"), "100 %25 f%C3%BCr alle%0A");
    }
}
