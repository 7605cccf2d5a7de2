//! Pages of the docs, run as a reader would.

use std::path::Path;

use topup_tests::page;

#[tokio::test]
async fn the_tutorial_does_what_it_shows() {
    page::run(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tutorial.md")).await;
}

#[tokio::test]
async fn the_page_about_cron_does_what_it_shows() {
    page::run(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cron.md")).await;
}
