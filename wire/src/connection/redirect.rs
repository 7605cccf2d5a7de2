//! Redirections of a cluster.

use redis::{RedisError, ServerError, Value};

use super::address::Address;
use crate::hash_slot::HashSlot;

/// A redirection. The command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// The hash slot belongs to this node.
    Moved(HashSlot, Address),
    /// The hash slot is moving to this node. The keys of the command are there already, or do not exist.
    Ask(Address),
    /// The hash slot is moving, and some keys of the command have moved. Repeat the command later.
    Later,
}

// === impl Redirect ===

impl Redirect {
    /// The redirection in `error`, a reply of the node at `asked`.
    pub(super) fn read(error: &RedisError, asked: Option<&Address>) -> Option<Self> {
        let place = || {
            let mut words = error.detail()?.split_ascii_whitespace();
            let hash_slot = HashSlot::numbered(words.next()?.parse().ok()?)?;
            Some((hash_slot, Address::parse(words.next()?, asked)?))
        };
        match error.code()? {
            "MOVED" => place().map(|(hash_slot, address)| Self::Moved(hash_slot, address)),
            "ASK" => place().map(|(_, address)| Self::Ask(address)),
            "TRYAGAIN" => Some(Self::Later),
            _ => None,
        }
    }
}

/// Whether `error` says that the keys are, or will be, on another node of a cluster. Nothing was done, so repeating the
/// command is safe.
pub fn is_elsewhere(error: &RedisError) -> bool {
    matches!(error.code(), Some("MOVED" | "ASK" | "TRYAGAIN"))
}

/// The error of a reply, if it is one.
pub(super) fn error_in(answer: &Value) -> Option<ServerError> {
    if let Value::ServerError(error) = answer { Some(error.clone()) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_says_where_to_ask() {
        let told = |code: &str, detail: &str| {
            let asked = Address::new("10.0.0.9", 7000);
            Redirect::read(&redis::make_extension_error(code.into(), Some(detail.into())), Some(&asked))
        };
        let (hash_slot, node) = (HashSlot::numbered(3999).unwrap(), Address::new("10.0.0.1", 6381));
        assert_eq!(told("MOVED", "3999 10.0.0.1:6381"), Some(Redirect::Moved(hash_slot, node.clone())));
        assert_eq!(told("ASK", "3999 10.0.0.1:6381"), Some(Redirect::Ask(node)));
        let same_host = Address::new("10.0.0.9", 6381);
        assert_eq!(told("MOVED", "3999 :6381"), Some(Redirect::Moved(hash_slot, same_host)));
        assert_eq!(told("TRYAGAIN", "Multiple keys request during rehashing"), Some(Redirect::Later));
        for detail in ["", "3999", "99999 10.0.0.1:6381", "3999 nowhere"] {
            assert_eq!(told("MOVED", detail), None, "{detail}");
        }
        assert_eq!(told("CLUSTERDOWN", "The cluster is down"), None);
    }
}
