//! What a decision costs that needs no Redis: one thread, one bucket. `TOPUPD` names the daemon's program:
//! `TOPUPD=target/release/topupd cargo bench --manifest-path bench/Cargo.toml`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot run may end as it likes"
)]

use std::path::PathBuf;

use topup::Client;
use topup_bench::Stage;

fn main() {
    // What the stage starts runs through this program, see `leash`.
    if std::env::args().nth(1).as_deref() == Some("leash") {
        topup_bench::main();
        return;
    }
    divan::main();
}

/// A take of a bucket that is known to be empty: answered from memory, but for one script a second.
#[divan::bench]
fn denied_from_memory(bencher: divan::Bencher<'_, '_>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let topupd = std::env::var_os("TOPUPD").map(PathBuf::from).expect("TOPUPD names the daemon's program");
    let (_stage, bucket) = runtime.block_on(async {
        let stage = Stage::set(&topupd, None).await.unwrap();
        stage.published("slow-hot", None).await.unwrap();
        let bucket = Client::connect(stage.url()).await.unwrap().limit("slow-hot");
        while bucket.take(1).await.unwrap().is_allowed() {}
        (stage, bucket)
    });
    bencher.bench_local(|| runtime.block_on(bucket.take(1)).unwrap());
}
