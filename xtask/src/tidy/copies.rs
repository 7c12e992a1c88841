//! An algorithm that has a place of its own is not written a second time.
//!
//! A copy is known by what it cannot do without: a constant, or a few tokens in a row. The list is
//! of algorithms that were found in several places once.

use super::Report;
use super::source::{Source, Token};

/// An algorithm, where it is, and how copies of it are known.
struct Known {
    what: &'static str,
    /// The beginning of the paths that may hold it.
    home: &'static [&'static str],
    /// Integers, in decimal.
    constants: &'static [u128],
    /// Tokens one after another.
    patterns: &'static [&'static [&'static str]],
}

const KNOWN: &[Known] = &[
    Known {
        what: "the generator of random numbers",
        home: &["crates/runtime/fabric/src/random.rs"],
        // SplitMix64; its increment, the golden ratio, serves hash tables as well.
        constants: &[0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB],
        patterns: &[],
    },
    Known {
        what: "the digest of bytes",
        home: &["crates/runtime/fabric/src/digest.rs"],
        constants: &[0xCBF2_9CE4_8422_2325, 0x100_0000_01B3], // FNV-1a
        patterns: &[],
    },
    Known {
        what: "the dissemination barrier",
        home: &["crates/runtime/rma/src/group/", "crates/runtime/rma/src/collective/"],
        constants: &[],
        // The distance of a round, modulo the members.
        patterns: &[
            &["(", "1", "<", "<", "_", ")", "%"],
            &["(", "1", "<", "<", "_", ")", ")", "%"],
        ],
    },
];

/// Looks for copies in one file; tests may pin the numbers of an algorithm.
pub(super) fn check(source: &Source, report: &mut Report) {
    if source.crate_directory().is_none() {
        return;
    }
    for known in KNOWN {
        if known.home.iter().any(|home| source.path.starts_with(home)) {
            continue;
        }
        let is_constant =
            |token: &&Token| integer(&token.text).is_some_and(|it| known.constants.contains(&it));
        let constants = source.tokens.iter().filter(is_constant).map(|token| token.line);
        let patterns = known.patterns.iter().flat_map(|pattern| source.lines_of(pattern));
        for line in constants.chain(patterns) {
            let (what, home) = (known.what, known.home[0]);
            let message = format!("a copy of {what}: use that of {home}");
            report.violation(&source.path, line, message);
        }
    }
}

/// The value of an integer literal, in whatever base and with whatever type.
fn integer(literal: &str) -> Option<u128> {
    let literal = syn::parse_str::<syn::LitInt>(literal).ok()?;
    literal.base10_parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::NOWHERE;
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        Report::of(check, path, text).lines()
    }

    #[test]
    fn a_constant_gives_a_copy_away_however_it_is_written() {
        let text = "const A: u64 = 0xbf58476d1ce4e5b9;\nconst B: u64 = 0xBF58_476D_1CE4_E5B9_u64;\n\
                    const C: u64 = 13787848793156543929;\nconst D: u64 = 0xBF58;";
        assert_eq!(lines("crates/runtime/nic/src/socket.rs", text), [1, 2, 3]);
        assert_eq!(lines("crates/runtime/fabric/src/random.rs", text), NOWHERE);
        assert_eq!(lines("crates/runtime/shm/src/a.rs", "const P: u64 = 0x100000001b3;"), [1]);
    }

    #[test]
    fn a_pattern_gives_a_copy_away() {
        let text = "fn a() {\n let to = (me + (1 << phase)) % size;\n \
                    let far = (1 << round) % size;\n let bit = 1 << phase;\n}";
        assert_eq!(lines("crates/runtime/epoch/src/two_sided.rs", text), [2, 3]);
        assert_eq!(lines("crates/runtime/rma/src/group/barrier/dissemination.rs", text), NOWHERE);
    }
}
