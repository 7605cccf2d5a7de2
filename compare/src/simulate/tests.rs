//! Limits on a trace: each algorithm, plans, parts and penalties.

use topup_daemon::{config::Config, publish::desired_limits};

use super::*;

fn tried(text: &str) -> Tried {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let config = Config::load(file.path()).unwrap();
    let desired = desired_limits(&config, BEGIN, |_| true);
    let (plans, mut limits): (Vec<Limit>, Vec<Limit>) =
        desired.into_iter().map(|desired| desired.limit).partition(|limit| limit.name.as_plan().is_some());
    let limit = limits.remove(0);
    let assigned = ["a", "b", "c"].map(|key| (key.to_owned(), limit.plans.of(key, BEGIN)));
    let targets = assigned.iter().filter_map(|(key, of)| Some((key.clone(), of.as_ref()?.1.target)));
    Tried { targets: targets.collect(), limit: limit.clone(), plans }
}

fn of(algorithm: &str, keyed: bool) -> Tried {
    let terms = match algorithm {
        "fixed-window" | "sliding-window" | "sliding-counter" => "limit = 5\nwindow = \"10s\"",
        _ => "capacity = 5\nrate = \"1/2s\"",
    };
    tried(&format!("[limit.x]\nkeyed = {keyed}\nalgorithm = \"{algorithm}\"\n{terms}\n"))
}

/// Eight takes of "a" at once, one of "b", and one of each after four seconds and after twenty.
const TRACE: &str = "0,a\n0,a\n0,a\n0,a\n0,a\n0,a\n0,a\n0,a\n0,b\n4,a\n4,b\n20,a\n20,b\n20,b,6\n";

#[test]
fn each_algorithm_decides_a_trace_as_its_script_does() {
    let trace = Trace::parse(TRACE, "trace").unwrap();
    // Windows of 10 s give nothing back after 4 s.
    for (algorithm, denied_of_a) in [
        ("token-bucket", 3),
        ("lazy-token-bucket", 3),
        ("gcra", 3),
        ("leaky-bucket", 3),
        ("fixed-window", 4),
        ("sliding-window", 4),
        ("sliding-counter", 4),
    ] {
        let told = simulate(&of(algorithm, true), &trace).unwrap();
        assert_eq!(
            (told.takes, told.keys, told.denied, told.too_large),
            (14, 2, denied_of_a + 1, 1),
            "{algorithm}"
        );
        let key = |key: &str, denied, takes| DeniedKey { key: key.to_owned(), denied, takes };
        assert_eq!(told.most_denied, [key("a", denied_of_a, 10), key("b", 1, 4)], "{algorithm}");
        assert!(told.longest_retry_after.is_some_and(|wait| wait >= 2.0), "{told:?}");
        // One bucket for all.
        let told = simulate(&of(algorithm, false), &trace).unwrap();
        assert!(told.denied > denied_of_a + 1, "{algorithm}: {told:?}");
    }
    let text = simulate(&of("token-bucket", true), &trace).unwrap().text();
    assert_eq!(
        text,
        "limit x: token-bucket, capacity 5, 1/2s\n14 takes of 2 keys in 20.0 s\n10 allowed (71.4 %), 4 denied \
         (28.6 %)\n1 of them ask for more than a bucket ever holds\nlongest retry_after 2.000 s\nmost denied\n  a  3 of \
         10\n  b  1 of 4"
    );
}

#[test]
fn each_key_is_decided_by_its_plan() {
    let trace = Trace::parse(&format!("{TRACE}20,c\n20,c\n"), "trace").unwrap();
    let own = "[limit.x]\nkeyed = true\ncapacity = 5\nrate = \"1/2s\"\n";
    for (keys, denied, plans) in [
        ("", 4, vec![]),
        // Eight at once of a bucket of seven.
        ("a = \"gold\"", 2, vec![("gold", 1, 10)]),
        ("a = \"exempt\"\nc = \"deny\"", 3, vec![("deny", 2, 2), ("exempt", 0, 10)]),
        ("\"*\" = \"gold\"", 1, vec![("gold", 1, 16)]),
    ] {
        let plan = "plan.gold = { capacity = 7, rate = \"1/2s\" }";
        let told = simulate(&tried(&format!("{own}{plan}\n[limit.x.keys]\n{keys}\n")), &trace).unwrap();
        let of = |(plan, denied, takes): (&str, _, _)| PlanTakes { plan: plan.to_owned(), denied, takes };
        assert_eq!((told.denied, told.plans), (denied, plans.into_iter().map(of).collect()), "{keys}");
    }
}

#[test]
fn what_a_trace_cannot_tell_is_refused() {
    let trace = Trace::parse(TRACE, "trace").unwrap();
    let quota = "[limit.x]\ncapacity = 5\nrefill = { cron = \"0 0 0 1 * *\" }\n";
    let pure = "[limit.x]\ncapacity = 5\nrate = \"1/s\"\ncatch_up = false\n";
    for text in [quota, pure] {
        assert!(simulate(&tried(text), &trace).unwrap_err().to_string().contains("see `replay`"));
    }
}

#[test]
fn a_key_is_blocked_after_too_many_denied_takes() {
    // A bucket of one token in 10 s. The third denied take blocks "a" for 10 s, and the sixth for 20 s.
    let text = "[limit.x]\nkeyed = true\ncapacity = 1\nrate = \"1/10s\"\n";
    let penalty = "penalty = { after = 3, within = \"1min\", block = \"10s\" }\n";
    let takes = |times: &[u64]| times.iter().map(|at| format!("{at},a\n")).collect::<String>();
    let trace = takes(&[0, 1, 2, 3, 4, 12, 13, 14, 15, 16, 34, 36]) + "36,b\n";
    let trace = Trace::parse(&trace, "trace").unwrap();
    let plain = simulate(&tried(text), &trace).unwrap();
    assert_eq!((plain.denied, plain.blocked), (9, None));
    let told = simulate(&tried(&(text.to_owned() + penalty)), &trace).unwrap();
    // Denied: 1, 2, 3; blocked: 4, 12; allowed: 13; denied: 14, 15, 16; blocked until 36: 34.
    assert_eq!((told.denied, told.blocked), (9, Some(3)));
    assert_eq!(told.longest_retry_after, Some(9.0));
    assert!(told.text().contains("\n3 of them within blocks"), "{}", told.text());
    // It begins anew after it was free for 20 s, and keys of a part are blocked one by one.
    let parts =
        "[limit.x]\nshare = \"borrow\"\ncapacity = 2\nrate = \"2/10s\"\nparts = { a = 1, \"*\" = 1 }\n";
    let told = simulate(&tried(&(parts.to_owned() + penalty)), &trace).unwrap();
    assert!(told.blocked.is_some_and(|blocked| blocked > 0), "{told:?}");
    assert_eq!(told.most_denied.len(), 1, "{told:?}");
}
