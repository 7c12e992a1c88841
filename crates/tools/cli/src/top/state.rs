//! What the user has chosen to see, and how keys change it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::model::{Model, RankRow};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Ranks,
    Locks,
    Waits,
    Traffic,
}

impl View {
    pub(crate) const ALL: [View; 4] = [View::Ranks, View::Locks, View::Waits, View::Traffic];

    pub(crate) fn name(self) -> &'static str {
        match self {
            View::Ranks => "ranks",
            View::Locks => "locks",
            View::Waits => "waits",
            View::Traffic => "traffic",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Rank,
    Since,
    Operations,
    Bytes,
}

impl Sort {
    const ALL: [Sort; 4] = [Sort::Rank, Sort::Since, Sort::Operations, Sort::Bytes];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Sort::Rank => "rank",
            Sort::Since => "for",
            Sort::Operations => "op/s",
            Sort::Bytes => "B/s",
        }
    }
}

/// What follows a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    GoOn,
    Quit,
}

/// What the user has chosen to see.
pub(crate) struct State {
    pub(crate) view: View,
    pub(crate) sort: Sort,
    pub(crate) is_reversed: bool,
    pub(crate) filter: String,
    pub(crate) is_typing: bool,
    pub(crate) selected: usize,
    /// The rank that is looked at closely.
    pub(crate) zoom: Option<u32>,
    pub(crate) shows_help: bool,
    pub(crate) has_colour: bool,
    frozen: bool,
}

impl State {
    pub(crate) fn new(has_colour: bool) -> State {
        State {
            view: View::Ranks,
            sort: Sort::Rank,
            is_reversed: false,
            filter: String::new(),
            is_typing: false,
            selected: 0,
            zoom: None,
            shows_help: false,
            has_colour,
            frozen: false,
        }
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    pub(crate) fn press(&mut self, key: KeyEvent, model: &Model) -> After {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return After::Quit;
        }
        if self.is_typing {
            self.type_filter(key.code);
            return After::GoOn;
        }
        let rows = self.rows(model).len();
        match key.code {
            KeyCode::Char('q') => return After::Quit,
            KeyCode::Char('?' | 'h') => self.shows_help = !self.shows_help,
            KeyCode::Char(digit @ '1'..='4') => {
                self.view = View::ALL[digit as usize - '1' as usize];
                self.zoom = None;
            }
            KeyCode::Tab => {
                let at = View::ALL.iter().position(|&view| view == self.view).unwrap_or(0);
                self.view = View::ALL[(at + 1) % View::ALL.len()];
                self.zoom = None;
            }
            KeyCode::Char('s') => {
                let at = Sort::ALL.iter().position(|&sort| sort == self.sort).unwrap_or(0);
                self.sort = Sort::ALL[(at + 1) % Sort::ALL.len()];
            }
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('/' | 'f') => self.is_typing = true,
            KeyCode::Char('p' | ' ') => self.frozen = !self.frozen,
            KeyCode::Down | KeyCode::Char('j') => {
                self.selected = (self.selected + 1).min(rows.saturating_sub(1));
            }
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected = (self.selected + 10).min(rows.saturating_sub(1)),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(10),
            KeyCode::Enter => {
                self.zoom = self.rows(model).get(self.selected).map(|row| row.rank);
            }
            KeyCode::Esc => {
                if self.shows_help {
                    self.shows_help = false;
                } else if self.zoom.take().is_none() {
                    self.filter.clear();
                }
            }
            _ => {}
        }
        After::GoOn
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.selected = 0;
    }

    /// Returns the ranks that the filter lets through, sorted.
    pub(crate) fn rows<'m>(&self, model: &'m Model) -> Vec<&'m RankRow> {
        let passes = |row: &&RankRow| {
            self.filter.is_empty()
                || row.rank.to_string() == self.filter
                || format!("{} {}", row.state, row.does).contains(&self.filter)
        };
        let mut rows: Vec<&RankRow> = model.ranks.iter().filter(passes).collect();
        if self.view == View::Waits {
            rows.retain(|row| row.state == "waits");
            rows.sort_by_key(|row| std::cmp::Reverse(row.for_ns));
            return rows;
        }
        match self.sort {
            Sort::Rank => {}
            Sort::Since => rows.sort_by_key(|row| std::cmp::Reverse(row.for_ns)),
            Sort::Operations => {
                rows.sort_by(|a, b| b.operations_per_second.total_cmp(&a.operations_per_second));
            }
            Sort::Bytes => rows.sort_by(|a, b| b.bytes_per_second.total_cmp(&a.bytes_per_second)),
        }
        if self.is_reversed {
            rows.reverse();
        }
        rows
    }
}
