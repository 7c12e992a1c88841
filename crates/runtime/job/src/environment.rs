//! The environment variables of farside, in one list. What is set and not on it has no effect, and
//! is hardly what the user wanted: a rank or a launcher that finds such a variable says so.

use std::ffi::{OsStr, OsString};

use farside_fabric::text::say;

/// What the name of every variable begins with.
pub const PREFIX: &str = "FARSIDE_";
/// What the names of variables begin with that only the project's tests use.
pub const TEST_PREFIX: &str = "FARSIDE_TEST_";

/// An environment variable that farside reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The party that sets it.
    pub set_by: SetBy,
    /// What it means, as one line of Markdown.
    pub meaning: &'static str,
}

/// The party that sets a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    /// The user, to change what a job is like.
    User,
    /// `farside run`, for the ranks that it starts.
    Launcher,
    /// A developer of the project, for its tests.
    Tester,
}

const fn user(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, set_by: SetBy::User, meaning }
}

const fn launcher(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, set_by: SetBy::Launcher, meaning }
}

/// All of them. `docs/environment.md` shows the same list.
pub const VARIABLES: &[Variable] = &[
    user(
        crate::FABRIC,
        "the fabric of a job: `shm`, `nic` or `ofi`, instead of the automatic choice; as \
         `--fabric`, and `farside run` sets it for its ranks",
    ),
    user(
        crate::BETWEEN_NODES,
        "the fabric between nodes where none is asked for: `nic` (the default) or `ofi`",
    ),
    user(crate::PROVIDER, "the provider of libfabric, such as `tcp;ofi_rxm`; as `--provider`"),
    user(
        crate::MEMORY,
        "how much memory each rank may share, such as `512M` or `4G`; as `--memory`",
    ),
    user(crate::TOPOLOGY, "how the ranks are arranged, such as `node:2,socket:2`; as `--topology`"),
    user(
        crate::CORES,
        "how many processors the ranks may use together, instead of what the machine has",
    ),
    user(
        crate::NODES,
        "under another launcher: divide the ranks of one machine into this many nodes; as \
         `--nodes`",
    ),
    user(crate::SERVER, "under another launcher: who executes far operations; as `--server`"),
    user(
        crate::PEER_TIMEOUT,
        "under another launcher: how many seconds a node may be silent before it counts as lost, \
         10; as `--peer-timeout`",
    ),
    user(crate::PATIENCE, "the former name of `FARSIDE_PEER_TIMEOUT`"),
    user(
        crate::NETWORK,
        "under another launcher: the address of this host that the others can reach, or a network \
         such as \
         `10.1.0.0/16` in which each host has one",
    ),
    user(
        crate::START_TIMEOUT,
        "under another launcher: how many seconds the start of a job may take, 60",
    ),
    user(
        crate::STUCK_AFTER,
        "report which ranks are stuck, and why, once ranks have waited for this many seconds; as \
         `--stuck-after`, and under other launchers by `farside`, which must be on PATH",
    ),
    user(
        crate::pmi::PROTOCOL,
        "the protocol to use with the launcher: `pmi1`, `pmi2` or `pmix`, if the wrong one is \
         chosen; `none` makes the process a job of one rank",
    ),
    user(
        crate::pmi::PMIX_LIBRARY,
        "where the PMIx library is, if the loader does not find `libpmix.so.2`",
    ),
    user(
        "FARSIDE_RSH",
        "how `farside run --hosts` reaches a host: a command with `{host}` in it; as `--rsh`",
    ),
    user("FARSIDE_CC", "the compiler behind `farside-cc` and `farside-oshcc`, before `CC`"),
    user("FARSIDE_CXX", "the compiler behind `farside-c++` and `farside-oshc++`, before `CXX`"),
    user("FARSIDE_REPLAY", "the schedule that a `#[farside::test]` runs again, and no other"),
    launcher(crate::RANK, "which rank a process is"),
    launcher(crate::FILE, "the number of the inherited file that is the job's memory"),
    launcher(
        crate::ENTRY,
        "how `#[farside::main]` runs the program: on threads or on simulated ranks, and whether it \
         is recorded there; set by `--threads`, `--sim` and `farside check`, a line for each \
         setting",
    ),
    launcher(
        crate::RACES,
        "the race checker's memory, or the process that queries it; set by `--races`",
    ),
    launcher(
        crate::MARK,
        "a unique job name: processes that carry it are ended if the launcher is killed",
    ),
    launcher(
        crate::LAUNCHER,
        "the process that started the ranks, and where ranks behind a wrapper report to it",
    ),
    user("FARSIDE_MPI", "`off` leaves the one-sided calls of a preloaded MPI program to MPI"),
    user(
        "FARSIDE_MPI_VERBOSE",
        "a preloaded library reports what it intercepts, and what it does not",
    ),
    user("FARSIDE_MPI_SUMMARY", "a preloaded library says at the end what each rank has done"),
    user(
        "FARSIDE_MPI_SERVICE",
        "a thread of each process serves its memory, instead of the kernel's cross-memory calls",
    ),
    Variable {
        name: "FARSIDE_LONG",
        set_by: SetBy::Tester,
        meaning: "run longer, more thorough tests",
    },
];

/// Says on standard error which of these variables are none of farside's although their names say
/// so, and which were meant.
pub fn warn_of_unknown<'a>(names: impl IntoIterator<Item = &'a OsStr>) {
    for name in names {
        if let Some(warning) = warning(&name.to_string_lossy()) {
            say(format_args!("farside: {warning}"));
        }
    }
}

/// Says so of the variables of this process.
pub(crate) fn warn_of_own() {
    let names: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
    warn_of_unknown(names.iter().map(OsString::as_os_str));
}

fn warning(name: &str) -> Option<String> {
    if !name.starts_with(PREFIX)
        || name.starts_with(TEST_PREFIX)
        || VARIABLES.iter().any(|known| known.name == name)
    {
        return None;
    }
    let nearest = VARIABLES.iter().map(|known| (distance(name, known.name), known.name)).min();
    // More than a third of what follows the prefix is another word.
    let close = |&(distance, _): &(usize, &str)| 3 * distance <= name.len() - PREFIX.len();
    let meant = nearest
        .filter(close)
        .map_or(String::new(), |(_, nearest)| format!("; did you mean {nearest}?"));
    Some(format!("unknown variable {name} is ignored{meant}"))
}

/// How many letters have to be changed, added or taken away to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (at, &theirs) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != theirs);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_told() {
        for (wrong, right) in [
            ("FARSIDE_MEMROY", "FARSIDE_MEMORY"),
            ("FARSIDE_NODE", "FARSIDE_NODES"),
            ("FARSIDE_STARTTIMEOUT", "FARSIDE_START_TIMEOUT"),
        ] {
            let warning = warning(wrong).unwrap();
            assert!(
                warning.contains(wrong) && warning.contains(&format!("mean {right}?")),
                "{warning}"
            );
        }
        let warning = warning("FARSIDE_WAGES_OF_FEAR").unwrap();
        assert!(!warning.contains("did you mean"), "{warning}");
    }

    #[test]
    fn what_is_known_or_nobodys_is_not_spoken_of() {
        for name in
            ["FARSIDE_MEMORY", "FARSIDE_JOB_FD", "FARSIDE_TEST_MARK", "PATH", "farside_memory"]
        {
            assert_eq!(warning(name), None);
        }
    }

    #[test]
    fn letters_are_counted() {
        assert_eq!(
            (distance("same", "same"), distance("", "abc"), distance("kitten", "sitting")),
            (0, 3, 3)
        );
    }
}
