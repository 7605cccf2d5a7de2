//! Limits of fair shares, with parts of any weight.

use std::time::Duration;

use topup_wire::limit::{Algorithm, Capacity, Limit, OnChange, Parts, Rate, Supply, Terms};

use crate::{clients::text, dice::Dice};

/// A limit of so many parts.
pub(super) fn limit(dice: &mut Dice, tenants: u64) -> Result<Limit, String> {
    let names = (1..tenants).map(|i| format!("t{i}")).chain(["*".to_owned()]);
    let parts: Vec<(String, u64)> = names.map(|name| (name, dice.of(1..=5))).collect();
    let weights: u64 = parts.iter().map(|(_, weight)| weight).sum();
    let capacity = weights * dice.of(1..=30) + dice.of(0..=2);
    // Full within 50 ms to 5 s.
    let rate = Rate::new((capacity * dice.of(200..=20_000)).div_ceil(1_000), Duration::from_secs(1));
    let terms =
        Terms { capacity: Capacity::new(capacity).map_err(text)?, supply: Supply::Rate(rate.map_err(text)?) };
    let name = "api".parse().map_err(text)?;
    Ok(Limit {
        parts: Parts::new(parts).map_err(text)?,
        tick: Duration::from_millis(dice.pick(&[20, 100, 100, 1_000])),
        on_change: dice.pick(&[OnChange::Keep, OnChange::Keep, OnChange::Proportional, OnChange::Reset]),
        ..Limit::plain(name, Algorithm::FairShares, terms)
    })
}
