//! Two namespaces share the nodes of a cluster, and nothing else.

use std::{collections::BTreeSet, time::Duration};

use topup_tests::{Cluster, Daemon, SOON, eventually};

use crate::workers::{fixture::patient, namespaces::config};

const USERS: u64 = 40;

#[tokio::test]
async fn a_limit_of_one_namespace_is_changed_and_removed_beside_that_of_another() {
    let cluster = Cluster::start(3).await;
    let redis = &cluster.masters()[1].redis;
    // By two of its nodes.
    let ports = [2, 0].map(|node| cluster.masters()[node].port());
    let hosts = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    let url = |namespace: &str| format!("redis://{hosts}/?namespace={namespace}");
    let mut shop = Daemon::spawn(&config("shop", 3), redis);
    let mut shop2 = Daemon::spawn(&config("shop2", 5), redis);
    for daemon in [&mut shop, &mut shop2] {
        daemon.wait_for_line("ready", SOON).await;
    }
    let clients = [patient(&url("shop")).await, patient(&url("shop2")).await];
    for user in 0..USERS {
        for (client, capacity) in clients.iter().zip([3, 5]) {
            for limit in ["user", "lazy"] {
                let took = client.limit(limit).key(user.to_string()).take(1).await.unwrap();
                assert_eq!((took.remaining(), took.capacity()), (capacity - 1, capacity));
            }
        }
    }
    let buckets = async |begin: &str| -> BTreeSet<String> {
        cluster.keys(&format!("{begin}:*}}:?:*")).await.into_iter().collect()
    };
    assert_eq!((buckets("shop").await.len(), buckets("shop2").await.len()), (80, 80));
    let spread = clients.len() as u64 * 2 * USERS;
    let mut sizes = Vec::new();
    for node in cluster.masters() {
        sizes.push(node.redis.ask::<Vec<String>>(&["KEYS", "*}:?:*"]).await.len() as u64);
    }
    assert!(sizes.iter().sum::<u64>() == spread && sizes.iter().all(|size| *size < spread), "{sizes:?}");

    // A pause is one of its namespace, whichever node has it, and goes with its limit.
    let other = patient(&url("shop")).await;
    clients[0].limit("user").key("7").pause(Duration::from_secs(60)).await.unwrap();
    let held = async || !other.limit("user").key("7").peek().await.unwrap().is_allowed();
    eventually(SOON, held).await;
    assert!(clients[1].limit("user").key("7").peek().await.unwrap().is_allowed());

    let before = buckets("shop2").await;
    for config in
        [config("shop", 30).replace("lazy-token", "leaky"), "[redis]\nnamespace = \"shop\"\n".to_owned()]
    {
        shop.reload(&config);
        shop.wait_for_line("reloaded: ", SOON).await;
    }
    eventually(SOON, async || {
        let left = cluster.keys("shop:*}:limit").await.len()
            + cluster.keys("shop:*}:pauses").await.len()
            + buckets("shop").await.len();
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    assert_eq!(buckets("shop2").await, before);
    for limit in ["user", "lazy"] {
        assert_eq!(clients[1].limit(limit).key("7").take(1).await.unwrap().remaining(), 3);
    }
}
