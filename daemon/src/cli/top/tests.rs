//! Screens as they are drawn, without a terminal.

use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::Color,
};

use super::{
    model::{Flow, Model, Sort},
    plain, view,
};
use crate::report::{DaemonRow, DeniedKey, Health, LimitRow, PauseRow, StatusReport, TopDenied};

fn row(name: &str, tokens: Option<u64>, allowed: f64, denied: f64) -> LimitRow {
    LimitRow {
        name: name.to_owned(),
        algorithm: "token-bucket",
        capacity: 100,
        rate: Some("10/s".to_owned()),
        tokens,
        active: Some(7),
        mode: "enforce",
        allowed_per_second: Some(allowed),
        denied_per_second: Some(denied),
        ..LimitRow::default()
    }
}

fn report() -> StatusReport {
    let mut report = StatusReport {
        redis: "redis://127.0.0.1:6379".to_owned(),
        latency_ms: Some(0.25),
        generation: Some(17),
        limits: vec![
            row("api", Some(25), 50.0, 0.0),
            row("login", Some(100), 1.0, 12.5),
            row("user", None, 900.0, 3.0),
        ],
        ..StatusReport::default()
    };
    let pause = |key: Option<&str>| PauseRow {
        limit: "api".to_owned(),
        key: key.map(str::to_owned),
        until: "2026-11-22T18:39:00Z".to_owned(),
        left_ms: 90_000.0,
    };
    report.pauses = vec![pause(None), PauseRow { limit: "user".to_owned(), ..pause(Some("a\u{1b}b")) }];
    report.daemons = vec![DaemonRow {
        id: "host:42:0badcafe".to_owned(),
        config: "/etc/topup/config.toml".to_owned(),
        config_hash: String::new(),
        version: "0.1.0".to_owned(),
        lag_ms: 0.5,
        credited: 1,
        repaired: 0,
        config_refused: None,
        config_refused_since: None,
    }];
    report
}

fn drawn(model: &mut Model, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, model)).unwrap();
    terminal
}

fn lines(model: &mut Model, width: u16, height: u16) -> Vec<String> {
    let screen = drawn(model, width, height).backend().to_string();
    screen.lines().map(|line| line.trim_matches('"').trim_end().to_owned()).collect()
}

fn press(model: &mut Model, keys: &str) -> Flow {
    let press = |flow, c| match flow {
        Flow::Quit => Flow::Quit,
        Flow::Continue => {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            model.on_key(KeyEvent::new(code, KeyModifiers::NONE))
        }
    };
    keys.chars().fold(Flow::Continue, press)
}

#[test]
fn a_screen_of_80_by_24_has_all_that_matters() {
    let mut model = Model::new(true);
    assert_eq!(lines(&mut model, 80, 24)[0], "topup: asking Redis");
    model.show(report());
    let screen = lines(&mut model, 80, 24);
    assert_eq!(screen.len(), 24);
    assert_eq!(
        screen[..7],
        [
            "topup redis://127.0.0.1:6379, 0.2 ms, 3 limits, 1 daemon, healthy",
            "daemon host:42:0badcafe  lag 0.5 ms  config /etc/topup/config.toml",
            "",
            "limit        rate           allowed/s denied/s v fill             state",
            "login        10/s                 1.0       12.5 ########## 100 % enforce",
            "user         10/s               900.0        3.0 7 counting       1 key paused",
            "api          10/s                50.0        0.0 ###------- 25 %  paused 1m 30s",
        ],
        "{screen:#?}"
    );
    assert_eq!(screen[23], "q quit   s sort: denied/s   / filter   ? help");
}

#[test]
fn problems_come_first_and_colours_may_be_off() {
    for has_colours in [true, false] {
        let mut model = Model::new(has_colours);
        let mut report = report();
        for i in 0..5 {
            report.add_problem(Health::Degraded, "test", format!("problem {i}"), "nothing");
        }
        model.show(report);
        let terminal = drawn(&mut model, 80, 24);
        let buffer = terminal.backend().buffer();
        assert!(
            lines(&mut model, 80, 24)[1..5]
                == ["! problem 0", "! problem 1", "! problem 2", "! and 2 more: see topupd status"]
        );
        let is_coloured =
            buffer.content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(is_coloured, has_colours);
    }
}

#[test]
fn keys_sort_filter_scroll_help_and_quit() {
    let mut model = Model::new(false);
    model.show(report());
    let names = |model: &Model| model.rows().iter().map(|row| row.name.clone()).collect::<Vec<_>>().join(" ");
    let orders = ["login user api", "user api login", "api login user", "api login user", "login user api"];
    for (order, sort) in
        orders.iter().zip([Sort::Denied, Sort::Allowed, Sort::Fill, Sort::Name, Sort::Denied])
    {
        assert_eq!((names(&model).as_str(), model.sort), (*order, sort));
        press(&mut model, "s");
    }
    assert_eq!(press(&mut model, "/qs"), Flow::Continue, "text, not commands");
    assert_eq!(lines(&mut model, 80, 24)[23], "/qs_   Enter: keep, Esc: all limits");
    assert_eq!(names(&model), "");
    press(&mut model, "\u{1b}/log\n");
    assert_eq!(names(&model), "login");
    assert!(lines(&mut model, 80, 24)[23].ends_with("   only \"log\""));
    press(&mut model, "\u{1b}");
    assert_eq!(model.rows().len(), 3);
    press(&mut model, "?");
    assert!(lines(&mut model, 80, 24).iter().any(|line| line.contains("sort by the next column")));
    press(&mut model, "s");
    assert!(!model.shows_help);
    assert_eq!(press(&mut model, "q"), Flow::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(model.on_key(interrupt), Flow::Quit);
}

#[test]
fn many_limits_scroll_and_no_size_of_the_terminal_is_a_panic() {
    let mut model = Model::new(true);
    let mut many = report();
    many.limits = (0..1_000).map(|i| row(&format!("limit{i:04}"), Some(i), 0.0, 0.0)).collect();
    model.show(many);
    model.on_key(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
    assert!(lines(&mut model, 80, 24)[22].starts_with("limit0999"));
    model.on_key(KeyEvent::new(KeyCode::Home, KeyModifiers::NONE));
    assert!(lines(&mut model, 80, 24)[4].starts_with("limit0000"));
    press(&mut model, "?");
    for (width, height) in [(1, 1), (10, 2), (20, 5), (80, 3), (300, 100), (0, 0)] {
        drawn(&mut model, width, height);
    }
}

#[test]
fn a_pipe_gets_one_table_without_control_characters() {
    let mut report = report();
    report.add_problem(Health::Degraded, "test", "all is\nlost", "nothing");
    let text = plain::render(&report);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "problem: all is\u{fffd}lost");
    assert_eq!(lines[2], "paused: user key a\u{fffd}b until 2026-11-22T18:39:00Z");
    assert_eq!(lines[3], "limit  mode     rate  allowed/s  denied/s  tokens  active");
    assert_eq!(lines[5], "login  enforce  10/s        1.0      12.5     100       7");
}

#[test]
fn the_most_denied_keys_are_shown_and_no_key_reaches_the_terminal_raw() {
    let mut model = Model::new(true);
    model.show(report());
    assert!(!lines(&mut model, 80, 24).iter().any(|line| line.contains("most denied")));
    let mut report = report();
    let key = |key: &str, denied| DeniedKey { key: key.to_owned(), denied };
    let top = |keys| Some(TopDenied { hashed: false, keys, missing: 0 });
    report.limits[1].top_denied = top((0..9).map(|i| key(&format!("small-{i}"), 10 - i)).collect());
    report.limits[2].top_denied = top(vec![key("al\u{1b}[2Jice", 3_000)]);
    let text = plain::render(&report);
    assert!(text.contains("denied in the last minutes: user key ") && !text.contains('\u{1b}'), "{text}");
    model.show(report);
    let screen = lines(&mut model, 80, 24);
    let title = screen.iter().position(|line| line == "most denied keys of the last minutes").unwrap();
    assert!(screen[title + 1].starts_with("     3,000  user  al"), "{screen:?}");
    assert!(screen[title + 2].ends_with("10  login  small-0"), "{screen:?}");
    assert!(!screen.join("").contains('\u{1b}'), "{screen:?}");
    // A filter hides the keys of other limits.
    assert_eq!(press(&mut model, "/login\n"), Flow::Continue);
    assert!(!lines(&mut model, 80, 24).iter().any(|line| line.contains("3,000")));
}
