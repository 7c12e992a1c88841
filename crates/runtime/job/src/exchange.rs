//! Processes that exchange bytes by themselves, as a launcher would for them.

use std::collections::BTreeMap;

use crate::pmi::{Error, Session};
use farside_fabric::Result;

/// The exchange of another runtime: what [`join_with`](crate::join_with) needs of it.
pub trait Exchange {
    /// Returns the rank of this process, from 0.
    fn rank(&self) -> u32;
    /// Returns the number of processes.
    fn size(&self) -> u32;
    /// Gives `mine` to all processes and returns what all of them gave, one after the other by
    /// rank. All call it with the same length, and it returns when all have called it.
    fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<u8>>;
}

/// Keys and values over an exchange: each fence gives what was put since the last one to all.
pub(crate) struct Notes {
    exchange: Box<dyn Exchange>,
    /// What this process has put since the last fence.
    fresh: Vec<u8>,
    known: BTreeMap<String, String>,
}

/// The longest value: nothing limits them but what an exchange can bear.
const VALUE_BYTES_MAX: usize = 1 << 16;

impl Notes {
    pub(crate) fn new(exchange: Box<dyn Exchange>) -> Notes {
        Notes { exchange, fresh: Vec::new(), known: BTreeMap::new() }
    }

    /// Exchanges bytes of one length, and checks that as many came as there are processes.
    fn gather(&mut self, mine: &[u8]) -> crate::pmi::Result<Vec<u8>> {
        let all = self.exchange.all_gather(mine).map_err(|error| Error(error.to_string()))?;
        let expected = mine.len().saturating_mul(self.exchange.size() as usize);
        match all.len() == expected {
            true => Ok(all),
            false => Err(Error(format!(
                "the exchange returned {} bytes instead of {expected}",
                all.len()
            ))),
        }
    }
}

impl Session for Notes {
    fn rank(&self) -> u32 {
        self.exchange.rank()
    }

    fn size(&self) -> u32 {
        self.exchange.size()
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    fn put(&mut self, key: &str, value: &str) -> crate::pmi::Result<()> {
        self.fresh.extend_from_slice(format!("{key}={value}\n").as_bytes());
        Ok(())
    }

    fn fence(&mut self) -> crate::pmi::Result<()> {
        let mut mine = std::mem::take(&mut self.fresh);
        let lengths = self.gather(&(mine.len() as u64).to_le_bytes())?;
        let lengths: Vec<u64> =
            lengths.as_chunks::<8>().0.iter().copied().map(u64::from_le_bytes).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let longest = usize::try_from(longest).ok().filter(|&longest| longest < 1 << 30);
        let longest = longest
            .ok_or_else(|| Error("the exchange function returned damaged lengths".into()))?;
        if longest == 0 {
            return Ok(());
        }
        mine.resize(longest, b'\n');
        let all = self.gather(&mine)?;
        let text = String::from_utf8(all)
            .map_err(|_| Error("the exchange function changed the bytes".into()))?;
        let notes = text.lines().filter_map(|line| line.split_once('='));
        self.known.extend(notes.map(|(key, value)| (key.to_owned(), value.to_owned())));
        Ok(())
    }

    fn get(&mut self, from: u32, key: &str) -> crate::pmi::Result<String> {
        let value = self.known.get(key).cloned();
        value.ok_or_else(|| Error(format!("rank {from} has put nothing under {key}")))
    }

    fn finish(self: Box<Self>) -> crate::pmi::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier, Mutex};

    use super::*;

    /// Threads that exchange through a vector.
    struct Threads {
        rank: u32,
        parts: Arc<Mutex<Vec<Vec<u8>>>>,
        barrier: Arc<Barrier>,
    }

    impl Exchange for Threads {
        fn rank(&self) -> u32 {
            self.rank
        }

        fn size(&self) -> u32 {
            3
        }

        fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<u8>> {
            self.parts.lock().unwrap()[self.rank as usize] = mine.to_vec();
            self.barrier.wait();
            let all = self.parts.lock().unwrap().concat();
            self.barrier.wait();
            Ok(all)
        }
    }

    #[test]
    fn what_was_put_before_a_fence_is_there_after_it() {
        let (parts, barrier) =
            (Arc::new(Mutex::new(vec![Vec::new(); 3])), Arc::new(Barrier::new(3)));
        std::thread::scope(|threads| {
            for rank in 0..3 {
                let exchange = Threads { rank, parts: parts.clone(), barrier: barrier.clone() };
                threads.spawn(move || {
                    let mut notes = Notes::new(Box::new(exchange));
                    notes.put(&format!("a.{rank}"), &"x".repeat(rank as usize)).unwrap();
                    notes.fence().unwrap();
                    notes.fence().unwrap();
                    if rank == 2 {
                        notes.put("b", "late").unwrap();
                    }
                    notes.fence().unwrap();
                    assert_eq!(notes.get(2, "a.2").unwrap(), "xx");
                    assert_eq!(notes.get(0, "a.0").unwrap(), "");
                    assert_eq!(notes.get(2, "b").unwrap(), "late");
                    assert!(notes.get(1, "b.1").is_err());
                });
            }
        });
    }
}
