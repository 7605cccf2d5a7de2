//! The keys that only daemons write.

/// Whether only daemons write `key`: a record, or a key about all limits.
pub(crate) fn is_published(key: &[u8]) -> bool {
    let parts = || {
        let (namespace, rest) = std::str::from_utf8(key).ok()?.split_once(":{")?;
        let (tag, end) = rest.split_once("}:")?;
        Some((namespace, tag, end))
    };
    // The key of a throttle has a longer prefix. A bucket's key may hold anything, but begins with a letter. Workers
    // write their own index, and assign keys.
    parts().is_some_and(|(namespace, tag, end)| {
        let is_of_workers = |end: &str| {
            let begins = |with| end.starts_with(with);
            end == "workers" || end == "assignments" || begins("assigned:") || begins("moved:")
        };
        !namespace.contains(':') && (tag == namespace && !is_of_workers(end) || end == "limit")
    })
}
