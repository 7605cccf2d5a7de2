//! Limits that code defines, each on one node.

use std::time::Duration;

use tokio::task::JoinSet;
use topup::{Defined, Error, OnChange, Terms};
use topup_tests::{SOON, eventually};

use super::{super::fixture::patient, Fixture};

#[tokio::test]
async fn limits_are_defined_changed_and_removed_on_any_node() {
    let fixture = Fixture::set("[limit.api]\ncapacity = 10\nrate = \"100/s\"\n").await;
    let (topup, other) = (&fixture.topup, patient(fixture.cluster.url()).await);
    let names: Vec<String> = (0..9).map(|i| format!("tenant-{i}")).collect();
    let terms = |capacity| Terms::token_bucket(capacity, "1/h").keyed().on_change(OnChange::Keep);
    for name in &names {
        assert_eq!(topup.define(name, terms(9)).await.unwrap(), Defined::New);
        for key in ["a", "b"] {
            assert!(other.limit(name).key(key).take(4).await.unwrap().is_allowed());
        }
    }
    let mut changes: JoinSet<_> =
        names.iter().map(|name| topup.define(name, terms(20)).into_future()).collect();
    while let Some(changed) = changes.join_next().await {
        assert_eq!(changed.unwrap().unwrap(), Defined::Changed);
    }
    for name in &names {
        assert_eq!(topup.limit(name).key("a").take(1).await.unwrap().remaining(), 4, "{name}");
        let told = async || other.limit(name).key("b").peek().await.unwrap();
        eventually(SOON, async || told().await.capacity() == 20).await;
        assert_eq!(told().await.remaining(), 5, "{name}");
    }
    for name in &names[1..] {
        assert!(topup.undefine(name).await.unwrap());
        let gone =
            async || matches!(other.limit(name).key("a").take(1).await, Err(Error::UnknownLimit { .. }));
        eventually(SOON, gone).await;
    }
    assert!(topup.undefine(&names[0]).await.unwrap());
    topup.define("tenant-brief", terms(20)).expires_in(Duration::from_secs(1)).await.unwrap();
    let left = async || {
        let left = fixture.cluster.keys("topup:{tenant-*").await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    };
    eventually(SOON, left).await;
}
