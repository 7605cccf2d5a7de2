//! The web server: real responses over a socket.

use std::net::{IpAddr, Ipv4Addr};

use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER},
};
use serde_json::Value;
use sfv::{BareItem, ListEntry, Parser};

use crate::fixture::{Fixture, Server};

/// The server trusts its `X-Forwarded-For`.
const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

async fn server(fixture: &Fixture) -> Server {
    let mut web = fixture.command(env!("CARGO_BIN_EXE_web"));
    web.env("TRUSTED_PROXIES", format!("{PROXY}/32"));
    fixture.serve(web).await
}

/// A client that calls from this address.
fn from(address: Ipv4Addr) -> Client {
    Client::builder().local_address(IpAddr::V4(address)).build().unwrap()
}

async fn get(client: &Client, url: String, headers: &[(&str, &str)]) -> Response {
    let request =
        headers.iter().fold(client.get(url), |request, (name, value)| request.header(*name, *value));
    request.send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).unwrap_or_else(|| panic!("{name}: {response:?}")).to_str().unwrap()
}

/// The members of a list of structured fields: `("api", [("q", 1000), ("w", 10)])`.
fn list(response: &Response, name: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let list: sfv::List = Parser::new(header(response, name)).parse().unwrap();
    let member = |entry| match entry {
        ListEntry::Item(sfv::Item { bare_item: BareItem::String(name), params }) => {
            let integer = |value: BareItem| i64::from(value.as_integer().unwrap());
            let params = params.into_iter().map(|(name, value)| (name.to_string(), integer(value))).collect();
            (name.as_str().to_owned(), params)
        }
        other => panic!("a name is a string: {other:?}"),
    };
    list.into_iter().map(member).collect()
}

fn members(members: &[(&str, &[(&str, i64)])]) -> Vec<(String, Vec<(String, i64)>)> {
    let params = |params: &[(&str, i64)]| params.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    members.iter().map(|(name, of)| ((*name).to_owned(), params(of))).collect()
}

#[tokio::test]
async fn a_response_says_what_is_left_and_the_eleventh_of_an_address_is_refused() {
    let fixture = Fixture::start().await;
    let server = server(&fixture).await;
    let client = from(STRANGER);
    let ok = get(&client, format!("{}/", server.url), &[]).await;
    assert_eq!(ok.status(), StatusCode::OK);
    let policy = members(&[("api", &[("q", 1000), ("w", 10)]), ("ip", &[("q", 10), ("w", 100)])]);
    assert_eq!(list(&ok, "ratelimit-policy"), policy);
    let left = members(&[("api", &[("r", 999), ("t", 1)]), ("ip", &[("r", 9), ("t", 10)])]);
    assert_eq!(list(&ok, "ratelimit"), left);
    let of_ip =
        ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"].map(|name| header(&ok, name));
    assert_eq!(of_ip, ["10", "9", "10"]);
    assert!(!ok.headers().contains_key(RETRY_AFTER));
    assert_eq!(ok.text().await.unwrap(), "hello\n");

    // A search costs five tokens. Four are left after it, too few for another.
    assert_eq!(get(&client, format!("{}/search", server.url), &[]).await.status(), StatusCode::OK);
    let denied = get(&client, format!("{}/search", server.url), &[]).await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    let retry_after: i64 = header(&denied, "retry-after").parse().unwrap();
    assert!((1..=10).contains(&retry_after), "one more token, of six a minute: {retry_after}");
    assert_eq!(list(&denied, "ratelimit-policy"), policy);
    let [(api, of_api), (ip, of_ip)] = &list(&denied, "ratelimit")[..] else { panic!("{denied:?}") };
    assert_eq!((api.as_str(), ip.as_str()), ("api", "ip"));
    assert_eq!(of_api.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["r"], "it did not deny");
    assert_eq!(of_ip[..], [("r".to_owned(), 4), ("t".to_owned(), retry_after)]);
    assert_eq!(header(&denied, "x-ratelimit-remaining"), "4");
    assert_eq!(header(&denied, "content-type"), "text/plain; charset=utf-8");
    assert!(denied.text().await.unwrap().starts_with("limit \"ip\" denies this: try again in "));

    for _ in 0..4 {
        assert_eq!(get(&client, format!("{}/", server.url), &[]).await.status(), StatusCode::OK);
    }
    let denied = get(&client, format!("{}/", server.url), &[(ACCEPT.as_str(), "application/json")]).await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.headers()[CONTENT_TYPE], "application/json");
    let body: Value = serde_json::from_slice(&denied.bytes().await.unwrap()).unwrap();
    assert_eq!((&body["code"], &body["limit"]), (&429.into(), &"ip".into()), "{body}");
    assert!((1..=10_000).contains(&body["retry_after_ms"].as_u64().unwrap()), "{body}");
    assert!(body["message"].as_str().unwrap().starts_with("limit \"ip\" denies this"), "{body}");
}

#[tokio::test]
async fn a_forwarded_address_is_believed_from_a_proxy_and_from_nobody_else() {
    let fixture = Fixture::start().await;
    let server = server(&fixture).await;
    let left = async |client: &Client, address: &str| {
        let seen = get(client, format!("{}/", server.url), &[("x-forwarded-for", address)]).await;
        header(&seen, "x-ratelimit-remaining").parse::<u64>().unwrap()
    };
    let (proxy, stranger) = (from(PROXY), from(STRANGER));
    // A stranger's header changes nothing: each request takes from the bucket of its own address.
    for (i, invented) in ["203.0.113.1", "203.0.113.2", "127.0.0.2", "::1"].into_iter().enumerate() {
        assert_eq!(left(&stranger, invented).await, 9 - i as u64);
    }
    // Behind the proxy each sender has a bucket, and addresses farther to the left change nothing.
    assert_eq!(left(&proxy, "203.0.113.1").await, 9);
    assert_eq!(left(&proxy, "203.0.113.2").await, 9);
    assert_eq!(left(&proxy, "198.51.100.1, 203.0.113.2").await, 8);
    // A customer's IPv6 addresses are one sender.
    assert_eq!(left(&proxy, "2001:db8:1:2::1").await, 9);
    assert_eq!(left(&proxy, "2001:db8:1:2:ffff::7").await, 8);
    assert_eq!(left(&proxy, "2001:db8:1:3::1").await, 9);
}

#[tokio::test]
async fn limits_of_a_route_come_on_top() {
    let fixture = Fixture::start().await;
    let server = server(&fixture).await;
    let client = from(STRANGER);
    let export = async |key: &[(&str, &str)]| get(&client, format!("{}/export", server.url), key).await;
    let alice = [("x-api-key", "alice")];
    let ok = export(&alice).await;
    assert_eq!(ok.headers().get_all("ratelimit").iter().count(), 2, "what each layer says: {ok:?}");
    for _ in 0..2 {
        assert_eq!(export(&alice).await.status(), StatusCode::OK);
    }
    let denied = export(&alice).await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    let standings = denied.headers().get_all("ratelimit").iter().map(|seen| seen.to_str().unwrap());
    let untils = standings.flat_map(|seen| seen.split(";t=").skip(1)).collect::<Vec<_>>();
    assert_eq!(untils, [header(&denied, "retry-after")], "who allows names no time that ends later");
    assert_eq!(denied.text().await.unwrap(), "your plan has three exports an hour\n");
    assert_eq!(export(&[("x-api-key", "bob")]).await.status(), StatusCode::OK);
    for no_key in [&[][..], &[("x-api-key", "")], &[("x-api-key", &"k".repeat(257))]] {
        assert_eq!(export(no_key).await.status(), StatusCode::BAD_REQUEST, "{no_key:?}");
    }
}
