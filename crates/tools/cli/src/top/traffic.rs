//! The heat map of `farside top`: a row for each origin, a column for each target.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::model::{Model, RankRow, short};
use super::state::State;
use super::style::{bold, coloured};

const SHADES: [&str; 10] = [" ", ".", ":", "-", "=", "+", "*", "#", "%", "@"];
const COLOURS: [Color; 10] = [
    Color::Reset,
    Color::Blue,
    Color::Blue,
    Color::Blue,
    Color::Green,
    Color::Green,
    Color::Green,
    Color::Yellow,
    Color::Yellow,
    Color::Red,
];
/// The width of the origins' numbers.
const LABEL: usize = 6;

struct Columns {
    width: usize,
    /// The targets that there is room for.
    targets: usize,
    /// Where each of them begins.
    places: Vec<usize>,
}

impl Columns {
    /// Two letters for each target, or one where there is no room for two. Nodes are apart.
    fn new(model: &Model, room: usize) -> Columns {
        let places = |width: usize| {
            let mut next = LABEL;
            let place = |at: usize| {
                next += 2 * usize::from(begins_node(model, at)) + width;
                next - width
            };
            (0..model.ranks.len()).map(place).collect::<Vec<usize>>()
        };
        let ends = |places: &[usize], width| places.last().map_or(0, |last| last + width);
        let (wide, narrow) = (places(2), places(1));
        let (width, places) = if ends(&wide, 2) <= room { (2, wide) } else { (1, narrow) };
        let targets = places.iter().take_while(|&&place| place + width <= room).count();
        Columns { width, targets, places }
    }

    /// The numbers of the targets, as far as there is room above their columns.
    fn header(&self) -> String {
        let step = match self.width {
            2 if self.targets <= 10 => 1,
            2 => 5,
            _ => 10,
        };
        let mut line = String::new();
        for target in (0..self.targets).step_by(step) {
            let gap = self.places[target].saturating_sub(line.len());
            line.push_str(&" ".repeat(gap));
            line.push_str(&target.to_string());
        }
        line
    }

    /// The line between two nodes.
    fn rule(&self, model: &Model) -> String {
        let mut line = " ".repeat(LABEL);
        for target in 0..self.targets {
            if begins_node(model, target) {
                line.push_str("+-");
            }
            line.push_str(&"-".repeat(self.width));
        }
        line
    }
}

/// Returns whether a rank is the first of its node, and of others than rank 0.
fn begins_node(model: &Model, at: usize) -> bool {
    at > 0 && model.ranks[at].node != model.ranks[at - 1].node
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, state: &State) {
    let rates = model.ranks.iter().flat_map(|rank| rank.peers.iter().map(|&(_, rate)| rate));
    let most = rates.fold(0.0, f64::max);
    let columns = Columns::new(model, area.width.into());
    let cut = match model.ranks.len() - columns.targets {
        0 => String::new(),
        more => format!("; no room for {more} targets"),
    };
    let title = match most > 0.0 {
        true => format!("operations a second, origin by target; @ is {}{cut}", short(most)),
        false => "operations a second, origin by target: none".to_owned(),
    };
    let head = [Line::styled(title, bold()), Line::from(columns.header())];
    let mut lines = Vec::new();
    let mut selected = 0;
    for (at, rank) in model.ranks.iter().enumerate() {
        if begins_node(model, at) {
            lines.push(Line::from(columns.rule(model)));
        }
        if at == state.selected {
            selected = lines.len();
        }
        lines.push(row(model, rank, &columns, most, state));
    }
    // The selected rank is in sight.
    let room = usize::from(area.height).saturating_sub(head.len()).max(1);
    let first = (selected + 1).saturating_sub(room);
    let shown = head.into_iter().chain(lines.into_iter().skip(first));
    frame.render_widget(Paragraph::new(shown.collect::<Vec<Line<'_>>>()), area);
}

fn row(
    model: &Model,
    rank: &RankRow,
    columns: &Columns,
    most: f64,
    state: &State,
) -> Line<'static> {
    let mut spans = vec![Span::raw(format!("{:>5} ", rank.rank))];
    for target in 0..columns.targets {
        if begins_node(model, target) {
            spans.push(Span::raw("| "));
        }
        let rate = rank.peers.iter().find(|&&(peer, _)| peer == target as u32);
        let rate = rate.map_or(0.0, |&(_, rate)| rate);
        let level = if most > 0.0 { (rate / most * 9.0).ceil() as usize } else { 0 }.min(9);
        let style = coloured(state, COLOURS[level]);
        spans.push(Span::styled(SHADES[level].repeat(columns.width), style));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use farside_inspect::{Snapshot, diagnose};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    /// Each rank asks the next one, and rank 0 itself a little.
    fn model(ranks: u32, nodes: u32) -> Model {
        let row = |rank: u32| RankRow {
            rank,
            node: rank * nodes / ranks,
            peers: vec![(0, 100.0), ((rank + 1) % ranks, 1000.0)],
            ..RankRow::default()
        };
        let nobody = Snapshot::default();
        Model {
            job: 1,
            command: String::new(),
            nodes,
            processors: 2,
            diagnosis: diagnose(&nobody, &nobody),
            ranks: (0..ranks).map(row).collect(),
            locks: Vec::new(),
        }
    }

    fn shown(model: &Model, state: &State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, frame.area(), model, state)).unwrap();
        let cells = terminal.backend().buffer().content().chunks(width.into());
        let text = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect();
        cells.map(text).map(|line: String| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn nodes_are_apart_and_targets_have_numbers() {
        let lines = shown(&model(6, 2), &State::new(false), 80, 10);
        let expected = [
            "operations a second, origin by target; @ is 1.0k",
            "      0 1 2   3 4 5",
            "    0 ..@@  |",
            "    1 ..  @@|",
            "    2 ..    | @@",
            "      ------+-------",
            "    3 ..    |   @@",
            "    4 ..    |     @@",
            "    5 ..    |",
            "",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn many_ranks_have_narrow_columns_and_what_has_no_room_is_said() {
        let mut state = State::new(false);
        let lines = shown(&model(64, 2), &state, 80, 10);
        assert!(!lines[0].contains("no room"), "{}", lines[0]);
        assert!(lines[1].starts_with("      0         10 "), "{}", lines[1]);
        let lines = shown(&model(128, 1), &state, 80, 10);
        assert!(lines[0].ends_with("no room for 54 targets"), "{}", lines[0]);
        assert!(lines[2].starts_with("    0 .@"), "{}", lines[2]);
        // What is selected is in sight.
        state.selected = 100;
        let lines = shown(&model(128, 1), &state, 80, 10);
        assert!(lines[9].starts_with("  100 ."), "{}", lines[9]);
    }

    #[test]
    fn silence_is_said() {
        let mut quiet = model(2, 1);
        quiet.ranks.iter_mut().for_each(|rank| rank.peers.clear());
        assert!(shown(&quiet, &State::new(true), 80, 5)[0].ends_with(": none"));
    }
}
