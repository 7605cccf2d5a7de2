//! `topupd throttle`: the answer of `CL.THROTTLE`, with the Redis module redis-cell or without it.

use serde_json::json;
use topup_wire::{
    limit::{Key, Throttle as Terms},
    reply::Throttled,
    scripts,
};

use super::{
    args::Throttle,
    exit::Exit,
    output::print_line,
    redis::{Failure, ask, check_schema, connect, run_as},
};

pub(super) fn main(args: &Throttle) -> Exit {
    run_as(args.query.json, &args.query.connect, async {
        let Throttle { key, max_burst, count, period, quantity, query } = args;
        let usage = |error: anyhow::Error| Failure::Usage(error);
        let terms =
            Terms::new(*max_burst, *count, *period, *quantity).map_err(|error| usage(error.into()))?;
        let key = Key::new(key).map_err(|error| usage(error.into()))?.as_str();
        let connection = &mut connect(&query.connect)?;
        // A user who may not ask for the module gets the script.
        let throttled = if ask(scripts::has_cell(connection)).await.unwrap_or(false) {
            ask(scripts::cell_throttle(connection, key, terms)).await?
        } else {
            check_schema(connection).await?;
            ask(scripts::throttle(connection, key, terms)).await?
        };
        print_line(&if query.json { as_json(&throttled) } else { lines(&throttled) });
        Ok(if throttled.limited { Exit::Denied } else { Exit::Done })
    })
}

/// The five numbers of the reply, one on each line.
fn lines(throttled: &Throttled) -> String {
    let Throttled { limited, limit, remaining, retry_after, reset_after, .. } = throttled;
    let retry_after = retry_after.map_or_else(|| "-1".to_owned(), |seconds| seconds.to_string());
    format!("{}\n{limit}\n{remaining}\n{retry_after}\n{reset_after}", u8::from(*limited))
}

fn as_json(throttled: &Throttled) -> String {
    let Throttled { limited, limit, remaining, retry_after, reset_after, .. } = throttled;
    let answer = json!({
        "limited": limited, "limit": limit, "remaining": remaining, "retry_after_s": retry_after,
        "reset_after_s": reset_after,
    });
    answer.to_string()
}
