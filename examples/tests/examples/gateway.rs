//! The gateway to a language model: three dimensions, and a cost that the end of the answer tells.

use reqwest::{Client, Response, StatusCode};

use crate::fixture::Fixture;

#[tokio::test]
async fn an_answer_costs_what_was_streamed_and_debt_is_repaid_first() {
    let fixture = Fixture::start().await;
    let server = fixture.serve(fixture.command(env!("CARGO_BIN_EXE_gateway"))).await;
    let client = Client::new();
    let ask = async |key: &str, expected: u64, prompt: &str| -> Response {
        let request = client.post(format!("{}/complete", server.url)).header("x-api-key", key);
        request.header("x-expected-tokens", expected).body(prompt.to_owned()).send().await.unwrap()
    };
    let answer = ask("alice", 30, "say hello").await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.text().await.unwrap(), "SAY HELLO ");
    // 28 of the 30 expected tokens were put back: 38 of 40 are left.
    let long = "word ".repeat(50);
    assert_eq!(ask("alice", 39, &long).await.status(), StatusCode::TOO_MANY_REQUESTS);
    let answer = ask("alice", 38, &long).await;
    assert_eq!(answer.text().await.unwrap().split_whitespace().count(), 50);
    // 12 in debt: at two tokens an hour, 6 hours and a half until there is one.
    let denied = ask("alice", 1, "more").await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    let seconds: u64 = denied.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((6 * 3_600..=13 * 1_800).contains(&seconds), "{seconds}");
    assert_eq!(denied.text().await.unwrap(), "no more output now\n");
    // Others have buckets of their own, and a denied request costs none of the three.
    assert_eq!(ask("bob", 5, "hi").await.text().await.unwrap(), "HI ");
    assert_eq!(
        client.post(format!("{}/complete", server.url)).send().await.unwrap().status(),
        StatusCode::UNAUTHORIZED
    );
}
