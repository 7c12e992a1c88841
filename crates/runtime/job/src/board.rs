//! Texts of any length over a launcher's keys and values, which are short and of few letters.

use crate::pmi::Session;
use farside_fabric::{Error, Rank, Result};

use crate::lines::{from_hex, hex};

/// Where the processes of a job leave notes for each other.
pub(crate) struct Board {
    session: Box<dyn Session>,
}

/// The longest value that is put, where the launcher would take more.
const VALUE_BYTES_MAX: usize = 1000;
const PIECES_MAX: usize = 1 << 16;

impl Board {
    pub(crate) fn new(session: Box<dyn Session>) -> Board {
        Board { session }
    }

    pub(crate) fn me(&self) -> Rank {
        Rank(self.session.rank())
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.session.size()
    }

    /// Leaves a note, for others to read after the next fence.
    pub(crate) fn publish(&mut self, name: &str, text: &str) -> Result<()> {
        let letters = hex(text.as_bytes());
        // The first piece says how many there are.
        let room = self.session.value_bytes_max().min(VALUE_BYTES_MAX) - 8;
        let count = letters.len().div_ceil(room).max(1);
        for piece in 0..count {
            let part = &letters[piece * room..letters.len().min((piece + 1) * room)];
            let value = if piece == 0 { format!("{count}.{part}") } else { part.to_owned() };
            self.session.put(&key(name, self.me(), piece), &value).map_err(join)?;
        }
        Ok(())
    }

    pub(crate) fn read(&mut self, from: Rank, name: &str) -> Result<String> {
        let damaged = || Error::Join(format!("the start-up message {name:?} of {from} is damaged"));
        let first = self.session.get(from.0, &key(name, from, 0)).map_err(join)?;
        let (count, part) = first.split_once('.').ok_or_else(damaged)?;
        let count =
            count.parse::<usize>().ok().filter(|&count| count <= PIECES_MAX).ok_or_else(damaged)?;
        let mut letters = part.to_owned();
        for piece in 1..count {
            letters.push_str(&self.session.get(from.0, &key(name, from, piece)).map_err(join)?);
        }
        String::from_utf8(from_hex(&letters).ok_or_else(damaged)?).map_err(|_| damaged())
    }

    pub(crate) fn fence(&mut self) -> Result<()> {
        self.session.fence().map_err(join)
    }

    /// Tells the launcher that this rank has what it needs.
    pub(crate) fn finish(self) -> Result<()> {
        self.session.finish().map_err(join)
    }
}

fn key(name: &str, rank: Rank, piece: usize) -> String {
    format!("farside.{name}.{}.{piece}", rank.0)
}

fn join(error: crate::pmi::Error) -> Error {
    Error::Join(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// A launcher of one process that takes short values only.
    #[derive(Default)]
    struct Short(HashMap<String, String>);

    impl Session for Short {
        fn rank(&self) -> u32 {
            0
        }
        fn size(&self) -> u32 {
            1
        }
        fn value_bytes_max(&self) -> usize {
            20
        }
        fn put(&mut self, key: &str, value: &str) -> crate::pmi::Result<()> {
            assert!(value.len() <= 20, "{value}");
            assert!(self.0.insert(key.into(), value.into()).is_none(), "{key} is put once");
            Ok(())
        }
        fn fence(&mut self) -> crate::pmi::Result<()> {
            Ok(())
        }
        fn get(&mut self, _: u32, key: &str) -> crate::pmi::Result<String> {
            self.0.get(key).cloned().ok_or_else(|| crate::pmi::Error(format!("no {key}")))
        }
        fn finish(self: Box<Self>) -> crate::pmi::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn notes_are_cut_into_pieces_and_put_together_again() {
        let mut board = Board::new(Box::<Short>::default());
        for (name, text) in
            [("a", ""), ("b", "short"), ("c", "long; with = signs\nand lines, and \u{fc}mlauts")]
        {
            board.publish(name, text).unwrap();
            assert_eq!(board.read(Rank(0), name).unwrap(), text);
        }
        assert!(board.read(Rank(0), "d").unwrap_err().to_string().contains("no farside.d.0.0"));
    }
}
