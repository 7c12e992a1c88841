//! What teams allocate: windows, words, and teams of some of their members.

use std::panic::Location;
use std::sync::Arc;

use farside_fabric::{Error, ErrorClass, ProbeEvent, Rank, Result, SegmentId};

use super::{Hold, Team};
use crate::group::area as at;
use crate::group::call::{Call, Kind};
use crate::group::{Group, steps};
use crate::plain::Plain;
use crate::segment::{Segment, Traffic};
use crate::unfreed::Allocation;
use crate::window::{Window, check_type};
use crate::words::{BLOCK_WORDS, Words};

/// In place of a name: this member gives none; it has given all that it has. No segment is called
/// so.
const NAMELESS: u64 = 0;
const NAMED_ALL: u64 = u64::MAX;

impl<'w> Team<'w> {
    /// Allocates a window: `len` elements on this member; others may choose other lengths.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// let window = world.window::<f64>(10 * world.rank().0 as usize)?;
    /// assert_eq!(window.len(farside::Rank(2))?, 20);
    /// # window.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn window<T: Plain>(&self, len: usize) -> Result<Window<T>> {
        let place = Location::caller();
        let segment = self.elements::<T>(len, Traffic::Counted)?;
        let (id, element) = (segment.id, size_of::<T>() as u64);
        self.context.tell(|| ProbeEvent::Program { segment: id, element });
        Ok(Window::of(Allocation::watched(segment, place, self.context.unfreed())))
    }

    /// Allocates a window whose traffic does not count as landings
    /// ([`Context::count_landings`](crate::Context::count_landings)):
    /// for protocols that do the counting.
    #[track_caller]
    pub fn uncounted_window<T: Plain>(&self, len: usize) -> Result<Window<T>> {
        Ok(Window::of(Allocation::unwatched(self.elements::<T>(len, Traffic::Uncounted)?)))
    }

    #[track_caller]
    pub(crate) fn short_lived_window<T: Plain>(&self, len: usize) -> Result<Window<T>> {
        Ok(Window::of(Allocation::unwatched(self.elements::<T>(len, Traffic::Counted)?)))
    }

    #[track_caller]
    fn elements<T: Plain>(&self, len: usize, traffic: Traffic) -> Result<Segment> {
        check_type::<T>()?;
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        self.segment(bytes, size_of::<T>() as u64, traffic)
    }

    /// Allocates `count` words on every member, all zero: the raw material of protocols. Many small
    /// allocations share pages.
    #[track_caller]
    pub fn words(&self, count: usize) -> Result<Words> {
        let words = self.protocol_words(count)?;
        words.tell(self.context, true);
        Ok(words)
    }

    /// Allocates words as [`Team::words`] does, for a protocol: a checker of races takes it that
    /// they order what they should.
    #[track_caller]
    pub fn protocol_words(&self, count: usize) -> Result<Words> {
        if count > BLOCK_WORDS {
            return Err(Error::TooMuch {
                what: "words of one allocation (use a window)",
                value: count as u64,
                limit: BLOCK_WORDS as u64,
            });
        }
        // Checks that all members ask for the same number. It also keeps words that were just
        // freed, and zeroed by their owners, from being used before all owners have done so.
        self.meet_for(Call::new(Kind::Words, count))?;
        let mut pool = self.group().pool.borrow_mut();
        if let Some(words) = pool.take(count) {
            return Ok(words);
        }
        let segment = Arc::new(self.segment(BLOCK_WORDS as u64 * 8, 8, Traffic::Counted)?);
        pool.add(segment);
        pool.take(count).ok_or_else(|| Error::Internal("a fresh block of words has no room".into()))
    }

    /// Splits the team: members with the same `colour` form a new team, ordered by `key`, then by
    /// rank. A member without a colour gets no team.
    ///
    /// ```
    /// # farside::local(5, |world| {
    /// let half = world.split(Some(u64::from(world.rank().0 % 2)), 0)?.unwrap();
    /// let mut sum = [world.rank().0];
    /// half.all_reduce(&mut sum, |a, b| a + b)?;
    /// assert_eq!(sum[0], if world.rank().0 % 2 == 0 { 0 + 2 + 4 } else { 1 + 3 });
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn split(&self, colour: Option<u64>, key: u64) -> Result<Option<Team<'w>>> {
        let says = self.all_gather(&[u64::from(colour.is_some()), colour.unwrap_or(0), key])?;
        let mut members: Vec<(u64, Rank)> = says
            .chunks_exact(3)
            .zip(self.members())
            .filter(|(says, _)| says[0] == 1 && Some(says[1]) == colour)
            .map(|(says, &rank)| (says[2], rank))
            .collect();
        members.sort_unstable();
        let members: Arc<[Rank]> = members.into_iter().map(|(_, rank)| rank).collect();
        let first = members.first().copied();
        let leads = first == Some(self.context.rank());
        let names = self.all_gather(&[if leads { self.name_segment() } else { NAMELESS }])?;
        let bytes = at::area_bytes(members.len() as u32);
        let mine = match first {
            None => None,
            Some(first) => Some(SegmentId(names[self.position(first)?])),
        };
        // Every team that comes into being has a leader, so one that has run out of names ends the
        // split for all.
        for &leader in self.members().iter().filter(|_| names.contains(&NAMED_ALL)) {
            if names[self.position(leader)?] == NAMED_ALL {
                return Err(Error::OutOfNames { rank: leader });
            }
        }
        let fabric = self.context.fabric();
        let register = |id| {
            Segment::register(fabric, id, bytes, Traffic::Uncounted).map(|own| Some((id, own)))
        };
        let Some(own) = self.agree_on_success(mine, mine.map_or(Ok(None), register))? else {
            return Ok(None);
        };
        let failed = self.context.failed_calls().clone();
        let area = Segment::open(fabric, own, members, Traffic::Uncounted, &|_| bytes, failed);
        let group = Group::new(self.context.fabric(), area)?;
        Ok(Some(Team { context: self.context, group: Hold::Owned(Box::new(group)) }))
    }

    /// Gives back the memory that a team made by [`Team::split`] needs for its collectives. Every
    /// member must do so; what was made on the team must have been freed before.
    #[track_caller]
    pub fn free(self) -> Result<()> {
        match &self.group {
            Hold::Borrowed(_) => Err(Error::InvalidState(
                "only a team made by split can be freed, and only by its owner".into(),
            )),
            Hold::Owned(group) => {
                let used = group.pool.borrow().used();
                if used > 0 {
                    return Err(Error::InvalidState(format!(
                        "{used} words of the team are still used: free its locks, windows and \
                         containers first"
                    )));
                }
                // A member that returns from a meeting has got all signals that will ever be sent.
                let flushed = self.flush_and_meet(Call::free(group.area.id, 0))?;
                let messages = group.messages.get().and_then(Option::as_ref);
                if let Some(messages) = messages {
                    self.context.fabric().deregister(messages.segment.id)?;
                }
                let (room, blocks) = (group.exposed.take(), group.pool.take());
                for segment in room.iter().chain(blocks.segments()) {
                    segment.end();
                    self.context.fabric().deregister(segment.id)?;
                }
                self.context.fabric().deregister(group.area.id)?;
                flushed
            }
        }
    }

    /// Returns the members on this rank's node, as a team. Collective.
    #[track_caller]
    pub fn split_by_node(&self) -> Result<Team<'w>> {
        let node = self.context.topology().node_of(self.context.rank());
        let team = self.split(Some(node.0.into()), 0)?;
        team.ok_or_else(|| Error::Internal("a team of this node has no members".into()))
    }

    /// Allocates a segment with `bytes` on this member, and `element` bytes for each element on
    /// every member.
    #[track_caller]
    pub(crate) fn segment(&self, bytes: u64, element: u64, traffic: Traffic) -> Result<Segment> {
        let name = if self.index() == 0 { self.name_segment() } else { NAMELESS };
        // The name, and whether all say the same: that much can be folded, and mostly no more is
        // needed.
        let mut says = [[name, element, element, bytes, bytes]];
        self.all_reduce(&mut says, |a, b| {
            [a[0].max(b[0]), a[1].min(b[1]), a[2].max(b[2]), a[3].min(b[3]), a[4].max(b[4])]
        })?;
        let [name, element_min, element_max, bytes_min, bytes_max] = says[0];
        if element_min != element_max {
            return Err(self.who_differs(element)?);
        }
        if name == NAMED_ALL {
            return Err(Error::OutOfNames { rank: self.members()[0] });
        }
        let (id, fabric) = (SegmentId(name), self.context.fabric());
        let own = self.agree_on_success(Some(id), Segment::register(fabric, id, bytes, traffic))?;
        let lengths =
            if bytes_min == bytes_max { Ok(Vec::new()) } else { self.all_gather(&[bytes]) };
        let lengths = lengths.or_else(|error| fabric.deregister(id).and(Err(error)))?;
        let bytes_of = |at: usize| lengths.get(at).copied().unwrap_or(bytes);
        let failed = self.context.failed_calls().clone();
        let members = self.group().members.clone();
        Ok(Segment::open(fabric, (id, own), members, traffic, &bytes_of, failed))
    }

    /// Names a segment, as a word that other members can be told.
    fn name_segment(&self) -> u64 {
        self.context.name_segment().map_or(NAMED_ALL, |name| name.0)
    }

    /// Names a member that disagrees with this one on the type of a window.
    #[track_caller]
    fn who_differs(&self, element: u64) -> Result<Error> {
        let all = self.all_gather(&[element])?;
        let other = all.iter().zip(self.members()).find(|(theirs, _)| **theirs != element);
        let (&theirs, &rank) = other.unwrap_or((&element, &self.members()[0]));
        Ok(Error::Disagreement {
            what: "the ranks disagree on the type of a window".into(),
            mine: format!("elements of {element} bytes"),
            rank,
            theirs: format!("elements of {theirs} bytes"),
        })
    }

    #[track_caller]
    pub(crate) fn free_segment(&self, segment: &Segment) -> Result<()> {
        if self.members() != &*segment.members {
            return Err(Error::InvalidState(
                "only the team that allocated a window can free it".into(),
            ));
        }
        // No memory goes while a member may still have operations on it under way.
        let flushed = self.flush_and_meet(Call::free(segment.id, 0))?;
        segment.end();
        self.context.fabric().deregister(segment.id)?;
        flushed
    }

    /// Waits for what this member has put, and meets the others, which must make the same call.
    /// Returns what became of its puts: one to a rank that was lost, and need not be a member,
    /// fails here alone, and the others wait for this member all the same.
    #[track_caller]
    pub(crate) fn flush_and_meet(&self, call: Call) -> Result<Result<()>> {
        let omits = self.context.omits(steps::FLUSH_BEFORE_FREE);
        let flushed = if omits { Ok(()) } else { self.context.flush_all() };
        self.meet_for(call)?;
        Ok(flushed)
    }

    /// Agrees on whether all members could do their part, such as registering it: fails with this
    /// rank's error if it has one, otherwise names a rank that failed. Then nothing is left of the
    /// segment.
    #[track_caller]
    pub(crate) fn agree_on_success<R>(
        &self,
        segment: Option<SegmentId>,
        mine: Result<R>,
    ) -> Result<R> {
        // One more than the index of the last member that failed, then the class of its error.
        let radix = ErrorClass::ALL.len() as u64 + 1;
        let mut failed = [match &mine {
            Ok(_) => 0,
            Err(error) => (self.index() as u64 + 1) * radix + error.class().code() as u64,
        }];
        let agreed = self.all_reduce(&mut failed, u64::max);
        let mine = mine?;
        if agreed.is_ok() && failed[0] == 0 {
            return Ok(mine);
        }
        if let Some(segment) = segment {
            self.context.fabric().deregister(segment)?;
        }
        agreed?;
        let at = failed[0] / radix - 1;
        let rank = self.members()[at as usize];
        let class = ErrorClass::from_code((failed[0] % radix) as i32);
        Err(Error::PeerFailed { rank, class: class.unwrap_or(ErrorClass::Internal) })
    }
}

impl<T: Plain> Window<T> {
    /// Gives the memory back. Every member must do so; no memory goes before all have come.
    #[track_caller]
    pub fn free<'t>(self, team: impl Into<Team<'t>>) -> Result<()> {
        team.into().free_segment(&self.into_segment())
    }
}

impl Words {
    /// Gives the words back. Every member must do so.
    #[track_caller]
    pub fn free<'t>(self, team: impl Into<Team<'t>>) -> Result<()> {
        let team = team.into();
        let mut pool = team.group().pool.borrow_mut();
        let Some(used) = pool.used_by(&self) else {
            return Err(Error::InvalidState(
                "only the team that allocated words can free them".into(),
            ));
        };
        let call = Call::free(self.block.id, self.start as u64 * 8);
        let flushed = team.flush_and_meet(call)?;
        used.fill(false);
        self.tell(team.context(), false);
        team.context().put_own(&self.block, self.start as u64 * 8, &vec![0; self.count * 8])?;
        flushed
    }
}
