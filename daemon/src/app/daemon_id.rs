//! The name of a daemon.

use std::hash::{BuildHasher, RandomState};

/// The name of this daemon among others: host, process and a random token. Containers on one host may share the first
/// two.
pub fn daemon_id() -> String {
    let host = rustix::system::uname();
    let token = RandomState::new().hash_one(()) as u32;
    format!("{}:{}:{token:08x}", host.nodename().to_string_lossy(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As two containers on one host may be.
    #[test]
    fn two_daemons_of_one_host_and_process_id_have_two_names() {
        let [one, other] = [daemon_id(), daemon_id()];
        let process = |id: &str| id.rsplit_once(':').map(|(process, _)| process.to_owned());
        assert_eq!(process(&one), process(&other));
        assert_ne!(one, other);
    }
}
