//! `topupd acl`: prints the Redis users of workers, daemons, viewers and definers.

use serde_json::json;
use topup_wire::acl::Role;

use super::{args::Acl, exit::Exit, output::print_line};

pub(super) fn main(args: &Acl) -> Exit {
    let users = Role::ALL.map(|role| (role.user(), role.set_user(args.namespace.unwrap_or_default())));
    if args.json {
        let users = users.map(|(user, command)| json!({ "user": user, "command": command }));
        print_line(&json!({ "users": users }).to_string());
    } else {
        users.iter().for_each(|(_, command)| print_line(command));
    }
    Exit::Done
}
