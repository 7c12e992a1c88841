//! What was found, for people and for tools.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use farside_fabric::{SegmentId, is_private};

use crate::access::{Missing, OPERATIONS, Site};
use crate::layout::{NOWHERE, count};
use crate::state::State;

/// What a checker has found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The races, each pair of places once.
    pub races: Vec<Race>,
    /// The places where memory was lent in ways that cannot be followed.
    pub blind_spots: Vec<BlindSpot>,
    /// What the program uses that is not looked into.
    pub unseen: Vec<String>,
    /// How many ranks have joined the job.
    pub joined: u32,
    /// How many accesses were looked at.
    pub accesses: u64,
    /// How many were not, because a table was full.
    pub dropped: u32,
    /// How many times 1 KiB of memory was forgotten because the shadow was full.
    pub forgotten: u32,
    /// How many accesses were forgotten because others touched the same bytes.
    pub displaced: u32,
    /// How many posted operations counted as complete at once because clocks were too long.
    pub completed: u32,
    /// How many races a suppression has taken away.
    pub suppressed: usize,
}

/// A race.
#[derive(Debug, Clone)]
pub struct Race {
    /// The access that was seen first.
    pub first: Side,
    /// The one that nothing orders behind it.
    pub second: Side,
    /// The window's name, or the number of its segment.
    pub window: String,
    /// The rank whose memory it is.
    pub owner: u32,
    /// The first byte that both touch.
    pub offset: u64,
    /// How many bytes both touch, of 8 that were looked at together.
    pub bytes: u32,
    /// The index of the element, where its length is known.
    pub index: Option<u64>,
    /// What would have ordered them.
    pub cure: String,
    /// The places of those of the two that were posted, and may be under way until a flush.
    pub posted: Vec<String>,
    /// How often it was seen.
    pub count: u32,
}

/// One of the two accesses of a race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// The rank that made it.
    pub rank: u32,
    /// The operation.
    pub operation: &'static str,
    /// The place in the program.
    pub place: String,
}

/// A place where memory was lent in a way that cannot be followed.
#[derive(Debug, Clone)]
pub struct BlindSpot {
    /// What was called.
    pub what: String,
    /// Where.
    pub place: String,
}

/// Races that are known and not to be reported: lines `PLACE REASON`, where PLACE is a part of the
/// place of either access, and REASON says why it is no harm. Lines that begin with `#` are
/// comments.
#[derive(Debug, Clone, Default)]
pub struct Suppressions {
    entries: Vec<String>,
}

impl Suppressions {
    /// Reads the text of a file; the error names the line that gives no reason.
    pub fn parse(text: &str) -> Result<Suppressions, String> {
        let mut entries = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once(char::is_whitespace) {
                Some((place, reason)) if !reason.trim().is_empty() => entries.push(place.into()),
                _ => {
                    return Err(format!(
                        "line {} suppresses {line:?} without a reason: write PLACE REASON",
                        number + 1
                    ));
                }
            }
        }
        Ok(Suppressions { entries })
    }

    fn covers(&self, race: &Race) -> bool {
        self.entries
            .iter()
            .any(|entry| race.first.place.contains(entry) || race.second.place.contains(entry))
    }
}

impl Report {
    pub(crate) fn read(state: &State<'_>) -> Report {
        let races = (0..state.numbers[count::RACES] as usize).map(|race| read_race(state, race));
        Report { races: races.collect(), ..Report::read_coverage(state) }
    }

    /// What was looked at, and what was not, without the races.
    pub(crate) fn read_coverage(state: &State<'_>) -> Report {
        let (mut blind_spots, mut unseen) = (Vec::new(), Vec::new());
        for blind in 0..state.numbers[count::BLINDS] as usize {
            let at = state.layout.blind(blind);
            let (what, place) = (state.place_name(state.numbers[at]), state.numbers[at + 1]);
            match place {
                NOWHERE => unseen.push(what),
                place => blind_spots.push(BlindSpot { what, place: state.place_name(place) }),
            }
        }
        let (low, high) = (state.numbers[count::ACCESSES], state.numbers[count::ACCESSES + 1]);
        Report {
            races: Vec::new(),
            blind_spots,
            unseen,
            joined: state.numbers[count::JOINED],
            accesses: u64::from(high) << 32 | u64::from(low),
            dropped: state.numbers[count::DROPPED],
            forgotten: state.numbers[count::FORGOTTEN],
            displaced: state.numbers[count::DISPLACED],
            completed: state.numbers[count::COMPLETED],
            suppressed: 0,
        }
    }

    pub(crate) fn add_coverage(&mut self, other: Report) {
        for what in other.unseen {
            if !self.unseen.contains(&what) {
                self.unseen.push(what);
            }
        }
        self.joined = self.joined.max(other.joined);
        self.accesses = self.accesses.saturating_add(other.accesses);
        self.dropped = self.dropped.saturating_add(other.dropped);
        self.forgotten = self.forgotten.saturating_add(other.forgotten);
        self.displaced = self.displaced.saturating_add(other.displaced);
        self.completed = self.completed.saturating_add(other.completed);
    }

    fn lacks_room(&self) -> bool {
        [self.dropped, self.forgotten, self.displaced, self.completed] != [0; 4]
    }

    /// Returns what the program does that was not looked into, if there is something, in one line.
    pub fn not_seen(&self) -> Option<String> {
        let lacking = [
            (self.dropped, "accesses for which the table of places and operations had no room"),
            (self.forgotten, "KiB of memory whose accesses were forgotten for lack of room"),
            (self.displaced, "accesses forgotten because more than four touched the same 8 bytes"),
            (self.completed, "posted operations that counted as complete for lack of clocks"),
        ];
        let lacking = lacking.into_iter().filter(|(count, _)| *count > 0);
        let lacking = lacking.map(|(count, what)| format!("{count} {what}"));
        let all: Vec<String> = self.unseen.iter().cloned().chain(lacking).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns why nothing was looked at, if nothing was: then the report says nothing of the
    /// program.
    pub fn nothing_checked(&self) -> Option<String> {
        if self.accesses > 0 || !self.races.is_empty() || self.suppressed > 0 {
            return None;
        }
        Some(match &self.unseen[..] {
            _ if self.joined == 0 => "no rank has joined the job".into(),
            [] => "the program used no shared memory".into(),
            unseen => format!("{} cannot be seen", unseen.join(", and ")),
        })
    }

    /// Replaces addresses in programs of other languages by files and lines, as far as `line`
    /// knows them: it is asked with the file of a program and an address in it.
    pub fn resolve(&mut self, line: impl Fn(&str, &str) -> Option<String>) {
        let mut known = HashMap::new();
        for race in &mut self.races {
            for side in [&mut race.first, &mut race.second] {
                let old = side.place.clone();
                side.place =
                    known.entry(old.clone()).or_insert_with(|| resolve(&old, &line)).clone();
                race.cure = race.cure.replace(&old, &side.place);
            }
        }
    }

    /// Takes away the races that are suppressed.
    pub fn suppress(&mut self, suppressions: &Suppressions) {
        let before = self.races.len();
        self.races.retain(|race| !suppressions.covers(race));
        self.suppressed += before - self.races.len();
    }

    /// Returns the report as one line of JSON for each race, and one for the whole.
    pub fn json(&self) -> String {
        let mut text = String::new();
        let side = |side: &Side| {
            format!(
                "{{\"rank\":{},\"operation\":{},\"place\":{}}}",
                side.rank,
                quoted(side.operation),
                quoted(&side.place)
            )
        };
        for race in &self.races {
            let index = race.index.map_or("null".into(), |index| index.to_string());
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{{\"race\":[{},{}],\"window\":{},\"owner\":{},\"offset\":{},\"bytes\":{},\
                 \"index\":{index},\"cure\":{},\"count\":{}}}",
                side(&race.first),
                side(&race.second),
                quoted(&race.window),
                race.owner,
                race.offset,
                race.bytes,
                quoted(&race.cure),
                race.count,
            );
        }
        let blind: Vec<String> = self
            .blind_spots
            .iter()
            .map(|spot| {
                format!("{{\"what\":{},\"place\":{}}}", quoted(&spot.what), quoted(&spot.place))
            })
            .collect();
        let unseen: Vec<String> = self.unseen.iter().map(|what| quoted(what)).collect();
        let _ = writeln!(
            text,
            "{{\"races\":{},\"suppressed\":{},\"joined\":{},\"accesses\":{},\"dropped\":{},\
             \"forgotten\":{},\"displaced\":{},\"completed\":{},\"blind_spots\":[{}],\
             \"unseen\":[{}]}}",
            self.races.len(),
            self.suppressed,
            self.joined,
            self.accesses,
            self.dropped,
            self.forgotten,
            self.displaced,
            self.completed,
            blind.join(","),
            unseen.join(",")
        );
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for race in &self.races {
            writeln!(f, "{race}")?;
        }
        for spot in &self.blind_spots {
            writeln!(f, "races: not seen: memory lent by {} at {}", spot.what, spot.place)?;
        }
        if let Some(why) = self.nothing_checked() {
            return writeln!(f, "races: nothing was checked: {why} (docs/races.md)");
        }
        if let Some(what) = self.not_seen() {
            writeln!(f, "races: not seen: {what} (docs/races.md)")?;
        }
        let races = match self.races.len() {
            // Of what was forgotten or never looked at nobody knows.
            0 if self.lacks_room() => "0 races".into(),
            0 => "no race".into(),
            1 => "1 race".into(),
            races => format!("{races} races"),
        };
        write!(f, "races: {races} found in {} accesses", self.accesses)?;
        if self.suppressed > 0 {
            write!(f, ", {} suppressed", self.suppressed)?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.window.is_empty() {
            writeln!(f, "RACE on a buffer of rank {}", self.owner)?;
        } else {
            let index = self.index.map_or(String::new(), |index| format!(", element {index}"));
            writeln!(
                f,
                "RACE on {} of rank {}{index}, bytes {}..{}",
                self.window,
                self.owner,
                self.offset,
                self.offset + u64::from(self.bytes)
            )?;
        }
        writeln!(f, "  {}", self.first)?;
        writeln!(f, "  {}", self.second)?;
        write!(f, "  {}", self.cure)?;
        if self.count > 1 {
            write!(f, "\n  seen {} times", self.count)?;
        }
        Ok(())
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}: {} at {}", self.rank, self.operation, self.place)
    }
}

fn read_race(state: &State<'_>, race: usize) -> Race {
    let ([first, second], numbers) = state.read_race(race);
    let side = |site: Site| Side {
        rank: site.rank as u32,
        operation: OPERATIONS.get(usize::from(site.operation)).copied().unwrap_or("access"),
        place: state.place_name(site.place),
    };
    let posted = [first, second].into_iter().filter(|site| site.until.is_some());
    let posted = posted.map(|site| state.place_name(site.place)).collect();
    let (first, second) = (side(first), side(second));
    let segment = u64::from(numbers[1]) << 32 | u64::from(numbers[0]);
    let (name, element) = state.segment_name([numbers[0], numbers[1]]);
    let mask = numbers[4] >> 16 & 0xFF;
    let offset = (u64::from(numbers[3]) << 32 | u64::from(numbers[2]))
        + u64::from(mask.trailing_zeros() % 8);
    let cure = cure(Missing::from_bits(numbers[4] >> 24), &first, &second);
    let window = match (SegmentId(segment), name) {
        (segment, _) if segment.0 == 0 || is_private(segment) => String::new(),
        (_, Some(name)) => format!("window {name:?}"),
        (segment, None) => segment.to_string(),
    };
    Race {
        window,
        owner: numbers[4] & 0xFFFF,
        offset,
        bytes: mask.count_ones(),
        index: (element > 1).then(|| offset / u64::from(element)),
        cure,
        posted,
        count: numbers[5],
        first,
        second,
    }
}

fn cure(missing: Missing, first: &Side, second: &Side) -> String {
    let (a, b) = (&first.place, &second.place);
    let (op_a, op_b) = (first.operation, second.operation);
    match missing {
        Missing::Flush if op_a == "put_signal" => format!(
            "the put_signal at {a} may not have landed before the {op_b} at {b}: its signal covers \
             only its own data, and the wait may have ended without that signal; add a fence \
             before the awaited signal, or a flush"
        ),
        Missing::Flush => format!(
            "the {op_a} at {a} was not flushed before rank {} reached the {op_b} at {b}: flush \
             before the signal or barrier between them, or use put_signal",
            second.rank
        ),
        Missing::Fence => format!(
            "the {op_a} at {a} may still be in flight; a fence between two puts, or a flush, \
             orders the {op_b} at {b} after it"
        ),
        Missing::Order => format!(
            "the {op_a} at {a} may still be in flight, and the two may be reordered: the word may \
             hold the first value in the end; a fence between them orders the {op_b} at {b} after \
             it"
        ),
        Missing::Atomicity => format!(
            "one is atomic and the other is not; atomics on both sides, or a wait, a barrier or \
             a lock between the {op_a} at {a} and the {op_b} at {b}, order them"
        ),
        Missing::Synchronization => format!(
            "nothing orders rank {} before rank {}: add a signal and a wait, a barrier or a lock \
             between the {op_a} at {a} and the {op_b} at {b}",
            first.rank, second.rank
        ),
        Missing::Domain => format!(
            "the two are atomics of different widths, types or teams' domains, which do not \
             exclude each other; a wait, a barrier or a lock between the {op_a} at {a} and the \
             {op_b} at {b} orders them"
        ),
        Missing::Threads => format!(
            "nothing orders one thread, task or section of rank {} before the other: add a \
             barrier, a lock, an ordered region or a taskwait between the {op_a} at {a} and the \
             {op_b} at {b}",
            second.rank
        ),
        Missing::Completion => format!(
            "the operation that was started at {a} owns the buffer until it is complete: wait, \
             or quiet, before the {op_b} at {b}"
        ),
    }
}

/// The file and line of a place of the form `FUNCTION in PROGRAM+0xOFFSET`.
fn resolve(place: &str, line: impl Fn(&str, &str) -> Option<String>) -> String {
    let Some((rest, name)) = place.split_once(" in ") else { return place.into() };
    let Some((program, offset)) = name.rsplit_once('+') else { return place.into() };
    match line(program, offset) {
        None => place.into(),
        Some(line) if rest.is_empty() => line,
        Some(line) => format!("{line} ({rest})"),
    }
}

/// Returns a text as JSON has it.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", letter as u32);
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn race(first: &str, second: &str) -> Race {
        let side = |place: &str| Side { rank: 0, operation: "put", place: place.into() };
        Race {
            first: side(first),
            second: side(second),
            window: String::new(),
            owner: 0,
            offset: 0,
            bytes: 8,
            index: None,
            cure: format!("order {first} and {second}"),
            posted: Vec::new(),
            count: 1,
        }
    }

    #[test]
    fn addresses_become_lines_as_far_as_they_are_known() {
        let races =
            vec![race("step in ./halo+0x12", " in ./halo+0x34"), race("a.rs:1", "x in y+0x9")];
        let mut report = Report { races, ..Report::default() };
        report.resolve(|program, address| {
            (program == "./halo").then(|| format!("halo.c:{}", address.trim_start_matches("0x")))
        });
        let places: Vec<[&str; 2]> =
            report.races.iter().map(|race| [&*race.first.place, &*race.second.place]).collect();
        assert_eq!(places, [["halo.c:12 (step)", "halo.c:34"], ["a.rs:1", "x in y+0x9"]]);
        assert_eq!(report.races[0].cure, "order halo.c:12 (step) and halo.c:34");
    }
}
