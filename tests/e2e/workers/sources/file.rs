//! A file that the daemon follows.

use topup_tests::Signal;

use super::*;

#[tokio::test]
async fn a_file_is_followed_between_hand_and_config() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tenants.csv");
    replace(
        &file,
        "key,plan,until\nacme,gold\nb,gold,4102444800\nfree,exempt\nlate,gold,2020-01-01T00:00:00Z\n",
    );
    let source = format!("file = {file:?}, every = \"1s\"");
    let mut fixture = Fixture::set(&config(&source)).await;
    let (redis, user) = (&fixture.redis, fixture.bucket("user"));
    are(&user, &[("acme", 20), ("b", 20), ("late", 2), ("other", 2)]).await;
    let explain = async || Cli::new(&["explain", "user", "--key", "acme"]).redis(redis).run().await.stdout;
    let told = explain().await;
    let line = told.lines().find(|line| line.contains("2. source")).unwrap();
    assert!(
        line.starts_with("  2. source   gold  <- decides  (")
            && line.contains("tenants.csv, 4 rows, last read 20"),
        "{told}"
    );

    // The hand goes before the source, which comes back when the hand lets go.
    fixture.topup.assign("user", "acme", "silver", None).await.unwrap();
    fixture.topup.assign("user", "c", "gold", None).await.unwrap();
    are(&user, &[("acme", 4), ("c", 20)]).await;
    let told = json(redis, &["explain", "user", "--key", "acme"]).await;
    assert_eq!(
        (&told["decided_by"], &told["by_source"]["plan"]),
        (&"by-hand".into(), &"gold".into()),
        "{told}"
    );
    // c comes from both, and leaves one of them. b leaves the source, and e comes.
    replace(&file, "acme,gold\nc,silver\ne,gold\n");
    are(&user, &[("b", 2), ("c", 20), ("e", 20), ("acme", 4)]).await;
    fixture.topup.unassign("user", "acme").await.unwrap();
    fixture.topup.unassign("user", "c").await.unwrap();
    are(&user, &[("acme", 20), ("c", 4)]).await;

    // A file that stays the same writes nothing but that it was read.
    looked(redis).await;
    let before: String = redis.ask(&["HGET", "topup:{topup}:assigned", " version"]).await;
    looked(redis).await;
    let after: String = redis.ask(&["HGET", "topup:{topup}:assigned", " version"]).await;
    assert_eq!(before, after);

    // A Redis that has lost everything gets the rows again.
    redis.ask::<()>(&["FLUSHALL"]).await;
    are(&user, &[("acme", 20), ("c", 4), ("e", 20)]).await;

    // Without the source, the config decides again, and nothing that it has brought is left in force.
    fixture.reload(&config(&source).replace("source = ", "# ")).await;
    are(&fixture.bucket("user"), &[("acme", 4), ("c", 2), ("e", 2)]).await;
    eventually(SOON, async || field(&fixture.redis, "name").await.is_empty()).await;
    fixture.reload("name = \"shop\"\n").await;
    eventually(SOON, async || {
        let left: Vec<String> = fixture.redis.ask(&["KEYS", "*user*"]).await;
        let fields: Vec<String> = fixture.redis.ask(&["HKEYS", "topup:{topup}:assigned"]).await;
        let left: Vec<_> =
            left.into_iter().chain(fields.into_iter().filter(|field| field.contains("user"))).collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_wrong_changes_nothing_until_it_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tenants.csv");
    replace(&file, "acme,gold\nb,gold\nc,gold\n");
    let source = format!("file = {file:?}, every = \"1s\"");
    let mut fixture = Fixture::set(&config(&source)).await;
    let user = fixture.bucket("user");
    are(&user, &[("acme", 20), ("c", 20)]).await;
    let faults = [
        (
            "a,gold\nb,platinum\nc,go ld\nb,gold\na,gold\n",
            "line 2: limit user has no plan platinum: its plans are gold, silver",
        ),
        ("acme,gold\nacme,silver\n", "line 2: key \"acme\" has a row already, in line 1"),
        ("{\"key\": \"acme\", \"plan\": \"gold\"}\n{\"key\"", "line 2: EOF while parsing"),
        ("", "it has 0 assignments where there were 3"),
        ("acme,gold\n", "it has 1 assignment where there were 3"),
    ];
    for (text, problem) in faults {
        replace(&file, text);
        fixture.daemon.signal(Signal::HUP);
        refused(&fixture.redis, problem).await;
    }
    fs::remove_file(&file).unwrap();
    refused(&fixture.redis, "cannot be read").await;
    let since = field(&fixture.redis, "since").await;
    assert!(!since.is_empty());
    let status = json(&fixture.redis, &["status"]).await;
    let row = &status["sources"][0];
    assert_eq!(
        (&row["limit"], &row["rows"], &status["health"]),
        (&"user".into(), &3.into(), &"degraded".into()),
        "{status}"
    );
    assert!(row["problem"].is_string() && row["problem_since"].is_string(), "{row}");
    assert!(status["problems"].to_string().contains("assignments stay as they were"), "{status}");
    let told = Cli::new(&["explain", "user", "--key", "acme"]).redis(&fixture.redis).run().await.stdout;
    assert!(told.contains("not read since 20"), "{told}");
    are(&user, &[("acme", 20), ("b", 20), ("c", 20)]).await;
    let lines = fixture.daemon.lines();
    for (_, problem) in faults {
        let said =
            lines.iter().filter(|line| line.contains("nothing changes: ") && line.contains(problem)).count();
        assert_eq!(said, 1, "{problem}: {lines:?}");
    }

    // The drop is meant.
    replace(&file, "acme,silver\n");
    let consent = config(&format!("{source}, max_drop_percent = 100"));
    fixture.daemon.rewrite_config(&consent);
    fixture.daemon.signal(Signal::HUP);
    fixture.daemon.wait_for_line("can be used again", SOON).await;
    are(&user, &[("acme", 4), ("b", 2), ("c", 2)]).await;
    eventually(SOON, async || Cli::new(&["status"]).redis(&fixture.redis).run().await.code == Some(0)).await;
}
