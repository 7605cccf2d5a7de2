//! The batch of text messages.

use topup_tests::clock;

use crate::fixture::{Fixture, lines, run};

#[tokio::test]
async fn each_number_has_one_message_and_the_gateway_no_more_than_it_takes() {
    let fixture = Fixture::start().await;
    let batch: String = (0..10).map(|i| format!("+49{i} hello\n")).collect();
    let begun = clock::now();
    let ended = run(fixture.command(env!("CARGO_BIN_EXE_sms")), &batch).await;
    let sent: Vec<_> = (0..10).map(|i| format!("sent to +49{i}: hello")).collect();
    assert_eq!(lines(&ended.stdout), sent, "{ended:?}");
    // 5 at once, then 20 a second.
    let took = clock::now() - begun;
    assert!(took >= 240_000, "{took} µs");

    // The limit holds for another sender, too.
    let ended = run(fixture.command(env!("CARGO_BIN_EXE_sms")), "+490 again\n+4910 hello\n").await;
    let seen = ["not sent to +490: one message a minute", "sent to +4910: hello"];
    assert_eq!(lines(&ended.stdout), seen, "{ended:?}");
}
