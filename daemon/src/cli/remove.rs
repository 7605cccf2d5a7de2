//! `topupd remove`: removes a limit by hand.

use anyhow::anyhow;
use serde_json::json;
use topup_wire::{claims::Owner, scripts};

use super::{
    args::Remove,
    exit::Exit,
    limit_name::unknown,
    output::print_answer,
    redis::{Failure, ask, connect, run_as},
};
use crate::{
    publish::{Removal, remove_by_hand},
    text::utc,
};

pub(super) fn main(args: &Remove) -> Exit {
    run_as(args.query.json, &args.query.connect, async {
        let name = &args.limit;
        let connection = connect(&args.query.connect)?;
        ask(scripts::generation(&mut connection.clone())).await?;
        // A limit may have a million buckets: no timeout.
        let removal = remove_by_hand(&connection, name, args.force).await?;
        let (text, removed, from) = match removal {
            Removal::Removed(from) if from.is_empty() => {
                (format!("removed limit {name}, which no config held, with all its buckets"), true, from)
            }
            Removal::Removed(from) => {
                (format!("removed limit {name} of {}, with all its buckets", configs(&from)), true, from)
            }
            Removal::Undefined(definition) => {
                let (owner, until) = (&definition.owner, utc(definition.until));
                let text = format!(
                    "removed limit {name}, which {owner} had defined by code until {until}, with all its buckets"
                );
                (text, true, vec![definition.owner.clone()])
            }
            Removal::Released { daemon, from } => {
                let ended = configs(&from);
                let stays = "stays, since daemon";
                (
                    format!("limit {name} {stays} {daemon} has it in its config; ended the claim of {ended}"),
                    false,
                    from,
                )
            }
            Removal::InUse { daemon, owner } => {
                return Err(Failure::Undecided(anyhow!(
                    "daemon {daemon} has limit {name} in its config {owner}: remove [limit.{name}] there and reload, or \
                     use --force, after which that daemon publishes it again with full buckets"
                )));
            }
            Removal::Unknown => return Err(unknown(&mut connection.clone(), name).await),
        };
        let configs: Vec<&str> = from.iter().map(Owner::as_str).collect();
        let answer = json!({ "limit": name.as_str(), "removed": removed, "claims_ended": configs });
        print_answer(args.query.json, &answer, &text);
        Ok(Exit::Done)
    })
}

fn configs(owners: &[Owner]) -> String {
    owners.iter().map(|owner| format!("config {owner}")).collect::<Vec<_>>().join(", ")
}
