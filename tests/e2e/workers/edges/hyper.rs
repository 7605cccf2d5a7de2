//! Both layers with bare hyper, which has no extractors and no router: over a socket.

use std::{convert::Infallible, net::SocketAddr};

use ::hyper::{body::Incoming, server::conn::http1};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{Empty, Full};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use tokio::net::TcpListener;
use topup::http::{CallError, PerHost, RateLimitLayer, Rule, WaitLayer, key};
use tower::{Layer, ServiceExt, service_fn};

use super::{super::fixture::Fixture, CONFIG};

/// A server that limits its senders: where it listens.
async fn serve(layer: RateLimitLayer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let hello = service_fn(async |_: Request<Incoming>| {
                Ok::<_, Infallible>(Response::new(Full::from("hello")))
            });
            let limited = layer.layer(hello).map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(key::Peer(peer));
                request
            });
            let serve = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(limited));
            tokio::spawn(serve);
        }
    });
    address
}

#[tokio::test]
async fn a_server_refuses_and_a_client_heeds_it() {
    let fixture = Fixture::set(CONFIG).await;
    let server = serve(RateLimitLayer::new(&fixture.topup).limit(Rule::of("user").key(key::peer_ip()))).await;
    let sender = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let polite = WaitLayer::new(&fixture.topup, "lots").key(PerHost).layer(sender);
    let get = async || {
        let request = Request::get(format!("http://{server}/")).body(Empty::new()).unwrap();
        polite.clone().oneshot(request).await
    };
    for _ in 0..2 {
        assert_eq!(get().await.unwrap().status(), StatusCode::OK);
    }
    assert_eq!(get().await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    // The server has said for how long: there is nothing to be had by asking before.
    let Err(CallError::Denied(denied)) = get().await else { panic!("sent") };
    assert_eq!(denied.key(), Some(server.to_string().as_str()));
    assert!(denied.message().contains("asks to be left alone"), "{denied}");
}
