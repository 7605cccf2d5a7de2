//! One decision, close up: what its parts cost, on one thread. `scripts/bench --micro` runs it; by hand, `TOPUPD` names the
//! daemon's program: `TOPUPD=target/release/topupd cargo bench --manifest-path bench/Cargo.toml`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot run may end as it likes"
)]

mod combine;
mod denial;
mod encode;
mod handle;
mod lease;
mod table;

fn main() {
    // What the fixture starts runs through this program, see `child_process`.
    if std::env::args().nth(1).as_deref() == Some("child") {
        topup_bench::main();
        return;
    }
    topup_bench::avoid_redis().unwrap();
    divan::main();
    table::clear();
}
