//! Sends a batch of text messages: lines of a number and a text. The gateway gets no more than its rate, and each
//! number one message a minute, however many senders run.
//!
//! `sms <messages.txt`

#![allow(clippy::print_stdout, reason = "says what it sends")]

use tokio::{
    io::{AsyncBufReadExt, BufReader, stdin},
    task::JoinSet,
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    topup::set_default(topup_examples::connect().await?)?;

    let mut batch = JoinSet::new();
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let Some((number, text)) = line.split_once(' ') else { continue };
        let (number, text) = (number.to_owned(), text.to_owned());
        batch.spawn(async move {
            match send(&number, &text).await {
                Ok(()) => println!("sent to {number}: {text}"),
                Err(error) => println!("not sent to {number}: {error}"),
            }
        });
    }
    while let Some(sent) = batch.join_next().await {
        sent?;
    }
    Ok(())
}

/// Waits for the gateway, not for a number that has had its message. A text that is not sent takes no token of either
/// limit.
#[topup::limited(limit = "gateway", wait = "10s")]
#[topup::limited(limit = "sms", key = number, message = "one message a minute")]
async fn send(number: &str, text: &str) -> anyhow::Result<()> {
    anyhow::ensure!(text.len() <= 160, "{number}: too long for one message");
    // Here the gateway would be called.
    Ok(())
}
