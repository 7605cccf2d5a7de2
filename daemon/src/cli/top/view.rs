//! The screen.

use std::time::Duration;

use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Cell, Clear, Paragraph, Row, Table},
};

use super::{
    super::table::printable,
    model::{Model, Sort, fill},
};
use crate::{
    report::{LimitRow, StatusReport},
    text::{counted, grouped, length},
};

/// Most problems, and most daemons, on the screen at once.
const MOST_PROBLEMS: usize = 3;
const MOST_DAEMONS: usize = 3;
/// Characters of a full bar.
const BAR: usize = 10;

const HELP: [&str; 7] = [
    "q, Ctrl-C    quit",
    "s            sort by the next column",
    "/            show limits with this text only",
    "Esc          show all limits again",
    "up, down     scroll; PgUp, PgDn, Home, End",
    "?            this list",
    "fill: tokens of the one bucket; keyed: counting buckets",
];

/// Draws `model`.
pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let (head, denied) = (head(model), most_denied(model));
    let [top, middle, keys, bottom] = Layout::vertical([
        Constraint::Length(head.len() as u16),
        Constraint::Min(3),
        Constraint::Length(denied.len() as u16),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(denied), keys);
    frame.render_widget(Paragraph::new(head), top);
    let table = table(model);
    frame.render_stateful_widget(table, middle, &mut model.scroll);
    frame.render_widget(foot(model), bottom);
    if model.shows_help {
        help(frame);
    }
}

/// The server, problems and daemons.
fn head(model: &Model) -> Vec<Line<'static>> {
    let Some(report) = &model.report else { return vec![Line::from("topup: asking Redis")] };
    let mut lines = vec![Line::from(vec![
        Span::styled("topup ", Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(server(report)),
    ])];
    let warning = model.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Yellow);
    for problem in report.problems.iter().take(MOST_PROBLEMS) {
        lines.push(Line::styled(format!("! {}", problem.what), warning));
    }
    if report.problems.len() > MOST_PROBLEMS {
        let more = report.problems.len() - MOST_PROBLEMS;
        lines.push(Line::styled(format!("! and {more} more: see topupd status"), warning));
    }
    for daemon in report.daemons.iter().take(MOST_DAEMONS) {
        lines.push(Line::from(format!(
            "daemon {}  lag {:.1} ms  config {}",
            daemon.id, daemon.lag_ms, daemon.config
        )));
    }
    if report.daemons.len() > MOST_DAEMONS {
        lines
            .push(Line::from(format!("and {} more", counted(report.daemons.len() - MOST_DAEMONS, "daemon"))));
    }
    lines.push(Line::default());
    lines
}

/// The most denied keys, if any limit tells them.
fn most_denied(model: &Model) -> Vec<Line<'static>> {
    let keys = model.most_denied();
    let title = (!keys.is_empty()).then(|| {
        let title = Line::from("most denied keys of the last minutes");
        title.style(Style::new().add_modifier(Modifier::BOLD))
    });
    let rows = keys.into_iter().map(|(limit, key, denied)| {
        Line::from(format!("{:>10}  {limit}  {}", grouped(denied), printable(key)))
    });
    title.into_iter().chain(rows).collect()
}

fn server(report: &StatusReport) -> String {
    let latency = report.latency_ms.map_or_else(|| "no answer".to_owned(), |ms| format!("{ms:.1} ms"));
    let daemons = counted(report.daemons.len(), "daemon");
    let healthy = if report.problems.is_empty() { ", healthy" } else { "" };
    format!("{}, {latency}, {}, {daemons}{healthy}", report.redis, counted(report.limits.len(), "limit"))
}

fn table(model: &Model) -> Table<'static> {
    let titled = |title: &'static str, sort: Sort| {
        if model.sort == sort { format!("{title} v") } else { title.to_owned() }
    };
    let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
    let header = Row::new([
        Cell::from(titled("limit", Sort::Name)),
        Cell::from("rate"),
        right(titled("allowed/s", Sort::Allowed)),
        right(titled("denied/s", Sort::Denied)),
        Cell::from(titled("fill", Sort::Fill)),
        Cell::from("state"),
    ])
    .style(Style::new().add_modifier(Modifier::REVERSED));
    let rows = model.rows().into_iter().map(|row| {
        let pace =
            |pace: Option<f64>| right(pace.map_or_else(|| "-".to_owned(), |pace| format!("{pace:.1}")));
        let denies = row.denied_per_second.is_some_and(|denied| denied > 0.0);
        let (state, is_paused) = state(model, row);
        let style = match (denies, is_paused) {
            (_, true) => model.coloured(Style::new(), Color::Yellow),
            (true, false) => model.coloured(Style::new(), Color::Red),
            _ => Style::new(),
        };
        Row::new([
            Cell::from(row.name.clone()),
            Cell::from(row.rate.clone().unwrap_or_else(|| "calendar".to_owned())),
            pace(row.allowed_per_second),
            pace(row.denied_per_second),
            Cell::from(filled(row)),
            Cell::from(state),
        ])
        .style(style)
    });
    let widths = [
        Constraint::Min(10),
        Constraint::Length(12),
        Constraint::Length(11),
        Constraint::Length(10),
        Constraint::Length(16),
        Constraint::Length(14),
    ];
    Table::new(rows, widths).header(header).row_highlight_style(Style::new().add_modifier(Modifier::BOLD))
}

/// A bar of the tokens; of a keyed limit, its counting buckets.
fn filled(row: &LimitRow) -> String {
    match (fill(row), row.active) {
        (Some(fill), _) => {
            let full = (fill.clamp(0.0, 1.0) * BAR as f64).round() as usize;
            format!("{}{} {:.0} %", "#".repeat(full), "-".repeat(BAR - full), fill * 100.0)
        }
        (None, Some(active)) => format!("{active} counting"),
        (None, None) => "-".to_owned(),
    }
}

/// The mode, or the pause, of a limit.
fn state(model: &Model, row: &LimitRow) -> (String, bool) {
    match model.pauses(&row.name) {
        (Some(pause), _) => (format!("paused {}", length(Duration::from_millis(pause.left_ms as u64))), true),
        (None, 1) => ("1 key paused".to_owned(), true),
        (None, keys @ 2..) => (format!("{keys} keys paused"), true),
        (None, _) if row.orphaned => ("orphaned".to_owned(), false),
        (None, _) => (row.mode.to_owned(), false),
    }
}

fn foot(model: &Model) -> Line<'static> {
    if model.is_typing {
        return Line::from(format!("/{}_   Enter: keep, Esc: all limits", model.filter));
    }
    let filter = if model.filter.is_empty() { String::new() } else { format!("   only {:?}", model.filter) };
    Line::from(format!("q quit   s sort: {}   / filter   ? help{filter}", model.sort.as_str()))
}

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (60.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let area = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    let text: Vec<Line<'_>> = HELP.into_iter().map(Line::from).collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title("keys")), area);
}

// === impl Model ===

impl Model {
    fn coloured(&self, style: Style, colour: Color) -> Style {
        if self.has_colours { style.fg(colour) } else { style }
    }
}
