//! The map from hash slots to nodes.

use std::sync::Arc;

use redis::{RedisResult, Value, from_redis_value_ref};

use super::{address::Address, node::Node};
use crate::hash_slot::{HASH_SLOTS, HashSlot};

/// In place of a node: none is known.
const NOBODY: u16 = u16::MAX;

/// A map from hash slots to nodes. It may be out of date: a node that has lost a hash slot redirects.
#[derive(Clone)]
pub(super) struct Topology {
    nodes: Vec<Arc<Node>>,
    /// The node of each hash slot, by its index in `nodes`.
    owners: Box<[u16]>,
}

// === impl Topology ===

impl Topology {
    /// A map without nodes.
    pub(super) fn unknown() -> Self {
        Self { nodes: Vec::new(), owners: vec![NOBODY; usize::from(HASH_SLOTS)].into() }
    }

    /// A map with all hash slots on `master`.
    pub(super) fn whole(master: Arc<Node>) -> Self {
        Self { nodes: vec![master], owners: vec![0; usize::from(HASH_SLOTS)].into() }
    }

    /// Reads the reply of `asked` to `CLUSTER SLOTS`. `node` finds the node at an address.
    pub(super) fn read(
        answer: &Value,
        asked: Option<&Address>,
        mut node: impl FnMut(Address) -> RedisResult<Arc<Node>>,
    ) -> RedisResult<Self> {
        let mut topology = Self::unknown();
        let ranges: Vec<Vec<Value>> = from_redis_value_ref(answer)?;
        for range in ranges {
            // First hash slot, last hash slot, the master, replicas.
            let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &range[..] else {
                continue;
            };
            let [host, port, ..] = &master[..] else { continue };
            let (Some(first), Some(last)) = (HashSlot::numbered(*first), HashSlot::numbered(*last)) else {
                continue;
            };
            let host: Option<String> = from_redis_value_ref(host)?;
            let host = host.unwrap_or_default();
            // The node's address is unknown; others redirect to it.
            let Some(address) = Address::named(&host, from_redis_value_ref(port)?, asked) else { continue };
            let place = topology.place(node(address)?);
            if let Some(hash_slots) = topology.owners.get_mut(first.index()..=last.index()) {
                hash_slots.fill(place);
            }
        }
        Ok(topology)
    }

    /// Sets the node of `hash_slot`.
    pub(super) fn learn(&mut self, hash_slot: HashSlot, node: Arc<Node>) {
        let place = self.place(node);
        self.owners[hash_slot.index()] = place;
    }

    /// The node of `hash_slot`.
    pub(super) fn owner(&self, hash_slot: HashSlot) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(self.owners[hash_slot.index()]))
    }

    /// The node at `address`.
    pub(super) fn find(&self, address: &Address) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|node| node.address() == Some(address))
    }

    /// All nodes that have hash slots.
    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    fn place(&mut self, node: Arc<Node>) -> u16 {
        let same = |known: &Arc<Node>| Arc::ptr_eq(known, &node);
        let place = self.nodes.iter().position(same).unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        });
        // A cluster has a thousand nodes at most.
        place as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::address::servers;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let replica = Value::Array(vec![text("10.0.0.99"), Value::Int(7000)]);
        Value::Array(vec![
            Value::Int(first),
            Value::Int(last),
            Value::Array(vec![host, Value::Int(port), text("id")]),
            replica,
        ])
    }

    #[tokio::test]
    async fn each_slot_is_on_the_master_that_is_named() {
        let url = servers("redis://10.0.0.1:7000").unwrap().remove(0);
        let asked = url.address();
        let answer = Value::Array(vec![
            range(0, 99, text("10.0.0.2"), 7000),
            range(100, 199, text(""), 7001),
            range(200, 299, Value::Nil, 7001),
            range(300, 399, text("?"), 7001),
            range(400, 99_999, text("10.0.0.2"), 7000),
        ]);
        let mut known: Vec<Arc<Node>> = Vec::new();
        let node = |address: Address| {
            let same = known.iter().find(|node| node.address() == Some(&address)).cloned();
            let node = same.unwrap_or_else(|| Arc::new(Node::new(url.at(&address))));
            known.push(node.clone());
            Ok(node)
        };
        let topology = Topology::read(&answer, asked.as_ref(), node).unwrap();
        let owner = |hash_slot| {
            let owner = topology.owner(HashSlot::numbered(hash_slot).unwrap());
            owner.map(|node| node.address().unwrap().to_string())
        };
        assert_eq!(owner(0).as_deref(), Some("10.0.0.2:7000"));
        assert_eq!(owner(99), owner(0));
        assert_eq!(owner(100).as_deref(), Some("10.0.0.1:7001"));
        assert_eq!((owner(299), owner(300)), (owner(100), None));
        assert_eq!(owner(16_383), None, "no cluster has a hash_slot 99,999");
        assert_eq!(topology.nodes().len(), 2);
    }
}
