//! The table of the search, which says of every pair of kinds of events when the two are dependent,
//! holds for all pairs of events in random programs.

use std::collections::BTreeSet;

use farside::sim::{Event, Verdict, What};
use farside_sim::Oracle;

use crate::number;
use crate::programs::{Case, Numbers, Op, subject};

const PAGE: &str = include_str!("../../../../verification/sim/src/explore/README.md");

macro_rules! kinds {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// The row of an event.
        fn kind(what: What) -> usize {
            let name = match what { $(What::$name { .. } => stringify!($name)),* };
            NAMES.iter().position(|other| *other == name).expect("it is one of them")
        }
    };
}

kinds! {
    Put Accumulate Atomic Get Own Wait TimeOut Unnoticed Sleep Poll Register Free Serve Vanish
    Interrupt Call Executed Leaving Time Death News
}

/// Whether two events may be as the table says: dependent or not, while the bytes of both are known
/// or not.
fn may_be(letter: &str, are_dependent: bool, are_known: bool) -> bool {
    match letter {
        "*" => are_dependent && !are_known,
        // One that is never dependent depends on bytes that are not known all the same.
        "o" | "r" => are_dependent != are_known,
        "f" | "l" | "m" | "t" | "v" | "w" => are_dependent || are_known,
        other => panic!("no rule {other:?}"),
    }
}

/// The letters of the table: a row for each kind, up to its pair with itself.
fn table() -> Vec<Vec<&'static str>> {
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim);
    let rows = PAGE.lines().filter_map(|line| {
        let (number, name) = (cells(line).next()?, cells(line).nth(1)?);
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        Some((number.parse::<usize>().ok()?, name, cells(line).skip(2).collect::<Vec<_>>()))
    });
    let rows: Vec<_> = rows.collect();
    let names: Vec<&str> = rows.iter().map(|(_, name, _)| *name).collect();
    assert_eq!(names, NAMES, "the rows of the table (left) are not the kinds of events (right)");
    for (at, (number, name, letters)) in rows.iter().enumerate() {
        assert_eq!((*number, letters.len()), (at + 1, at + 1), "{name}");
    }
    rows.into_iter().map(|(_, _, letters)| letters).collect()
}

/// Picks at random, and compares each event that is possible with all others, and with all that
/// have happened.
struct Watching<'t> {
    numbers: Numbers,
    table: &'t [Vec<&'static str>],
    past: Vec<Event>,
    /// The pairs that were seen, and whether they were dependent.
    seen: &'t mut BTreeSet<(usize, usize, bool)>,
}

impl Watching<'_> {
    fn compare(&mut self, one: &Event, other: &Event) {
        let (first, second) = (kind(one.what), kind(other.what));
        let (row, column) = (first.max(second), first.min(second));
        let are_dependent = one.conflicts(other);
        let are_known = one.accesses.is_some() && other.accesses.is_some();
        let is_right = may_be(self.table[row][column], are_dependent, are_known);
        assert!(is_right && are_dependent == other.conflicts(one), "{one:?} and {other:?}");
        if are_known {
            self.seen.insert((row, column, are_dependent));
        }
    }
}

impl Oracle for Watching<'_> {
    fn pick(&mut self, events: &[Event]) -> Result<usize, Verdict> {
        let past = std::mem::take(&mut self.past);
        for (at, event) in events.iter().enumerate() {
            past.iter().chain(&events[..at]).for_each(|other| self.compare(event, other));
        }
        let picked = self.numbers.below(events.len() as u64) as usize;
        self.past = past;
        self.past.push(events[picked].clone());
        Ok(picked)
    }
}

#[test]
fn the_table_of_pairs_holds() {
    let (table, mut seen) = (table(), BTreeSet::new());
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15 ^ number("FARSIDE_TEST_SEED", 0));
    for _ in 0..1000 {
        let mut case = Case::random(&mut numbers, 4);
        if numbers.below(3) == 0 {
            case.ops.iter_mut().for_each(|ops| ops.insert(ops.len() / 2, Op::Window));
        }
        let (program, _) = subject(&case);
        for _ in 0..5 {
            let numbers = Numbers(1 + numbers.below(1 << 40));
            let (past, seen) = (Vec::new(), &mut seen);
            let mut watching = Watching { numbers, table: &table, past, seen };
            case.simulation().run(&program, &mut watching);
        }
    }
    let missed = |letters: &str, are_dependent: bool| -> Vec<String> {
        let pairs = (0..NAMES.len()).flat_map(|row| (0..=row).map(move |column| (row, column)));
        let is_meant = |row: usize, column: usize| letters.contains(table[row][column]);
        pairs
            .filter(|&(row, column)| is_meant(row, column))
            .filter(|&(row, column)| !seen.contains(&(row, column, are_dependent)))
            .map(|(row, column)| format!("{} and {}", NAMES[column], NAMES[row]))
            .collect()
    };
    println!("never seen dependent: {:?}", missed("flmtw", true));
    println!("never seen independent: {:?}", missed("flmotw", false));
    // These are frequent.
    let frequent = [missed("v", true), missed("rv", false)].concat();
    assert!(frequent.is_empty(), "never seen: {frequent:?}");
}
