//! The screen of `farside top`.

use farside_fabric::text::counted;
use farside_inspect::Verdict;
use farside_inspect::doctor::describe_ranks;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::model::{Model, RankRow, short, since};
use super::state::{State, View};
use super::style::{bold, coloured};
use super::traffic;

/// A screen of so many columns has room for everything.
const WIDE: u16 = 110;

const HELP: &str = "\
1-4, Tab    ranks, locks, waits, traffic
Up, Down    select a rank; also j and k, PageUp, PageDown
Enter       look at the selected rank closely; Esc goes back
s, r        sort by the next column; reverse
/           show only ranks that match: number, state, call; Esc: all
p, Space    freeze, and go on
?           this help
q           quit; the job goes on";

pub(crate) fn draw(frame: &mut Frame<'_>, model: &Model, state: &State) {
    let area = frame.area();
    // At most a sixth of the screen tells what is wrong.
    let told_max = (area.height / 6).clamp(1, 5);
    let told = lines_needed(told(model), area.width.into()).min(told_max);
    let heights = [Constraint::Length(1 + told), Constraint::Min(1), Constraint::Length(1)];
    let [head, body, foot] = Layout::vertical(heights).areas(area);
    draw_head(frame, head, model, state);
    match (state.zoom, state.view) {
        (Some(rank), _) => draw_rank(frame, body, model, rank),
        (None, View::Ranks | View::Waits) => draw_ranks(frame, body, model, state),
        (None, View::Locks) => draw_locks(frame, body, model, state),
        (None, View::Traffic) => traffic::draw(frame, body, model, state),
    }
    draw_foot(frame, foot, state);
    if state.shows_help {
        draw_help(frame);
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, model: &Model, state: &State) {
    let verdict = match model.diagnosis.verdict {
        Verdict::Stuck => coloured(state, Color::Red).add_modifier(Modifier::BOLD),
        Verdict::Slow => coloured(state, Color::Yellow),
        Verdict::Healthy => coloured(state, Color::Green),
    };
    let operations: f64 = model.ranks.iter().map(|rank| rank.operations_per_second).sum();
    let bytes: f64 = model.ranks.iter().map(|rank| rank.bytes_per_second).sum();
    let waits = model.ranks.iter().filter(|rank| rank.state == "waits").count();
    let first = Line::from(vec![
        Span::styled(format!("job {} ", model.job), bold()),
        Span::styled(model.verdict(), verdict),
        Span::raw(format!(
            "  {} on {}, {} waiting  {} op/s  {}B/s{}",
            counted(model.ranks.len(), "rank"),
            counted(model.nodes, "node"),
            waits,
            short(operations),
            short(bytes),
            if state.is_frozen() { "  FROZEN" } else { "" }
        )),
    ]);
    let [top, rest] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(first, top);
    frame.render_widget(Paragraph::new(told(model)).wrap(Wrap { trim: false }), rest);
}

/// What is worth telling most, or else which job it is.
fn told(model: &Model) -> &str {
    model.diagnosis.findings.first().map_or(&model.command, |finding| &finding.what)
}

/// How many lines a text has when it is folded between words.
fn lines_needed(text: &str, width: usize) -> u16 {
    let (mut lines, mut used) = (1, 0);
    for word in text.split(' ').map(|word| word.chars().count()) {
        if used > 0 && used + word > width {
            (lines, used) = (lines + 1, 0);
        }
        used += word + 1;
    }
    lines
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let mut spans = Vec::new();
    for (at, view) in View::ALL.into_iter().enumerate() {
        let style = if view == state.view && state.zoom.is_none() {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        spans.push(Span::styled(format!(" {} {} ", at + 1, view.name()), style));
    }
    let rest = if state.is_typing {
        format!("  show only: {}_", state.filter)
    } else if state.filter.is_empty() {
        format!("  sort: {}   ? help  q quit", state.sort.name())
    } else {
        format!("  only {:?} (Esc: all)   ? help  q quit", state.filter)
    };
    spans.push(Span::raw(rest));
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// The columns of ranks but for the last, and their widths: those of a wide screen.
const USUAL_COLUMNS: [(&str, u16); 8] = [
    ("rank", 4),
    ("node", 4),
    ("state", 9),
    ("       for", 10),
    ("  op/s", 6),
    ("   B/s", 6),
    ("sleeps", 6),
    (" process", 8),
];

fn draw_ranks(frame: &mut Frame<'_>, area: Rect, model: &Model, state: &State) {
    let (is_wide, is_narrow) = (area.width >= WIDE, area.width < 64);
    let rows = state.rows(model);
    if rows.is_empty() {
        let none = if state.filter.is_empty() { "no rank waits" } else { "no rank matches" };
        return frame.render_widget(none, area);
    }
    let style = |row: &RankRow| match row.state {
        "waits" if model.diagnosis.stuck.contains(&row.rank) => coloured(state, Color::Red),
        "waits" => coloured(state, Color::Yellow),
        "stopped" | "lost" | "gone" => coloured(state, Color::Red),
        _ => Style::new(),
    };
    // A narrow screen has room for what matters most.
    let columns: &[(&str, u16)] = match (is_narrow, is_wide) {
        (true, _) => &[("rank", 4), ("state", 9), ("       for", 10)],
        (_, false) => &USUAL_COLUMNS[..6],
        (_, true) => &USUAL_COLUMNS,
    };
    // A column is between any two.
    let taken: u16 = columns.iter().map(|(_, width)| width + 1).sum();
    let room = usize::from(area.width.saturating_sub(taken));
    let cells = |row: &&RankRow| {
        let cell = |column: &str| match column.trim() {
            "rank" => format!("{:>4}", row.rank),
            "node" => format!("{:>4}", row.node),
            "state" => row.state.to_owned(),
            "for" => format!("{:>10}", since(row.for_ns)),
            "op/s" => format!("{:>6}", short(row.operations_per_second)),
            "B/s" => format!("{:>6}", short(row.bytes_per_second)),
            "sleeps" => format!("{:>6}", short(row.sleeps_per_second)),
            _ => format!("{:>8}", row.process),
        };
        let cells = columns.iter().map(|(column, _)| cell(column));
        let cells = cells.chain([elided(&does(row, is_wide), room)]);
        Row::new(cells).style(style(row))
    };
    let header = columns.iter().map(|(column, _)| *column).chain(["does"]);
    let widths = columns.iter().map(|(_, width)| *width);
    let widths = widths.map(Constraint::Length).chain([Constraint::Min(10)]);
    let table = Table::new(rows.iter().map(cells), widths)
        .header(Row::new(header).style(bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let selected = (!rows.is_empty()).then(|| state.selected.min(rows.len() - 1));
    let mut chosen = TableState::new().with_selected(selected);
    frame.render_stateful_widget(table, area, &mut chosen);
}

/// What a rank does, as far as its state does not say so already.
fn does(row: &RankRow, is_wide: bool) -> String {
    let does = match (row.state, row.held.first()) {
        ("runs", Some(held)) => format!("holds {held}"),
        ("runs", None) => String::new(),
        _ => {
            let known = ["waits for ", "is in "];
            let does = known.iter().find_map(|known| row.does.strip_prefix(known));
            does.unwrap_or(&row.does).to_owned()
        }
    };
    // A narrow screen says which team and which folder only if it is not the usual one.
    if is_wide { does } else { without_folders(&does.replacen(" of team `world`", "", 1)) }
}

/// A text that has room; of one that is too long the middle is left out, since the place in the
/// program is at its end.
fn elided(text: &str, room: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= room {
        return text.to_owned();
    }
    let place = letters.iter().rposition(|&letter| letter == '(').unwrap_or(letters.len());
    let end = if letters.len() - place < room { &letters[place..] } else { &[] };
    let begin = &letters[..room.saturating_sub(end.len() + 1)];
    begin.iter().chain(&['…']).chain(end).collect()
}

/// What a rank does, with the name of the file alone in its place.
fn without_folders(does: &str) -> String {
    match does.rsplit_once('(') {
        Some((what, place)) => format!("{what}({}", place.rsplit('/').next().unwrap_or(place)),
        None => does.to_owned(),
    }
}

fn draw_locks(frame: &mut Frame<'_>, area: Rect, model: &Model, state: &State) {
    if model.locks.is_empty() {
        return frame.render_widget("no lock is held or waited for", area);
    }
    let rows = model.locks.iter().map(|lock| {
        let (holder, place) = match &lock.holder {
            Some((rank, place)) => (format!("rank {rank}"), place.clone()),
            None => ("?".to_owned(), String::new()),
        };
        let waiters =
            if lock.waiters.is_empty() { String::new() } else { describe_ranks(&lock.waiters) };
        let queue = format!("{:>5}", lock.waiters.len());
        let file = place.rsplit('/').next().unwrap_or(&place).to_owned();
        let place = if area.width >= WIDE { place } else { file };
        let cells = [lock.name.clone(), holder, queue, since(lock.longest_ns), waiters, place];
        let is_hot = lock.waiters.len() > 1;
        Row::new(cells).style(if is_hot { coloured(state, Color::Yellow) } else { Style::new() })
    });
    let widths = [
        Constraint::Min(14),
        Constraint::Length(9),
        Constraint::Length(5),
        Constraint::Length(10),
        Constraint::Min(14),
        Constraint::Min(10),
    ];
    let header = ["lock", "holder", "queue", "longest", "waiters", "held since"];
    let table = Table::new(rows, widths).header(Row::new(header).style(bold()));
    frame.render_widget(table, area);
}

fn draw_rank(frame: &mut Frame<'_>, area: Rect, model: &Model, rank: u32) {
    let Some(row) = model.ranks.iter().find(|row| row.rank == rank) else { return };
    let mut lines = vec![
        Line::styled(format!("rank {rank}, node {}, process {}", row.node, row.process), bold()),
        Line::from(match row.for_ns {
            0 => row.state.to_owned(),
            ns if row.state == row.does => format!("{} for {}", row.state, since(ns)),
            ns => format!("{}, for {}", row.does, since(ns)),
        }),
        Line::from(format!(
            "{} ({}/s), {} ({}/s)",
            counted(row.operations, "operation"),
            short(row.operations_per_second),
            counted(row.bytes, "byte"),
            short(row.bytes_per_second)
        )),
    ];
    lines.extend(row.held.iter().map(|held| Line::from(format!("holds {held}"))));
    let mut peers = row.peers.clone();
    peers.sort_by(|a, b| b.1.total_cmp(&a.1));
    let peers = peers.iter().take_while(|(_, rate)| *rate > 0.0).map(|&(peer, rate)| {
        let node = model.ranks.get(peer as usize).map_or(0, |row| row.node);
        let node = if model.nodes > 1 { format!(" on node {node}") } else { String::new() };
        Line::from(format!("asks rank {peer}{node} for {} op/s", short(rate)))
    });
    lines.extend(peers.take(20));
    let mine = |ranks: &[u32]| ranks.contains(&rank);
    for finding in model.diagnosis.findings.iter().filter(|finding| mine(&finding.ranks)) {
        lines.push(Line::from(format!("- {}", finding.what)));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

fn draw_help(frame: &mut Frame<'_>) {
    let lines = HELP.lines().count() as u16 + 2;
    let area = frame.area();
    let (width, height) = (area.width.min(78), area.height.min(lines));
    let help = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, help);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" keys ")), help);
}

#[cfg(test)]
mod tests {
    use super::super::state::State;
    use super::*;
    use farside_inspect::diagnose;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};

    fn model() -> Model {
        let snapshot = farside_inspect::Snapshot::default();
        let ranks = (0..3)
            .map(|rank| RankRow {
                rank,
                state: if rank == 1 { "waits" } else { "runs" },
                for_ns: 12_300_000_000,
                does: "waits for lock `table` (src/main.rs:33)".into(),
                peers: vec![(0, 1000.0), (2, 10.0)],
                ..RankRow::default()
            })
            .collect();
        Model {
            job: 1234,
            command: "./program".into(),
            nodes: 1,
            processors: 4,
            diagnosis: diagnose(&snapshot, &snapshot),
            ranks,
            locks: vec![super::super::model::LockRow {
                name: "lock `table`".into(),
                holder: Some((0, "src/main.rs:31".into())),
                waiters: vec![1, 2],
                longest_ns: 5_000_000_000,
            }],
        }
    }

    fn shown(state: &State, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 16)).unwrap();
        terminal.draw(|frame| draw(frame, &model(), state)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(width.into());
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }

    fn press(state: &mut State, code: KeyCode) {
        state.press(KeyEvent::from(code), &model());
    }

    #[test]
    fn every_view_fits_narrow_and_wide_screens() {
        for width in [40, 80, 160] {
            let mut state = State::new(false);
            assert!(shown(&state, width).contains("job 1234 healthy"));
            press(&mut state, KeyCode::Char('2'));
            assert!(shown(&state, width).contains("lock `table`"), "{}", shown(&state, width));
            press(&mut state, KeyCode::Tab);
            let waits = shown(&state, width);
            assert!(waits.contains("12.3 s") && !waits.contains("runs"), "{waits}");
            press(&mut state, KeyCode::Char('4'));
            assert!(shown(&state, width).contains("@@  .."), "{}", shown(&state, width));
            press(&mut state, KeyCode::Char('?'));
            assert!(shown(&state, width).contains("keys"));
        }
        assert!(shown(&State::new(true), 160).contains("process"));
        assert!(shown(&State::new(true), 160).contains("(src/main.rs:33)"));
        assert!(shown(&State::new(true), 80).contains("`table` (main.rs:33)"));
    }

    #[test]
    fn what_has_no_room_loses_its_middle_and_not_its_end() {
        let text = "waits for the rma-mcs lock 0.2+0 (count.rs:25)";
        assert_eq!(elided(text, 46), text);
        assert_eq!(elided(text, 30), "waits for the rm…(count.rs:25)");
        assert_eq!(elided(text, 10), "waits for…");
        assert_eq!(elided("no place at all", 8), "no plac…");
        assert_eq!(elided(text, 0), "…");
        let mut row = RankRow { state: "waits", does: text.into(), ..RankRow::default() };
        assert_eq!(does(&row, true), "the rma-mcs lock 0.2+0 (count.rs:25)");
        row.does = "is in barrier 8 of team `world` (src/main.rs:68)".into();
        assert_eq!(does(&row, true), "barrier 8 of team `world` (src/main.rs:68)");
        assert_eq!(does(&row, false), "barrier 8 (main.rs:68)");
        (row.state, row.does) = ("runs", "runs".into());
        assert_eq!(does(&row, true), "");
        row.held = vec!["lock `table` (src/main.rs:31)".into()];
        assert_eq!(does(&row, false), "holds lock `table` (main.rs:31)");
    }

    #[test]
    fn what_is_wrong_is_told_in_full_where_there_is_room() {
        assert_eq!(lines_needed("one two three", 80), 1);
        assert_eq!(lines_needed("one two three", 8), 2);
        assert_eq!(lines_needed("one two three", 7), 2);
        assert_eq!(lines_needed("one two three", 6), 3);
        assert_eq!(lines_needed("", 6), 1);
    }

    #[test]
    fn empty_views_say_so() {
        let mut model = model();
        model.locks.clear();
        model.ranks.iter_mut().for_each(|rank| rank.state = "runs");
        let mut state = State::new(false);
        for (view, words) in [('2', "no lock is held"), ('3', "no rank waits")] {
            state.press(KeyEvent::from(KeyCode::Char(view)), &model);
            let mut terminal = Terminal::new(TestBackend::new(80, 16)).unwrap();
            terminal.draw(|frame| draw(frame, &model, &state)).unwrap();
            let cells = terminal.backend().buffer().content();
            let text: String = cells.iter().map(|cell| cell.symbol()).collect();
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn ranks_can_be_filtered_frozen_and_looked_at() {
        let mut state = State::new(false);
        press(&mut state, KeyCode::Char('/'));
        "waits".chars().for_each(|letter| press(&mut state, KeyCode::Char(letter)));
        press(&mut state, KeyCode::Enter);
        assert_eq!(state.filter, "waits");
        press(&mut state, KeyCode::Esc);
        assert_eq!(state.filter, "");
        press(&mut state, KeyCode::Down);
        press(&mut state, KeyCode::Enter);
        assert_eq!(state.zoom, Some(1));
        assert!(shown(&state, 80).contains("rank 1, node 0"));
        press(&mut state, KeyCode::Char('p'));
        assert!(state.is_frozen() && shown(&state, 80).contains("FROZEN"));
    }
}
