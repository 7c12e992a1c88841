//! Diffs and pages of other ranks, where each rank has a copy and diffs are made eagerly.

use farside_fabric::{Error, Rank, Result};
use zerocopy::IntoBytes;

use crate::coherence::{Coherence, Pending};
use crate::config::Fetch;

impl Coherence<'_> {
    pub(crate) fn fetch_copy(&mut self, keeper: Rank, page: u32, into: &mut [u32]) -> Result<()> {
        let at = page as usize * self.page_words;
        if self.config.fetch == Fetch::Call {
            return self.call_for(keeper, true, at, into);
        }
        self.context.get(self.memory.copy.at(keeper, at), into)
    }

    /// Asks rank 0 for its diffs of a zeroed page of which no rank is known to have written
    /// anything: the answer tells nothing. [BST97 section 4.2.1]
    pub(crate) fn ask_in_vain(&mut self, page: u32) -> Result<()> {
        let mut answer = [0];
        self.fetch_copy(Rank(0), page, &mut answer)?;
        self.count(2, size_of_val(&answer));
        Ok(())
    }

    /// All diffs, one after the other; all of them are under way at once.
    pub(crate) fn fetch_diffs(&mut self, pending: &[Pending]) -> Result<Vec<u32>> {
        let lengths = pending.iter().map(|pending| pending.notice.stored_words(self.page_words));
        let mut all = vec![0; lengths.clone().sum()];
        let mut rest = &mut all[..];
        let mut parts = Vec::with_capacity(pending.len());
        for length in lengths {
            let (part, after) = rest.split_at_mut(length);
            parts.push(part);
            rest = after;
        }
        let each = pending
            .iter()
            .map(|pending| (Rank(pending.rank), pending.notice.at as usize))
            .zip(parts);
        if self.config.fetch == Fetch::Call {
            for ((rank, at), part) in each {
                self.call_for(rank, false, at, part)?;
            }
        } else {
            let diffs = &self.memory.diffs;
            self.context.scope(|scope| {
                for ((rank, at), part) in each {
                    // The scope waits for it.
                    let _ = scope.get_nb(diffs.at(rank, at), part)?;
                }
                Ok(())
            })?;
        }
        let bytes = all.len() * 4;
        self.count(2 * pending.len() as u64, bytes);
        self.records.statistics.diffs_applied += pending.len() as u64;
        self.records.statistics.diff_bytes += bytes as u64;
        Ok(all)
    }

    /// Asks the agent of a rank's node for words of the rank's copy, or of its diffs.
    pub(crate) fn call_for(
        &self,
        rank: Rank,
        copy: bool,
        at: usize,
        into: &mut [u32],
    ) -> Result<()> {
        let node = self.context.topology().node_of(rank);
        let handler =
            self.handler.ok_or_else(|| Error::Internal("no handler serves diffs here".into()))?;
        let mut done = 0;
        let most = (self.context.job().caps.call_bytes_max as usize / 4).max(1);
        for part in into.chunks_mut(most) {
            let segment =
                if copy { self.memory.copy.segment() } else { self.memory.diffs.segment() };
            let asked =
                [segment.0, u64::from(rank.0), (at + done) as u64 * 4, part.len() as u64 * 4];
            let reply = self.context.call(node, handler, asked.as_bytes())?;
            let fits = reply.len() == part.len() * 4;
            if !fits {
                return Err(Error::Internal(format!(
                    "{node} sent {} bytes instead of {}",
                    reply.len(),
                    part.len() * 4
                )));
            }
            part.as_mut_bytes().copy_from_slice(&reply);
            done += part.len();
        }
        Ok(())
    }
}
