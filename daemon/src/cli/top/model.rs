//! The content of the screen, and the effect of keys. No terminal is needed here.

use ratatui::{
    crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    widgets::TableState,
};

use crate::report::{LimitRow, PauseRow, StatusReport};

/// Rows by which a page scrolls.
const PAGE: u16 = 10;
/// Most denied keys that are shown.
const MOST_KEYS: usize = 5;
/// The longest filter.
const LONGEST_FILTER: usize = 64;

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Model {
    /// The last report; `None` before the first.
    pub(super) report: Option<StatusReport>,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// Whether keys are added to the filter.
    pub(super) is_typing: bool,
    pub(super) shows_help: bool,
    pub(super) has_colours: bool,
    pub(super) scroll: TableState,
}

/// The column by which limits are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Denied,
    Allowed,
    Fill,
    Name,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Quit,
}

// === impl Model ===

impl Model {
    pub(super) fn new(has_colours: bool) -> Self {
        Self {
            report: None,
            sort: Sort::Denied,
            filter: String::new(),
            is_typing: false,
            shows_help: false,
            has_colours,
            scroll: TableState::new(),
        }
    }

    pub(super) fn show(&mut self, report: StatusReport) {
        self.report = Some(report);
    }

    /// The limits to show, in order.
    pub(super) fn rows(&self) -> Vec<&LimitRow> {
        let limits = self.report.iter().flat_map(|report| &report.limits);
        let mut rows: Vec<_> = limits.filter(|row| row.name.contains(&self.filter)).collect();
        // The report is sorted by name, and stays so among equals.
        match self.sort {
            Sort::Name => {}
            Sort::Denied => {
                rows.sort_by(|a, b| figure(b.denied_per_second).total_cmp(&figure(a.denied_per_second)))
            }
            Sort::Allowed => {
                rows.sort_by(|a, b| figure(b.allowed_per_second).total_cmp(&figure(a.allowed_per_second)));
            }
            // The emptiest first.
            Sort::Fill => rows.sort_by(|a, b| fill(a).unwrap_or(2.0).total_cmp(&fill(b).unwrap_or(2.0))),
        }
        rows
    }

    /// The pause of a whole limit, and the number of its paused keys.
    pub(super) fn pauses(&self, name: &str) -> (Option<&PauseRow>, usize) {
        let of_limit =
            || self.report.iter().flat_map(|report| &report.pauses).filter(|pause| pause.limit == name);
        (of_limit().find(|pause| pause.key.is_none()), of_limit().filter(|pause| pause.key.is_some()).count())
    }

    /// The most denied keys of the limits that are shown: limit, key, denials of the last minutes.
    pub(super) fn most_denied(&self) -> Vec<(&str, &str, u64)> {
        most_denied(self.rows())
    }

    pub(super) fn on_key(&mut self, key: KeyEvent) -> Flow {
        if key.kind == KeyEventKind::Release {
            return Flow::Continue;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Flow::Quit } else { Flow::Continue };
        }
        if self.is_typing {
            self.type_key(key.code);
            return Flow::Continue;
        }
        match key.code {
            KeyCode::Char('q') => return Flow::Quit,
            _ if self.shows_help => self.shows_help = false,
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Down | KeyCode::Char('j') => self.scroll.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.scroll.select_previous(),
            KeyCode::PageDown => self.scroll.scroll_down_by(PAGE),
            KeyCode::PageUp => self.scroll.scroll_up_by(PAGE),
            KeyCode::Home => self.scroll.select_first(),
            KeyCode::End => self.scroll.select_last(),
            _ => {}
        }
        Flow::Continue
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(c) if self.filter.len() < LONGEST_FILTER => self.filter.push(c),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }
}

// === impl Sort ===

impl Sort {
    const fn next(self) -> Self {
        match self {
            Self::Denied => Self::Allowed,
            Self::Allowed => Self::Fill,
            Self::Fill => Self::Name,
            Self::Name => Self::Denied,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied/s",
            Self::Allowed => "allowed/s",
            Self::Fill => "fill",
            Self::Name => "limit",
        }
    }
}

/// The most denied keys of `limits`, [`MOST_KEYS`] at most, the most denied one first.
pub(super) fn most_denied<'l>(
    limits: impl IntoIterator<Item = &'l LimitRow>,
) -> Vec<(&'l str, &'l str, u64)> {
    let keys_of = |row: &'l LimitRow| {
        let keys = row.top_denied.iter().flat_map(|top| &top.keys);
        keys.map(|key| (row.name.as_str(), key.key.as_str(), key.denied))
    };
    let mut keys: Vec<_> = limits.into_iter().flat_map(keys_of).collect();
    keys.sort_by_key(|(.., denied)| std::cmp::Reverse(*denied));
    keys.truncate(MOST_KEYS);
    keys
}

/// The part of its capacity that an unkeyed limit's bucket holds.
pub(super) fn fill(row: &LimitRow) -> Option<f64> {
    row.tokens.map(|tokens| tokens as f64 / row.capacity.max(1) as f64)
}

fn figure(figure: Option<f64>) -> f64 {
    figure.unwrap_or(-1.0)
}
