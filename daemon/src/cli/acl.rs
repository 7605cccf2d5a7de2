//! `topupd acl`: prints the Redis users of workers, daemons and viewers.

use topup_wire::acl::Role;

use super::{args::Acl, exit::Exit, output::print_line};

pub(super) fn main(args: &Acl) -> Exit {
    for role in Role::ALL {
        print_line(&role.set_user(args.namespace.unwrap_or_default()));
    }
    Exit::Done
}
