//! Diffs and pages of other ranks, where each rank has a copy and diffs are made eagerly.

use farside_fabric::{Error, Rank, Region as Pieces, Result, SegmentId};
use farside_rma::{Agent, Plain, Window};
use zerocopy::IntoBytes;

use super::state::{Eager, Pending};
use crate::config::Fetch;
use crate::state::Local;
use crate::steps;

impl Eager {
    /// Fetches a page of which this rank has no copy.
    pub(super) fn bring_copy(&mut self, here: &mut Local<'_>, page: u32) -> Result<()> {
        let Some(keeper) = self.pages[page as usize].keeper else { return Ok(()) };
        let mut copy = std::mem::take(&mut self.scratch);
        let fetched = self.fetch_whole(here, keeper, page, &mut copy);
        let begin = page as usize * here.page_words();
        let written = fetched.and_then(|()| here.memory.copy.own().write(begin, &copy));
        self.scratch = copy;
        written?;
        here.records.statistics.cold_misses += 1;
        self.pages[page as usize].keeper = None;
        self.pages[page as usize].is_unasked = false;
        Ok(())
    }

    /// Fetches a page from its keeper, as it was before any diff that is kept: words that are being
    /// written may change back, and be in no diff. What it lacks is in diffs that are pending here,
    /// or will be.
    fn fetch_whole(
        &self,
        here: &mut Local<'_>,
        keeper: Rank,
        page: u32,
        into: &mut [u32],
    ) -> Result<()> {
        let at = page as usize * into.len();
        let from = match &here.memory.pages {
            Some(pages) if !here.context.omits(steps::TAKE_TWINS) => &pages.twins,
            _ => &here.memory.copy,
        };
        self.fetch_words(here, from, (keeper, at), into)?;
        here.count(2, size_of_val(into));
        Ok(())
    }

    /// Others fetch a page from here, from now on, as it is now.
    pub(super) fn keep_page(&mut self, here: &Local<'_>, page: u32) -> Result<()> {
        let Some(pages) = &here.memory.pages else { return Ok(()) };
        let begin = page as usize * here.page_words();
        here.memory.copy.own().read(begin, &mut self.scratch)?;
        here.put_own(pages.twins.at(here.me, begin), &self.scratch)
    }

    /// Fetches words of a rank's part of a window.
    fn fetch_words<T: Plain>(
        &self,
        here: &Local<'_>,
        window: &Window<T>,
        (rank, at): (Rank, usize),
        into: &mut [u32],
    ) -> Result<()> {
        if here.config.fetch == Fetch::Call {
            return self.call_for(here, window.segment(), (rank, at), into);
        }
        here.context.get(window.at(rank, 0).cast().skip(at), into)
    }

    /// Asks rank 0 for its diffs of a zeroed page, unless that was done before, of which no rank is
    /// known to have written anything: the answer tells nothing. [BST97 section 4.2.1]
    pub(super) fn ask_in_vain(&mut self, here: &mut Local<'_>, page: u32) -> Result<()> {
        if self.pages[page as usize].is_unasked {
            let mut answer = [0];
            let at = page as usize * here.page_words();
            self.fetch_words(here, &here.memory.copy, (Rank(0), at), &mut answer)?;
            here.count(2, size_of_val(&answer));
            self.pages[page as usize].is_unasked = false;
        }
        Ok(())
    }

    /// All diffs, one after the other; all of them are under way at once.
    pub(super) fn fetch_diffs(
        &self,
        here: &mut Local<'_>,
        pending: &[Pending],
    ) -> Result<Vec<u32>> {
        let words = here.page_words();
        let lengths = pending.iter().map(|pending| pending.notice.stored_words(words));
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
        let diffs = &here.memory.diffs;
        if here.config.fetch == Fetch::Call {
            for (place, part) in each {
                self.call_for(here, diffs.segment(), place, part)?;
            }
        } else {
            here.context.scope(|scope| {
                for ((rank, at), part) in each {
                    // The scope waits for it.
                    let _ = scope.get_nb(diffs.at(rank, at), part)?;
                }
                Ok(())
            })?;
        }
        let bytes = all.len() * 4;
        here.count(2 * pending.len() as u64, bytes);
        here.count_diffs(pending.len(), bytes);
        Ok(all)
    }

    /// Asks the agent of a rank's node for words of one of the rank's segments.
    fn call_for(
        &self,
        here: &Local<'_>,
        segment: SegmentId,
        (rank, at): (Rank, usize),
        into: &mut [u32],
    ) -> Result<()> {
        let node = here.context.topology().node_of(rank);
        let handler =
            self.handler.ok_or_else(|| Error::Internal("no handler serves diffs here".into()))?;
        let mut done = 0;
        let most = (here.context.job().caps.call_bytes_max as usize / 4).max(1);
        for part in into.chunks_mut(most) {
            let asked =
                [segment.0, u64::from(rank.0), (at + done) as u64 * 4, part.len() as u64 * 4];
            let reply = here.context.call(node, handler, asked.as_bytes())?;
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

/// Answers a request for words of a rank of this node, as the node's agent.
pub(super) fn serve(agent: &dyn Agent, _from: Rank, asked: &[u8]) -> Vec<u8> {
    let word = |at: usize| {
        let bytes = asked.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    let (segment, rank, at, bytes) = (SegmentId(word(0)), Rank(word(1) as u32), word(2), word(3));
    let mut reply = vec![0; bytes.min(1 << 20) as usize];
    // A wrong request gets a reply that is too short.
    match agent.get(&Pieces::block(rank, segment, at, reply.len() as u64), &mut reply) {
        Ok(()) => reply,
        Err(_) => Vec::new(),
    }
}
