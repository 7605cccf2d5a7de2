//! The judge: an ideal bucket in whole numbers, which knows nothing of forms, scripts and estimates.
//!
//! A run notes events in the order in which Redis carries them out. The judge reads them when the run is over: only
//! then is it known which tokens a caller was told of.

mod ideal;
mod law;
mod note;

use self::ideal::Ideal;
pub use self::law::{Broken, Law};
pub(crate) use self::note::Note;
use crate::plan::Promise;

/// The first law that a bucket's notes break, and the worst excess over law 1 in thousandths of a token.
pub(crate) fn judge(
    bucket: usize,
    promises: &[Promise],
    notes: &[(u64, Note)],
    vanishing: bool,
) -> (Option<Broken>, u64) {
    let mut ideal = Ideal::new(promises);
    // Buckets that rest as numbers keep exact instants, with three exceptions. A key may live 2 ms too long. A first take may
    // name an instant that has passed by a quarter of a token. Tokens that are put back were away for 1 ms and two ways to
    // Redis. The most that 300,000 seeds had together is 0.97 tokens, and 0.99 if late first takes are not corrected.
    let exact = vanishing && promises.iter().all(|promise| promise.rests_as_number());
    let allowed = if exact { ideal.token * 31 / 32 } else { ideal.token };
    let mut broken = None;
    for &(at, note) in notes {
        let over = ideal.note(at, note);
        let law = match note {
            Note::Charged(_, debt, _) if over >= allowed + ideal.tokens(debt) => {
                Some(Law::Over(ideal.thousandths(over - ideal.tokens(debt))))
            }
            Note::Admitted(_) | Note::Paid(..) if over >= allowed + ideal.debt => {
                Some(Law::Over(ideal.thousandths(over)))
            }
            Note::Seen(tokens, elsewhere) if vanishing => {
                // A first take may be noted 1 ms late, and a token falls on a whole µs.
                let slack = ideal.token * 2 + ideal.rate * 1_010 + ideal.gifts;
                let vanished = ideal.level - ideal.tokens(tokens) - ideal.tokens(elsewhere) - slack;
                (vanished > 0).then(|| Law::Vanished(ideal.thousandths(vanished + slack)))
            }
            _ => None,
        };
        if let (Some(law), None) = (law, &broken) {
            broken = Some(Broken { bucket, at, law });
        }
    }
    let worst = ideal.thousandths(ideal.most.max(0));
    (broken, worst)
}

/// Law 2: by how many thousandths of a token the worst window from `from` on fell short of the rate.
pub(crate) fn short_of_rate(promise: Promise, notes: &[(u64, Note)], from: u64, to: u64) -> (u64, u64) {
    let (tokens, interval) = (i128::from(promise.tokens), i128::from(promise.interval));
    // Windows begin after an admission and end before another.
    let (mut admitted, mut least, mut worst, mut worst_at) = (0_i128, None::<i128>, 0, 0);
    let ends = notes.iter().filter_map(|&(at, note)| match note {
        Note::Admitted(count) if (from..to).contains(&at) => Some((at, count)),
        _ => None,
    });
    for (at, count) in ends {
        let due = i128::from(at - from) * tokens - admitted * interval;
        let short = due - least.unwrap_or(due);
        if short > worst {
            (worst, worst_at) = (short, at);
        }
        admitted += i128::from(count);
        let begins = i128::from(at - from) * tokens - admitted * interval;
        least = Some(least.map_or(begins, |least| least.min(begins)));
    }
    (u64::try_from(worst * 1_000 / interval).unwrap_or(0), worst_at)
}
