//! The scenarios. `a1: api=1/h` is a daemon of the config `a` that starts or reloads with that limit.

/// An event, the limits that are published after it, and who says what.
pub(super) type Step = (&'static str, &'static str, &'static [&'static str]);

pub(super) const SCENARIOS: &[(&str, &[Step])] = &[
    (
        "a second config comes and goes",
        &[
            ("a1: api=1/h user=1/h", "api=1/h user=1/h", &[]),
            (
                "b1: billing=1/h",
                "api=1/h user=1/h billing=1/h",
                &["b1: not in this config stay as they are: api, user"],
            ),
            ("b1 stops", "api=1/h user=1/h billing=1/h", &["status: billing: orphaned"]),
            ("a1: api=1/h user=1/h", "api=1/h user=1/h billing=1/h", &[]),
        ],
    ),
    (
        "the first config reloads beside a second",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            ("b1: billing=1/h", "api=1/h billing=1/h", &[]),
            ("a1: api=1/h mail=1/h", "api=1/h mail=1/h billing=1/h", &[]),
            ("b1: billing=2/h", "api=1/h mail=1/h billing=2/h", &[]),
            ("a1: mail=1/h", "mail=1/h billing=2/h", &[]),
        ],
    ),
    (
        "a second config is killed",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            ("b1: billing=1/h", "api=1/h billing=1/h", &[]),
            ("b1 is killed", "api=1/h billing=1/h", &["status: billing: orphaned"]),
            ("a1 is killed", "api=1/h billing=1/h", &["status: api: orphaned, in force until"]),
            ("b1: ", "api=1/h", &[]),
        ],
    ),
    (
        "a second config claims a limit of the first",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            (
                "b1: api=2/h own=1/h",
                "api=1/h own=1/h",
                &[
                    "b1: limit api refused: config a",
                    "a1: limit api contested: config b",
                    "status: limit api is refused to config b",
                ],
            ),
            ("b1: own=1/h", "api=1/h own=1/h", &["a1: settled: limit api contested"]),
        ],
    ),
    (
        "a reload claims a limit of the other",
        &[
            ("b1: own=1/h", "own=1/h", &[]),
            ("a1: api=1/h", "own=1/h api=1/h", &[]),
            (
                "b1: own=1/h api=2/h",
                "own=1/h api=1/h",
                &["b1: limit api refused: config a", "a1: limit api contested: config b"],
            ),
            (
                "b1: own=1/h api=1/h",
                "own=1/h api=1/h",
                &["b1: settled: limit api refused", "a1: settled: limit api"],
            ),
        ],
    ),
    (
        "the holder drops a contested limit",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            ("b1: api=2/h", "api=1/h", &["b1: limit api refused", "a1: limit api contested"]),
            ("a1: ", "api=2/h", &["b1: settled: limit api refused"]),
            (
                "a1: api=1/h",
                "api=2/h",
                &["a1: limit api refused: config b", "b1: limit api contested: config a"],
            ),
        ],
    ),
    (
        "the holder of a contested limit stops and starts",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            ("b1: api=2/h", "api=1/h", &["b1: limit api refused: config a (daemon"]),
            ("a1 stops", "api=1/h", &["b1: no daemon of it has been alive since", "status: api: orphaned"]),
            (
                "a1: api=1/h",
                "api=1/h",
                &["a1: limit api contested", "b1: limit api refused: config a (daemon"],
            ),
        ],
    ),
    (
        "the holder of a contested limit is killed and starts",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            ("b1: api=2/h", "api=1/h", &["b1: limit api refused: config a (daemon"]),
            ("a1 is killed", "api=1/h", &["b1: no daemon of it has been alive since"]),
            (
                "a1: api=3/h",
                "api=3/h",
                &["a1: limit api contested: config b", "b1: limit api refused: config a (daemon"],
            ),
        ],
    ),
    (
        "the refused one is killed, starts again, and stops",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            ("b1: api=2/h", "api=1/h", &["a1: limit api contested"]),
            ("b1 is killed", "api=1/h", &["a1: settled: limit api contested"]),
            ("b1: api=2/h", "api=1/h", &["b1: limit api refused", "a1: limit api contested"]),
            ("b1 stops", "api=1/h", &["a1: settled: limit api contested"]),
        ],
    ),
    (
        "two configs share a limit, and drop it one after the other",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            ("b1: api=1/h", "api=1/h", &[]),
            ("a1: ", "api=1/h", &[]),
            ("b1: ", "", &[]),
        ],
    ),
    (
        "two configs share a limit, and one is started without it",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            ("b1: api=1/h", "api=1/h", &[]),
            ("a1 is killed", "api=1/h", &[]),
            ("a1: ", "api=1/h", &[]),
            ("b1 stops", "api=1/h", &["status: api: orphaned"]),
            ("b1: ", "", &[]),
        ],
    ),
    (
        "two configs share a limit, and change it one after the other",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            ("b1: api=1/h", "api=1/h", &[]),
            (
                "a1: api=2/h",
                "api=1/h",
                &["a1: limit api refused: config b", "b1: limit api contested: config a"],
            ),
            ("b1: api=2/h", "api=2/h", &["a1: settled: limit api refused"]),
        ],
    ),
    (
        "a limit of a dead config is taken over",
        &[
            ("a1: api=1/h mail=1/h", "api=1/h mail=1/h", &[]),
            ("a1 is killed", "api=1/h mail=1/h", &[]),
            ("b1: api=2/h", "api=1/h mail=1/h", &["b1: start with --take-over api"]),
            ("b1 stops", "api=1/h mail=1/h", &[]),
            ("b1 takes over api: api=2/h", "api=2/h mail=1/h", &["b1: limit api taken over from config a"]),
            (
                "a1: api=1/h mail=1/h",
                "api=2/h mail=1/h",
                &["a1: limit api refused: config b", "b1: limit api contested"],
            ),
        ],
    ),
    (
        "a limit of a config whose daemon hangs is taken over",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            ("a1 hangs", "api=1/h", &["status: api: orphaned"]),
            ("b1 takes over api: api=2/h", "api=2/h", &["b1: limit api taken over from config a"]),
            (
                "a1 goes on",
                "api=2/h",
                &["a1: limit api refused: config b", "b1: limit api contested: config a"],
            ),
        ],
    ),
    (
        "a limit of a live config is not taken over",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            (
                "b1 takes over api: api=2/h",
                "api=1/h",
                &["b1: limit api refused: config a", "a1: limit api contested"],
            ),
            ("a1 is killed", "api=1/h", &["b1: no daemon of it has been alive since"]),
        ],
    ),
    (
        "a dead config gives a limit up by hand",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            ("a1 stops", "api=1/h", &[]),
            ("b1: api=2/h", "api=1/h", &["b1: limit api refused"]),
            (
                "topupd remove api",
                "api=2/h",
                &["command: 0 limit api stays", "b1: settled: limit api refused"],
            ),
        ],
    ),
    (
        "removal by hand",
        &[
            ("a1: api=1/h mail=1/h", "api=1/h mail=1/h", &[]),
            ("topupd remove api", "api=1/h mail=1/h", &["command: 2 topupd: daemon"]),
            ("topupd remove none", "api=1/h mail=1/h", &["command: 2 topupd: no limit none is published"]),
            ("a1 is killed", "api=1/h mail=1/h", &[]),
            ("topupd remove api", "mail=1/h", &["command: 0 removed limit api of config a"]),
        ],
    ),
    (
        "one config on two hosts is edited on one after the other",
        &[
            ("a1: api=1/h old=1/h", "api=1/h old=1/h", &[]),
            ("a2: api=1/h old=1/h", "api=1/h old=1/h", &[]),
            (
                "a1: api=2/h new=1/h",
                "api=2/h new=1/h old=1/h",
                &["a1: limit old is no longer in this config, and stays", "a2: reload this daemon"],
            ),
            ("a2: api=2/h new=1/h", "api=2/h new=1/h", &["a1: settled: daemon"]),
        ],
    ),
    (
        "the host with the old file is killed",
        &[
            ("a1: api=1/h old=1/h", "api=1/h old=1/h", &[]),
            ("a2: api=1/h old=1/h", "api=1/h old=1/h", &[]),
            ("a1: api=1/h", "api=1/h old=1/h", &["a1: limit old is no longer in this config, and stays"]),
            ("a2 is killed", "api=1/h", &["a1: settled: limit old"]),
        ],
    ),
    (
        "the host with the new file is killed, the other reloads",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            (
                "a2: api=2/h new=1/h",
                "api=2/h new=1/h",
                &[
                    "a1: limit api refused: a newer version of config a",
                    "status: limit api is refused to config a (daemon",
                ],
            ),
            ("a2 is killed", "api=2/h new=1/h", &[]),
            ("a1: api=1/h mail=1/h", "api=1/h mail=1/h", &[]),
        ],
    ),
    (
        "killed, edited, started at once",
        &[
            ("a1: api=1/h old=1/h", "api=1/h old=1/h", &[]),
            ("b1: billing=1/h", "api=1/h old=1/h billing=1/h", &[]),
            ("a1 dies", "api=1/h old=1/h billing=1/h", &[]),
            ("a1: api=1/h", "api=1/h billing=1/h", &[]),
        ],
    ),
    (
        "both are killed, and start in the other order",
        &[
            ("a1: api=1/h own=1/h", "api=1/h own=1/h", &[]),
            ("b1: api=2/h billing=1/h", "api=1/h own=1/h billing=1/h", &[]),
            ("a1 dies", "api=1/h own=1/h billing=1/h", &[]),
            ("b1 is killed", "api=1/h own=1/h billing=1/h", &[]),
            ("b1: api=2/h billing=1/h", "api=1/h own=1/h billing=1/h", &["b1: limit api refused: config a"]),
            ("a1: api=1/h own=1/h", "api=1/h own=1/h billing=1/h", &["a1: limit api contested: config b"]),
        ],
    ),
    (
        "Redis loses everything beside two configs",
        &[
            ("a1: api=1/h", "api=1/h", &[]),
            ("b1: billing=1/h", "api=1/h billing=1/h", &[]),
            ("FLUSHALL", "api=1/h billing=1/h", &[]),
            ("b1 stops", "api=1/h billing=1/h", &["status: billing: orphaned"]),
        ],
    ),
];
