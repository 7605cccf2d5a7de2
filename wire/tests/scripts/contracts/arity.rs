//! A wrong number of keys or arguments is an error, and changes nothing.

use redis::{Script, Value};
use topup_wire::{bucket::Operation, keyspace::ShardKeys, limit::Algorithm, namespace::Namespace, scripts};

use super::sources;
use crate::{
    generators::limit,
    server::{Redis, publish},
};

/// Right numbers of keys and arguments.
fn takes(script: &str, keys: usize, arguments: usize) -> bool {
    match script {
        "settle" => [2, 4].contains(&keys) && (3..=6).contains(&arguments),
        "script_only" => (keys, arguments) == (2, 2),
        "fair_shares_only" => keys == 2 && [3, 4].contains(&arguments),
        // One text begins both, and tells them apart by the arguments. No algorithm is called "take".
        "take_all" => (keys, arguments) == (2, 2),
        // Its first argument is a number.
        "count" => false,
        "refill" => (keys, arguments) == (3, 2),
        "mend" => keys == 3 && arguments >= 3 && !arguments.is_multiple_of(2),
        "mend_shared" => (keys, arguments) == (7, 1),
        "clean" => keys >= 3 && arguments == 2,
        "migrate" => keys >= 3 && arguments == 1,
        "sweep" => keys >= 4 && arguments == 1,
        "sweep_states" => keys >= 2 && arguments == 1,
        "publish" => keys == 3 && arguments >= 4 && arguments.is_multiple_of(2),
        "freeze" => (keys, arguments) == (1, 3),
        "announce" => keys == 2 && arguments >= 1,
        "define" => (keys, arguments) == (4, 5),
        "expire" => (keys, arguments) == (3, 2),
        "forget_defined" => (keys, arguments) == (3, 1),
        "heartbeat" => keys == 6 && arguments >= 5 && !arguments.is_multiple_of(2),
        "ownership" => (keys, arguments) == (4, 0),
        // Its fourth argument is a number.
        "claim" => false,
        "throttle" => (keys, arguments) == (1, 4),
        "poll" => (3..=5).contains(&keys) && arguments == 0,
        "assign" => keys >= 4 && arguments >= 4,
        "arrange" => (keys, arguments) == (2, 3),
        "source" => keys == 2 && arguments >= 2 && arguments.is_multiple_of(2),
        "move" => keys >= 5 && arguments == 5,
        // It takes any text as a key of its own.
        "top" => keys >= 3 && arguments >= 4 && arguments.is_multiple_of(2),
        "penalty" => keys >= 2 && arguments == keys + 4,
        "pause" => (keys, arguments) == (1, 4),
        "workers" => (keys, arguments) == (1, 2),
        // As take_all.
        "hold" => (keys, arguments) == (2, 2),
        "due_holds" => (keys, arguments) == (1, 1),
        "permits" => keys == 5 && arguments >= 3,
        other => panic!("what does {other} take?"),
    }
}

#[tokio::test]
async fn a_wrong_number_of_keys_or_arguments_changes_nothing() {
    let mut redis = Redis::start().await;
    let keys = ShardKeys::new(Namespace::default(), &"mail".parse().unwrap(), 0);
    let conn = &mut redis.connection;
    publish(conn, &keys, &limit(3, "1/h"), None).await.unwrap();
    scripts::settle(conn, Algorithm::TokenBucket, &keys, "a", Operation::Take(1), true, None).await.unwrap();
    let before = redis.keyspace().await;
    for source in sources::scripts() {
        let script = Script::new(&source.whole());
        for (given_keys, arguments) in (0..6).flat_map(|keys| (0..7).map(move |arguments| (keys, arguments)))
        {
            if takes(&source.name, given_keys, arguments) {
                continue;
            }
            let mut call = script.prepare_invoke();
            for key in
                [&keys.counter("a"), &keys.record, &keys.due, &keys.previous, "x"].iter().take(given_keys)
            {
                call.key(*key);
            }
            for argument in ["take", "1", "1", "b", "c", "d"].iter().take(arguments) {
                call.arg(*argument);
            }
            let error = call.invoke_async::<Value>(&mut redis.connection).await.unwrap_err().to_string();
            assert!(error.contains(&format!("{} takes ", source.name)), "{}: {error}", source.name);
        }
    }
    assert_eq!(redis.keyspace().await, before);
}
