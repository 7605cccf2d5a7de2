//! `topupd throttle`: what `CL.THROTTLE` answers, with the module or without.

use topup_wire::{
    limit::{Key, Throttle as Terms},
    reply::Throttled,
    scripts,
};

use super::{
    Exit, Throttle,
    bucket::{Failure, asked, connect, ended, on_runtime},
    exit::answer,
};

pub(super) fn main(args: &Throttle) -> Exit {
    ended(on_runtime(async {
        let Throttle { key, max_burst, count, period, quantity, connect: redis } = args;
        let usage = |error: anyhow::Error| Failure::Usage(error);
        let terms =
            Terms::new(*max_burst, *count, *period, *quantity).map_err(|error| usage(error.into()))?;
        let key = Key::new(key).map_err(|error| usage(error.into()))?.as_str();
        let connection = &mut connect(redis)?;
        // Where that may not be asked, the script does as well.
        let throttled = if asked(scripts::has_cell(connection)).await.unwrap_or(false) {
            asked(scripts::cell_throttle(connection, key, terms)).await?
        } else {
            asked(scripts::throttle(connection, key, terms)).await?
        };
        answer(&told(&throttled));
        Ok(if throttled.limited { Exit::Denied } else { Exit::Done })
    }))
}

/// The five numbers of the reply, one on each line.
fn told(throttled: &Throttled) -> String {
    let Throttled { limited, limit, remaining, retry_after, reset_after, .. } = throttled;
    let retry_after = retry_after.map_or_else(|| "-1".to_owned(), |seconds| seconds.to_string());
    format!("{}\n{limit}\n{remaining}\n{retry_after}\n{reset_after}", u8::from(*limited))
}
