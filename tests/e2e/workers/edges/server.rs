//! `RateLimitLayer`: what it does that no example shows.

use std::{
    convert::Infallible,
    io::{self, Write},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header::RETRY_AFTER, request::Parts};
use http_body_util::{BodyExt, Full};
use tokio::task::JoinSet;
use topup::{
    OnOutage,
    http::{Headers, Outcome, RateLimitLayer, ResponseBody, Rule, key},
};
use topup_tests::{Redis, SOON, eventually};
use tower::{Layer, ServiceExt, service_fn};

use super::{
    super::fixture::{Fixture, briefly_patient},
    CONFIG,
};

type Answer = Response<ResponseBody<Full<Bytes>>>;

/// Sends a request through `layer` to a service that answers all.
async fn send(layer: &RateLimitLayer, request: Request<()>) -> Answer {
    let service = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Full::from("served"))));
    layer.layer(service).oneshot(request).await.unwrap()
}

fn to(path: &str) -> Request<()> {
    Request::builder().uri(path).body(()).unwrap()
}

fn outcome(answer: &Answer) -> &Outcome {
    answer.extensions().get().expect("every answer is marked")
}

async fn text(answer: Answer) -> String {
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn the_limits_of_a_layer_are_all_or_nothing() {
    let fixture = Fixture::set(CONFIG).await;
    let layer = RateLimitLayer::new(&fixture.topup).limit("api").limit(Rule::of("one").message("only one"));
    assert_eq!(send(&layer, to("/")).await.status(), StatusCode::OK);
    let denied = send(&layer, to("/")).await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(
        matches!(outcome(&denied), Outcome::Decided(multi) if multi.denied_by().unwrap().limit() == "one")
    );
    assert_eq!(text(denied).await, "only one\n");
    assert_eq!(fixture.bucket("api").peek().await.unwrap().remaining(), 9);
}

#[tokio::test]
async fn of_requests_at_once_as_many_pass_as_the_strictest_limit_has_tokens() {
    let fixture = Fixture::set(CONFIG).await;
    let both = RateLimitLayer::new(&fixture.topup)
        .limit(Rule::of("lots").key(|request: &Parts| Some(request.uri.path().to_owned())))
        .limit("api");
    let mut requests = JoinSet::new();
    for _ in 0..90 {
        let both = both.clone();
        requests.spawn(async move { send(&both, to("/")).await.status() });
    }
    let told = requests.join_all().await;
    let count = |status| told.iter().filter(|told| **told == status).count();
    assert_eq!((count(StatusCode::OK), count(StatusCode::TOO_MANY_REQUESTS)), (10, 80));
    assert!(
        fixture.bucket("lots").key("/").peek().await.unwrap().remaining() >= 90,
        "denials have spent nothing"
    );
}

#[tokio::test]
async fn an_outage_comes_to_what_the_layer_is_told() {
    let mut fixture = Fixture::on(Redis::tcp().await, CONFIG).await;
    let topup = briefly_patient(fixture.redis.url()).await;
    let lenient = RateLimitLayer::new(&topup).limit("api");
    let careful = RateLimitLayer::new(&topup).limit("api").on_outage(OnOutage::Deny);
    fixture.redis.server.kill().unwrap();
    let allowed = send(&lenient, to("/")).await;
    assert_eq!(allowed.status(), StatusCode::OK);
    assert!(matches!(outcome(&allowed), Outcome::Degraded(multi) if multi.is_allowed()), "{allowed:?}");
    assert!(!allowed.headers().contains_key("ratelimit"), "nothing is known");
    let refused = send(&careful, to("/")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()[RETRY_AFTER], "1");
    assert_eq!(
        (text(refused).await.as_str(), topup.undecided()),
        ("limits cannot be decided at the moment\n", 2)
    );
}

/// Where the log goes.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, written: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Lines of the log with these words.
    fn count(&self, words: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap()).matches(words).count()
    }

    /// A log of this thread from now on.
    fn keep() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }
}

#[tokio::test]
async fn the_log_tells_once_that_an_outage_begins_and_once_that_it_ends() {
    let mut fixture = Fixture::on(Redis::tcp().await, CONFIG).await;
    let topup = briefly_patient(fixture.redis.url()).await;
    let layer = RateLimitLayer::new(&topup).limit("soon");
    let (log, _guard) = Log::keep();
    fixture.redis.server.kill().unwrap();
    for _ in 0..3 {
        assert_eq!(send(&layer, to("/")).await.status(), StatusCode::OK);
    }
    fixture.redis.server.restart().unwrap();
    eventually(SOON, async || {
        send(&layer, to("/")).await;
        log.count("a limit is decided again") == 1
    })
    .await;
    assert_eq!(log.count("a limit cannot be decided"), 1, "{log:?}");
}

#[tokio::test]
async fn a_limit_that_is_not_published_is_told_once_however_often_others_decide() {
    let fixture = Fixture::set(CONFIG).await;
    let (known, unknown) = (
        RateLimitLayer::new(&fixture.topup).limit("api"),
        RateLimitLayer::new(&fixture.topup).limit("nobody"),
    );
    let (log, _guard) = Log::keep();
    for _ in 0..3 {
        for layer in [&known, &unknown] {
            assert_eq!(send(layer, to("/")).await.status(), StatusCode::OK);
        }
    }
    assert_eq!(log.count("a limit cannot be decided limit=\"nobody\""), 1, "{log:?}");
    assert_eq!((log.count("is decided again"), fixture.topup.undecided()), (0, 3), "{log:?}");
}

#[tokio::test]
async fn of_several_layers_the_one_that_had_no_answer_is_heard() {
    let fixture = Fixture::set(CONFIG).await;
    let layer = |limit: &'static str| RateLimitLayer::new(&fixture.topup).limit(limit);
    let nobody = RateLimitLayer::new(&fixture.topup).limit(Rule::of("api").cost(|_| 0));
    for (outer, inner, told) in [
        (layer("api"), layer("nobody"), "Undecided"),
        (layer("nobody"), layer("api"), "Undecided"),
        (nobody.clone(), layer("api"), "Decided"),
        (layer("api"), nobody.clone(), "Decided"),
        (nobody.clone(), nobody.clone(), "NotAsked"),
    ] {
        let service =
            service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Full::from("served"))));
        let answer = outer.layer(inner.layer(service)).oneshot(to("/")).await.unwrap();
        let outcome = format!("{:?}", answer.extensions().get::<Outcome>().unwrap());
        assert!(outcome.starts_with(told), "{told}: {outcome}");
    }
}

#[tokio::test]
async fn an_impossible_take_is_refused_whatever_the_layer_is_told() {
    let fixture = Fixture::set(CONFIG).await;
    let layer = RateLimitLayer::new(&fixture.topup).limit(
        Rule::of("user").key(key::header("x-api-key")).cost(|request| request.uri.path().len() as u64),
    );
    let costs = |path| {
        let mut request = to(path);
        request.headers_mut().insert("x-api-key", "alice".parse().unwrap());
        request
    };
    assert_eq!(send(&layer, costs("/a")).await.status(), StatusCode::OK);
    let refused = send(&layer, costs("/abc")).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(!refused.headers().contains_key(RETRY_AFTER), "no time would help");
    assert!(text(refused).await.contains("4 can never be taken at once"));
    assert_eq!(fixture.topup.undecided(), 0);
}

#[tokio::test]
async fn a_request_without_a_cost_passes_and_one_without_a_key_does_not() {
    let fixture = Fixture::set(CONFIG).await;
    let layer = |rule: Rule| RateLimitLayer::new(&fixture.topup).limit(rule);
    let passes = [
        Rule::of("user").key(|_: &Parts| None),
        Rule::of("user").cost(|_| 0),
        Rule::of("user").key(key::KeyExtractor::optional(key::header("x-api-key"))),
    ];
    for rule in passes {
        let passed = send(&layer(rule), to("/")).await;
        assert!(
            matches!((passed.status(), outcome(&passed)), (StatusCode::OK, Outcome::NotAsked)),
            "{passed:?}"
        );
    }
    let no_key = [
        (Rule::of("user").key(key::header("x-api-key")), 400, "the header x-api-key is missing"),
        (Rule::of("user").key(key::bearer_subject()), 401, "does not say who sends it"),
        (Rule::of("user").key(key::peer_ip()), 500, "into_make_service_with_connect_info"),
        (Rule::of("user").key(key::KeyExtractor::optional(key::peer_ip())), 500, "into_make_service"),
    ];
    for (rule, status, message) in no_key {
        let refused = send(&layer(rule), to("/")).await;
        assert_eq!((refused.status().as_u16(), refused.headers().contains_key(RETRY_AFTER)), (status, false));
        let told = text(refused).await;
        assert!(told.contains(message), "{told}");
    }
    let either =
        Rule::of("user").key(key::KeyExtractor::or(key::bearer_subject(), |_: &Parts| Some("all".into())));
    assert_eq!(send(&layer(either), to("/")).await.status(), StatusCode::OK);
    assert_eq!(fixture.bucket("user").key("all").peek().await.unwrap().remaining(), 1);
}

#[tokio::test]
async fn responses_and_headers_are_the_server_s_to_choose() {
    let fixture = Fixture::set(CONFIG).await;
    let layer = RateLimitLayer::new(&fixture.topup).limit("one").headers(Headers::None).respond_with(
        |request, refusal| {
            let body = format!("{} {}: {}", refusal.status(), request.uri, refusal.limit().unwrap());
            Response::builder().status(StatusCode::FOUND).body(Full::from(body)).unwrap()
        },
    );
    let served = send(&layer, to("/")).await;
    assert_eq!(served.headers().len(), 0, "{served:?}");
    assert_eq!(text(served).await, "served");
    let denied = send(&layer, to("/a")).await;
    assert_eq!(denied.status(), StatusCode::FOUND);
    assert!(denied.headers().contains_key(RETRY_AFTER) && denied.headers().len() == 1, "{denied:?}");
    assert_eq!(text(denied).await, "429 Too Many Requests /a: one");
    let draft = RateLimitLayer::new(&fixture.topup).limit("api").headers(Headers::RateLimit);
    let served = send(&draft, to("/")).await;
    assert_eq!(served.headers()["ratelimit"], "\"api\";r=9;t=60");
    assert_eq!(served.headers()["ratelimit-policy"], "\"api\";q=10;w=600");
    assert_eq!(served.headers().len(), 2, "{served:?}");
}
