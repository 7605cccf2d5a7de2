//! URLs of a cluster.

use topup::Client;
use topup_tests::{Cluster, Launch, SOON};

use super::super::fixture::patient;

const CONFIG: &str = "[limit.user]\nkeyed = true\nshards = 16\ncapacity = 9\nrate = \"1/60s\"\n";

/// Takes of many buckets through `url`, so that every node is asked.
async fn take_of_many(url: &str) {
    let topup = patient(url).await;
    for user in 0..20 {
        let told = topup.limit("user").key(user.to_string()).take(1).await;
        assert!(told.expect(url).is_allowed());
    }
}

#[tokio::test]
async fn any_node_will_do_and_of_several_the_first_that_answers() {
    let mut cluster = Cluster::start(3).await;
    let mut daemon = Launch::new(CONFIG).redis(&cluster.masters()[2].redis).run();
    daemon.wait_for_line("ready", SOON).await;
    let [a, b, c] = [0, 1, 2].map(|i| cluster.nodes[i].port());
    for url in [
        format!("redis://127.0.0.1:{a}"),
        format!("redis://localhost:{b}"),
        format!("redis://127.0.0.1:{c},localhost:{a}"),
    ] {
        take_of_many(&url).await;
    }
    let error = Client::connect(&format!("redis://127.0.0.1:{a}/1")).await.map(drop).unwrap_err();
    assert!(!error.is_transient(), "{error}");
    cluster.nodes[1].redis.server.kill().unwrap();
    let others = format!("redis://127.0.0.1:{b},127.0.0.1:{a}/0");
    let topup = patient(&others).await;
    assert_eq!(topup.prefetched_tokens(), 0);
}

#[tokio::test]
async fn a_password_holds_for_every_node() {
    let cluster = Cluster::start(3).await;
    for node in cluster.masters() {
        let rules = ["ACL", "SETUSER", "limiter", "on", ">secret", "~*", "&*", "+@all"];
        node.redis.ask::<()>(&rules).await;
        node.redis.ask::<()>(&["ACL", "SETUSER", "default", "off"]).await;
    }
    let url = format!("redis://limiter:secret@127.0.0.1:{}", cluster.nodes[0].port());
    let mut daemon = Launch::new(CONFIG).env("TOPUP_REDIS_URL", &url).run();
    daemon.wait_for_line("ready", SOON).await;
    take_of_many(&url).await;
}

#[tokio::test]
async fn several_servers_that_are_no_cluster_are_refused() {
    let redis = topup_tests::Redis::tcp().await;
    let one = redis.url().trim_start_matches("redis://").trim_end_matches('/');
    let error = Client::connect(&format!("redis://{one},{one}")).await.map(drop).unwrap_err();
    assert!(!error.is_transient() && error.to_string().contains("in no cluster"), "{error}");
}
