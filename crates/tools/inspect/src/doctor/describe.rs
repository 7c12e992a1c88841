//! What a rank does, in words.

use farside_fabric::record::locked_target;

use crate::snapshot::{ActivityView, ContextView, Kind, Snapshot, WordView};

/// The segment of the team of all ranks.
const WORLD: u64 = 1;

/// Describes what was read in a snapshot.
pub struct Describer<'a> {
    snapshot: &'a Snapshot,
}

impl<'a> Describer<'a> {
    /// Describes what was read in `snapshot`.
    pub fn new(snapshot: &'a Snapshot) -> Describer<'a> {
        Describer { snapshot }
    }

    /// Describes what a context does: `waits for lock table (src/main.rs:33)`.
    pub fn context(&self, context: &ContextView) -> String {
        match &context.activity {
            Some(activity) => self.activity(activity),
            None => "runs".to_owned(),
        }
    }

    /// Describes what a context waits for.
    pub fn activity(&self, activity: &ActivityView) -> String {
        let ActivityView { name, place, .. } = activity;
        let peers = || match activity.peers.as_deref() {
            Some([]) | None => "other ranks".to_owned(),
            Some(peers) => ranks(peers),
        };
        let what = match activity.kind {
            Kind::Lock => {
                format!("waits for {}", self.lock(activity.segment, activity.number, name))
            }
            Kind::Collective => {
                format!("is in {name} {} of {}", activity.number, self.team(activity.segment))
            }
            Kind::Word => match &activity.word {
                Some(word) => format!("waits for {}", self.word(word)),
                None => "waits for a word".to_owned(),
            },
            Kind::Transfer => format!("waits for a reply of {}", peers()),
            Kind::Flush => format!("flushes to {}", peers()),
            Kind::Call => format!("waits for the agent of {}", peers()),
            Kind::Epoch => {
                format!("is in `{name}` of {}", self.memory("window", activity.segment))
            }
            Kind::Pause => "pauses".to_owned(),
            Kind::Poll => format!("polls memory of {}", peers()),
        };
        match activity
            .word
            .as_ref()
            .filter(|_| activity.kind == Kind::Word)
            .and_then(|word| word.now)
        {
            Some(now) if place.is_empty() => format!("{what} (holds {now})"),
            Some(now) => format!("{what} (holds {now}; {place})"),
            None => format!("{what}{}", bracketed(place)),
        }
    }

    /// Names a lock.
    pub fn lock(&self, segment: u64, offset: u64, algorithm: &str) -> String {
        if let Some(target) = locked_target(offset) {
            return format!("the lock of {target} in {}", self.memory("window", segment));
        }
        match self.snapshot.name_of(segment, offset) {
            Some(name) => format!("lock `{name}`"),
            None => format!("{algorithm} lock {}", short(segment, offset)),
        }
    }

    /// Names a team.
    pub fn team(&self, segment: u64) -> String {
        match (segment, self.snapshot.name_of(segment, 0)) {
            (WORLD, _) => "team `world`".to_owned(),
            (_, Some(name)) => format!("team `{name}`"),
            _ => format!("team {}", segment_name(segment)),
        }
    }

    /// Names a word.
    pub fn word(&self, word: &WordView) -> String {
        let index = word.offset / u64::from(word.bytes.max(1));
        format!("word {index} of {}", self.memory("window", word.segment))
    }

    pub(super) fn memory(&self, what: &str, segment: u64) -> String {
        match self.snapshot.name_of(segment, 0) {
            Some(name) => format!("{what} `{name}`"),
            None => format!("{what} {}", segment_name(segment)),
        }
    }
}

fn segment_name(segment: u64) -> String {
    match (segment >> 32).checked_sub(1) {
        Some(rank) => format!("{rank}.{}", segment as u32),
        None => segment.to_string(),
    }
}

fn short(segment: u64, offset: u64) -> String {
    format!("{}+{offset}", segment_name(segment))
}

/// Lists ranks: `rank 3`, `ranks 0-2 and 5`.
pub fn ranks(ranks: &[u32]) -> String {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in sorted.iter().copied() {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == rank => *end = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let mut words: Vec<String> = Vec::new();
    for (first, last) in runs {
        match last - first {
            0 => words.push(first.to_string()),
            1 => words.extend([first.to_string(), last.to_string()]),
            _ => words.push(format!("{first}-{last}")),
        }
    }
    let list = match words.split_last() {
        None => return "no rank".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    };
    if sorted.len() == 1 { format!("rank {list}") } else { format!("ranks {list}") }
}

/// What several ranks do, of what one does: `are in barrier 3` of `is in barrier 3`.
pub fn plural(does: &str) -> String {
    let (verb, rest) = does.split_once(' ').unwrap_or((does, ""));
    let verb = match verb {
        "is" => "are",
        "has" => "have",
        "was" => "were",
        "flushes" => "flush",
        one => one.strip_suffix('s').unwrap_or(one),
    };
    format!("{verb} {rest}").trim_end().to_owned()
}

/// A place behind what happens there; nothing if it is not known.
pub fn bracketed(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" ({place})") }
}

/// A time in words: `12.3 s`, `2 min 5 s`.
pub fn time(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else if seconds < 3600.0 {
        format!("{} min {} s", seconds as u64 / 60, seconds as u64 % 60)
    } else {
        format!("{} h {} min", seconds as u64 / 3600, seconds as u64 / 60 % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_times_read_well() {
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[2, 0]), "ranks 0 and 2");
        assert_eq!(ranks(&[0, 1]), "ranks 0 and 1");
        assert_eq!(ranks(&[5, 0, 1, 2]), "ranks 0-2 and 5");
        assert_eq!(ranks(&[0, 2, 4, 5, 6]), "ranks 0, 2 and 4-6");
        assert_eq!(ranks(&[]), "no rank");
        assert_eq!(plural("is in barrier 3"), "are in barrier 3");
        assert_eq!(plural("runs"), "run");
        assert_eq!(time(12_300_000_000), "12.3 s");
        assert_eq!(time(5_000_000), "5 ms");
        assert_eq!(time(125_000_000_000), "2 min 5 s");
        assert_eq!(time(7_260_000_000_000), "2 h 1 min");
    }
}
