//! `topupd acl`: prints the Redis users of workers, daemons and viewers.

use topup_wire::{acl::Role, keyspace::PREFIX};

use super::{exit::Exit, output::print_line};

pub(super) fn main() -> Exit {
    for role in Role::ALL {
        print_line(&role.set_user(PREFIX));
    }
    Exit::Done
}
