//! The parts of one decision, on one thread. `scripts/bench --micro` runs it. By hand, `TOPUPD` names the daemon's program:
//! `TOPUPD=target/release/topupd cargo bench --manifest-path bench/Cargo.toml`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot run may end as it likes"
)]

mod combine;
mod denial;
mod encode;
mod fixture;
mod handle;
mod lease;

fn main() {
    topup_bench::avoid_redis().unwrap();
    divan::main();
    fixture::end();
}
