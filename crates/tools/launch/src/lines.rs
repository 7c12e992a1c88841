//! How the lines that ranks write become lines of the launcher's output.

use std::io::IsTerminal;

use farside_fabric::Rank;
use serde::{Deserialize, Serialize};

use crate::{Launch, Output};

/// What is done to lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lines {
    /// Whether each begins with its rank.
    labelled: bool,
    /// Whether a last line that lacks its end gets one: with labels, or when lines of many ranks
    /// are kept, it would swallow the next one.
    pub(crate) mended: bool,
    /// Of standard output and of standard error: whether a line that has no end yet is passed on
    /// after a while. Where somebody looks it may be a prompt, and the lines of one rank come out
    /// as they went in.
    parted: [bool; 2],
    /// Whether what comes behind such a part begins a new line.
    separated: bool,
}

impl Lines {
    pub(crate) fn of(launch: &Launch) -> Lines {
        let (is_kept, labelled) = match launch.output {
            Output::Capture => (true, false),
            Output::Forward { labels } => (false, labels),
        };
        let is_one = launch.options.ranks == 1;
        let is_seen = [std::io::stdout().is_terminal(), std::io::stderr().is_terminal()];
        Lines {
            labelled,
            mended: labelled || is_kept,
            parted: is_seen.map(|is_seen| !is_kept && (is_one || is_seen)),
            separated: labelled || !is_one,
        }
    }

    /// Returns whether lines that have no end yet are passed on.
    pub(crate) fn is_parted(&self, is_error: bool) -> bool {
        self.parted[usize::from(is_error)]
    }
}

/// The streams whose parts of lines were passed on last, without an end: to standard output, or to
/// a terminal that is both, and to standard error.
#[derive(Default)]
pub(crate) struct OpenLines([Option<(Rank, bool)>; 2]);

impl OpenLines {
    /// Returns the bytes to write for a line of a stream, or for a part of one.
    pub(crate) fn bytes(
        &mut self,
        lines: &Lines,
        rank: Rank,
        is_error: bool,
        line: &[u8],
    ) -> Vec<u8> {
        let is_one_screen = lines.parted == [true; 2];
        let open = &mut self.0[usize::from(is_error && !is_one_screen)];
        let goes_on = *open == Some((rank, is_error));
        let mut bytes = Vec::with_capacity(line.len() + 16);
        if lines.separated && lines.is_parted(is_error) && open.is_some() && !goes_on {
            bytes.push(b'\n');
        }
        if lines.labelled && !goes_on {
            bytes.extend_from_slice(format!("[{}] ", rank.0).as_bytes());
        }
        bytes.extend_from_slice(line);
        *open = (!line.ends_with(b"\n")).then_some((rank, is_error));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(labelled: bool, is_seen: bool, is_one: bool) -> Lines {
        Lines {
            labelled,
            mended: labelled,
            parted: [is_seen || is_one; 2],
            separated: labelled || !is_one,
        }
    }

    fn written(lines: &Lines, pieces: &[(u32, bool, &str)]) -> String {
        let mut open = OpenLines::default();
        let bytes = pieces.iter().flat_map(|&(rank, is_error, piece)| {
            open.bytes(lines, Rank(rank), is_error, piece.as_bytes())
        });
        String::from_utf8(bytes.collect()).unwrap()
    }

    #[test]
    fn parts_of_one_rank_come_out_as_they_went_in() {
        let pieces =
            [(0, false, "size? "), (0, true, "50%\r"), (0, true, "60%\r"), (0, false, "\n")];
        assert_eq!(written(&lines(false, false, true), &pieces), "size? 50%\r60%\r\n");
    }

    #[test]
    fn a_line_behind_a_part_of_another_rank_is_a_new_one() {
        let pieces = [(0, false, "a"), (0, false, "b\n"), (0, false, "a"), (1, true, "c\n")];
        assert_eq!(written(&lines(false, true, false), &pieces), "ab\na\nc\n");
        let labelled = lines(true, true, false);
        assert_eq!(written(&labelled, &pieces), "[0] ab\n[0] a\n[1] c\n");
    }

    #[test]
    fn pieces_of_a_long_line_have_one_label() {
        let pieces = [(0, false, "x"), (0, true, "error\n"), (0, false, "y\n")];
        assert_eq!(written(&lines(true, false, false), &pieces), "[0] x[0] error\ny\n");
    }
}
