//! `topupd remove`: removes a limit by hand.

use anyhow::anyhow;
use topup_wire::{claims::Owner, scripts};

use super::{
    args::Remove,
    exit::Exit,
    limit_name::unknown,
    output::print_line,
    redis::{Failure, ask, connect, run},
};
use crate::publish::{Removal, remove_by_hand};

pub(super) fn main(args: &Remove) -> Exit {
    run(async {
        let name = &args.limit;
        let connection = connect(&args.connect)?;
        ask(scripts::generation(&mut connection.clone())).await?;
        // A limit may have a million buckets: no timeout.
        let removal = remove_by_hand(&connection, name, args.force).await;
        let removal =
            removal.map_err(|error| Failure::Undecided(anyhow::Error::new(error).context("Redis")))?;
        match removal {
            Removal::Removed(from) if from.is_empty() => {
                print_line(&format!("removed limit {name}, which no config held, with all its buckets"));
            }
            Removal::Removed(from) => {
                print_line(&format!("removed limit {name} of {}, with all its buckets", configs(&from)));
            }
            Removal::Released { daemon, from } => print_line(&format!(
                "limit {name} stays, since daemon {daemon} has it in its config; ended the claim of {}",
                configs(&from)
            )),
            Removal::InUse { daemon, owner } => {
                return Err(Failure::Undecided(anyhow!(
                    "daemon {daemon} has limit {name} in its config {owner}: remove [limit.{name}] there and reload, or \
                     use --force, after which that daemon publishes it again with full buckets"
                )));
            }
            Removal::Unknown => return Err(unknown(&mut connection.clone(), name).await),
        }
        Ok(Exit::Done)
    })
}

fn configs(owners: &[Owner]) -> String {
    owners.iter().map(|owner| format!("config {owner}")).collect::<Vec<_>>().join(", ")
}
