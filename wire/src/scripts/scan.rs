//! Steps of a scan of a node's keys.

use redis::{Cmd, RedisResult};

use crate::{limit::LimitName, namespace::InNamespace};

/// One step of a scan for the states of a limit, and the cursor of the next step. Redis looks at the keys of one step
/// in a fraction of a millisecond.
pub(super) async fn scan(
    node: &mut impl InNamespace,
    name: &LimitName,
    from: u64,
) -> RedisResult<(Vec<String>, Option<u64>)> {
    scan_for(node, &node.namespace().states_pattern(name), from, 500).await
}

pub(super) async fn scan_for(
    node: &mut impl InNamespace,
    pattern: &str,
    from: u64,
    most: usize,
) -> RedisResult<(Vec<String>, Option<u64>)> {
    let mut scan = Cmd::new();
    scan.arg("SCAN").arg(from).arg("MATCH").arg(pattern).arg("COUNT").arg(most);
    let (next, found): (u64, Vec<Vec<u8>>) = scan.query_async(node).await?;
    // Keys of topup are text.
    let found = found.into_iter().filter_map(|key| String::from_utf8(key).ok());
    Ok((found.collect(), (next > 0).then_some(next)))
}
