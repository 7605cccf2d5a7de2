//! Penalties in virtual time: whole clients, and keys that are denied again and again.
//!
//! # Laws
//!
//! - *Earned*: a block begins after as many denied takes as the penalty says, within its time and that of a hand-over.
//!   Takes that were denied within a block do not count.
//! - *Blocked*: twice as many denied takes less one always begin a block, if they come within that time less that of a
//!   hand-over. A block that somebody ended stands in the way until it would have been over.
//! - *Length*: a block takes as long as the penalty says, and the time of an answer at most. Nothing makes it longer. A key
//!   that stays free for as long as its last block took begins anew. A block that Redis refused begins later, and has
//!   its first end.
//! - *Held*: no take of the key is allowed from the next poll of a worker to the end of the block. The poll
//!   comes within 250 ms and the time of a few commands.
//! - *Told*: a denial tells the end of a block, or a wait for tokens. No worker tells of a block a poll after it was ended.
//! - *Nothing left*: a key that nobody takes from has no key in Redis once its last block and as much time again are over.

mod laws;

use std::time::Duration;

use topup_wire::{
    limit::{Algorithm, Limit, Penalty},
    scripts,
};

use crate::{
    clients::{Clients, LIMIT, Planted, Rule, Ways, alone, name, text},
    dice::Dice,
    plan::SECOND,
};

/// Traffic of a run, in µs.
const LASTS: u64 = 16 * SECOND;
/// The longest step of a run.
const STEP: u64 = 40_000;
/// A client with commands that take no longer than this never loses an answer.
const SURE: u64 = 20_000;
/// The times between takes of a key, of which few are denied or most.
const SLOWLY: [u64; 4] = [400_000, 400_000, 500_000, 5 * SECOND];
const QUICKLY: [u64; 4] = [15_000, 60_000, 400_000, 5 * SECOND];
const KEYS: [&str; 2] = ["eve", "bot"];
/// Tokens come slowly, and denied takes do not.
const RULES: [Rule; 3] = [Rule::new(1, 1), Rule::new(5, 1), Rule::new(3, 4)];
/// The longest block of any penalty.
const LONGEST: u64 = 9;

/// A mistake to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PenaltyFault {
    /// A block begins one denied take too early.
    TooEarly,
    /// Denied takes count without end.
    TimeIgnored,
    /// Denied takes within a block count for the next one.
    CountsBlocked,
    /// All blocks take as long as the first.
    NeverGrows,
    /// No key begins anew.
    NeverForgets,
    /// A block ends half a second too early.
    EndsEarly,
    /// One client never hears of blocks.
    NeverLooks,
    /// The end by hand of a block changes nothing.
    StaysBlocked,
    /// A block whose worker had no answer is lost.
    LostWithAnswer,
    /// Redis keeps its state of a key.
    StateStays,
}

/// A pause of a key, as Redis has it.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// It began between these two instants.
    after: u64,
    from: u64,
    /// Its end, unless somebody or a flush ended it.
    until: u64,
    ended: Option<u64>,
}

/// A penalty in force since an instant.
type Terms = (u64, Penalty);

struct World {
    clients: Clients,
    dice: Dice,
    rule: Rule,
    limit: Limit,
    /// Commands are late by more than [`SURE`].
    is_late: bool,
    /// Some blocks are refused by Redis.
    is_refused: bool,
    is_slow: bool,
    terms: Vec<Terms>,
    blocks: [Vec<Block>; KEYS.len()],
    /// When Redis was away, and when it lost its data.
    outages: Vec<(u64, u64)>,
    flushes: Vec<u64>,
    /// When the blocks were noted last.
    looked_at: u64,
}

// === impl PenaltyFault ===

impl PenaltyFault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::TooEarly,
        Self::TimeIgnored,
        Self::CountsBlocked,
        Self::NeverGrows,
        Self::NeverForgets,
        Self::EndsEarly,
        Self::NeverLooks,
        Self::StaysBlocked,
        Self::LostWithAnswer,
        Self::StateStays,
    ];

    const fn planted(self) -> Planted {
        match self {
            Self::TooEarly => Planted::Script("if denied >= after then", "if denied >= after - 1 then"),
            Self::TimeIgnored => Planted::Script("now - since >= within", "false"),
            Self::CountsBlocked => Planted::Script("if till <= now then", "if true then"),
            Self::NeverGrows => Planted::Script("first * factor ^ math.min(blocks, 60)", "first"),
            Self::NeverForgets => Planted::Script("if anew <= now then", "if false then"),
            Self::EndsEarly => Planted::Script("now + ARGV[3])", "now + ARGV[3] - 500000)"),
            Self::NeverLooks => Planted::Unheard("topup:{topup}:pauses"),
            Self::StaysBlocked => Planted::Script("ended = redis.call('ZREM', key, member)", "ended = 0"),
            Self::LostWithAnswer => Planted::Script("elseif open > now then", "elseif false then"),
            Self::StateStays => Planted::Script("redis.call('PEXPIRE', key, math.ceil(kept / 1000))", ""),
        }
    }
}

/// Runs `seed` with a mistake. Returns the number of blocks.
///
/// # Errors
/// The law that is broken, in words.
pub fn run_penalties(seed: u64, fault: Option<PenaltyFault>) -> Result<u64, String> {
    alone(async {
        let mut dice = Dice::new(seed);
        let algorithm = dice.pick(&[Algorithm::TokenBucket, Algorithm::LazyTokenBucket, Algorithm::Gcra]);
        let is_slow = dice.chance(1, 3);
        let penalty = penalty(&mut dice, is_slow)?;
        let rule = dice.pick(&RULES);
        let limit = Limit { algorithm, penalty: Some(penalty), ..rule.limit(name()?)? };
        let many = dice.pick(&[1, 1, 1, 4, 4, 4, 4, 4, 16, 16, 64]);
        // Some replies come after the deadline of 250 ms.
        let late = dice.pick(&[0, SURE, SURE, 300_000]);
        let planted = fault.map_or(Planted::Nothing, PenaltyFault::planted);
        let is_refused = dice.chance(1, 5);
        let ways = if is_refused { Ways::from(0).refusing(b"pause") } else { late.into() };
        let clients = Clients::start(&mut dice, many, ways, planted, std::slice::from_ref(&limit)).await?;
        let looked_at = clients.now();
        let mut world = World {
            clients,
            dice,
            rule,
            limit,
            is_late: !is_refused && late > SURE,
            is_refused,
            is_slow,
            terms: vec![(0, penalty)],
            blocks: Default::default(),
            outages: Vec::new(),
            flushes: Vec::new(),
            looked_at,
        };
        world.run().await
    })
}

fn penalty(dice: &mut Dice, is_slow: bool) -> Result<Penalty, String> {
    let (after, within) = (if is_slow { 8 } else { dice.pick(&[1, 3, 8, 20]) }, dice.pick(&[2, 3, 6]));
    let [within, block, longest] =
        [within, dice.pick(&[2, 3]), dice.of(3..=LONGEST)].map(Duration::from_secs);
    Penalty::new(after, within, block, dice.pick(&[1, 2, 3]), longest).map_err(text)
}

// === impl World ===

impl World {
    async fn run(&mut self) -> Result<u64, String> {
        let ends = self.clients.now() + LASTS;
        let often = if self.is_slow { SLOWLY } else { QUICKLY };
        let (mut gaps, mut next) = ([often[0]; KEYS.len()], [0; KEYS.len()]);
        let mut mishap_at = self.clients.now() + self.dice.gap(5 * SECOND);
        while self.clients.now() < ends {
            let gap = self.dice.gap(15_000).min(STEP);
            self.clients.advance(gap).await;
            self.look().await?;
            let now = self.clients.now();
            if now >= mishap_at {
                mishap_at = now + self.dice.gap(5 * SECOND);
                self.mishap().await?;
            }
            for key in 0..KEYS.len() {
                if self.dice.chance(1, 150) {
                    gaps[key] = self.dice.pick(&often);
                }
                if now >= next[key] {
                    next[key] = now + self.dice.gap(gaps[key]);
                    let client = self.clients.any(&mut self.dice);
                    self.clients.take(&client, (key, KEYS[key]), 1, None);
                }
            }
        }
        for _ in 0..2 * SECOND / STEP {
            self.clients.advance(STEP).await;
            self.look().await?;
        }
        let calls = self.clients.calls_of(KEYS.len());
        for (key, calls) in calls.iter().enumerate() {
            let blocks = &self.blocks[key];
            self.judge(blocks, calls).map_err(|law| {
                let (many, slowest) = (self.clients.all.len(), self.clients.slowest);
                let Self { terms, outages, flushes, .. } = self;
                let key = KEYS[key];
                format!(
                    "{law}, {many} clients, slowest {slowest}, {key}, {terms:?}, {blocks:?}, away {outages:?}, \
                     {flushes:?}"
                )
            })?;
        }
        self.nothing_left().await?;
        Ok(self.blocks.iter().map(|blocks| blocks.len() as u64).sum())
    }

    /// Notes the blocks that Redis has.
    async fn look(&mut self) -> Result<(), String> {
        let (now, paused) =
            (self.clients.now(), scripts::paused(&mut self.clients.redis).await.map_err(text)?.pauses);
        let (slowest, is_late) = (self.clients.slowest, self.is_late);
        for (key, blocks) in self.blocks.iter_mut().enumerate() {
            let until =
                paused.iter().find(|pause| pause.key.as_deref() == Some(KEYS[key])).map(|one| one.until);
            let after = self.looked_at;
            let was_ended =
                blocks.last().is_some_and(|last| last.ended.is_some() && Some(last.until) == until);
            if was_ended && !is_late {
                return Err(format!("told: {:?} is there at {now}", blocks.last()));
            }
            match (blocks.last_mut().filter(|last| last.until > now && last.ended.is_none()), until) {
                (None, Some(until)) if until > now => {
                    blocks.push(Block { after, from: now, until, ended: None })
                }
                // A block that is begun once more, by a worker without an answer, ends as late as the second time.
                (Some(last), Some(until)) if until.abs_diff(last.until) <= 2 * slowest => last.until = until,
                (Some(last), Some(until)) => return Err(format!("length: {last:?} ends at {until}")),
                (Some(last), None) => return Err(format!("held: {last:?} is gone at {now}")),
                _ => {}
            }
        }
        self.looked_at = now;
        Ok(())
    }

    /// Somebody ends a block, the config changes, or Redis goes away or loses its data.
    async fn mishap(&mut self) -> Result<(), String> {
        match self.dice.of(0..=9) {
            0..=4 => {
                let key = self.dice.index(KEYS.len());
                let now = self.clients.now();
                if self.blocks[key].last().is_some_and(|last| last.until > now && last.ended.is_none()) {
                    let redis = &mut self.clients.redis;
                    scripts::resume(redis, &self.limit.name, Some(KEYS[key])).await.map_err(text)?;
                    self.end(key);
                }
            }
            5..=7 => {
                let penalty = penalty(&mut self.dice, self.is_slow)?;
                if self.limit.penalty != Some(penalty) {
                    self.limit.penalty = Some(penalty);
                    self.terms.push((self.clients.now(), penalty));
                    self.clients.publish(&self.limit.clone()).await?;
                }
            }
            8 => {
                let (redis, from) = (self.clients.topup.redis().clone(), self.clients.now());
                redis.set_away(true);
                let lasts = self.dice.gap(SECOND / 2);
                self.clients.advance(lasts).await;
                redis.set_away(false);
                self.outages.push((from, self.clients.now()));
                self.look().await?;
            }
            _ => {
                self.clients.topup.redis().flush();
                self.flushes.push(self.clients.now());
                (0..KEYS.len()).for_each(|key| self.end(key));
                self.clients.publish(&self.limit.clone()).await?;
            }
        }
        Ok(())
    }

    /// A block ends before its time.
    fn end(&mut self, key: usize) {
        let now = self.clients.now();
        if let Some(last) = self.blocks[key].last_mut().filter(|last| last.until > now) {
            last.ended.get_or_insert(now);
        }
    }

    /// The clients are gone.
    async fn nothing_left(&mut self) -> Result<(), String> {
        self.clients.all.clear();
        self.clients.advance(2 * LONGEST * SECOND + SECOND).await;
        let mut left = self.clients.keys_like(&format!("topup:{{{LIMIT}:*:penalty:*")).await?;
        left.extend(self.clients.keys_like("topup:*pauses").await?);
        if left.is_empty() { Ok(()) } else { Err(format!("nothing left: {left:?}")) }
    }
}
