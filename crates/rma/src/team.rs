//! Teams: subsets of the ranks with collectives of their own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use farside_fabric::{Connection, Error, Rank, Result, SegmentId};
use zerocopy::IntoBytes;

use crate::collective::{Call, Kind, MESSAGE_BYTES, Step, at, central, dissemination, flat, tree};
use crate::context::Context;
use crate::plain::Plain;
use crate::segment::{Segment, Traffic};
use crate::window::Window;
use crate::words::{Pool, Words};

/// A subset of the ranks, with collectives of their own. Every member must make the same collective
/// calls in the same order.
///
/// The [`World`](crate::World) is a team of all ranks. [`Team::split`] makes smaller ones.
pub struct Team<'w> {
    context: &'w Context,
    group: Hold<'w>,
}

enum Hold<'w> {
    Borrowed(&'w Group),
    Owned(Box<Group>),
}

/// What a member knows of its team.
pub(crate) struct Group {
    pub(crate) area: Arc<Segment>,
    pub(crate) members: Arc<[Rank]>,
    /// Which of the members this rank is.
    pub(crate) me: usize,
    /// How many collectives this member has entered.
    pub(crate) sequence: Cell<u32>,
    /// How many times this member has met the others.
    pub(crate) meetings: Cell<u32>,
    /// How many collectives the members that have left had entered, as far as they were asked.
    pub(crate) left: RefCell<BTreeMap<Rank, u32>>,
    /// Messages sent, and received, in each channel.
    pub(crate) sent: Box<[Cell<u32>]>,
    pub(crate) received: Box<[Cell<u32>]>,
    /// Whether all members share memory.
    one_node: bool,
    /// Whether the members on this node outnumber its processors.
    crowded: bool,
    pub(crate) pool: RefCell<Pool>,
}

impl Group {
    pub(crate) fn new(fabric: &dyn Connection, area: Segment) -> Result<Group> {
        let (members, job) = (area.members.clone(), fabric.job());
        let me = members.iter().position(|&rank| rank == job.rank);
        let me = me.ok_or(Error::NotAMember { rank: job.rank, of: "team" })?;
        let one_node = members.iter().all(|&rank| job.topology.same_node(rank, members[0]));
        let crowded = job.is_crowded(members.iter().copied());
        let channels = at::channel(true, members.len().next_power_of_two().ilog2()) as usize + 1;
        Ok(Group {
            area: Arc::new(area),
            members,
            me,
            sequence: Cell::new(0),
            meetings: Cell::new(0),
            left: RefCell::default(),
            sent: vec![Cell::new(0); channels].into(),
            received: vec![Cell::new(0); channels].into(),
            one_node,
            crowded,
            pool: RefCell::default(),
        })
    }
}

impl<'w> Team<'w> {
    pub(crate) fn borrowed(context: &'w Context, group: &'w Group) -> Team<'w> {
        Team { context, group: Hold::Borrowed(group) }
    }

    /// The context that its collectives go through.
    pub fn context(&self) -> &'w Context {
        self.context
    }

    pub(crate) fn group(&self) -> &Group {
        match &self.group {
            Hold::Borrowed(group) => group,
            Hold::Owned(group) => group,
        }
    }

    /// The members, in the order of the team.
    pub fn members(&self) -> &[Rank] {
        &self.group().members
    }

    /// How many members there are.
    pub fn size(&self) -> usize {
        self.group().members.len()
    }

    /// Which of the members this rank is, from 0.
    pub fn index(&self) -> usize {
        self.group().me
    }

    /// Returns when every member has called it. Says nothing about puts: see [`Team::sync`].
    pub fn barrier(&self) -> Result<()> {
        self.meet(&self.enter(Call::BARRIER)?)
    }

    /// Returns when every member has called it and all that any member has put before, to anybody,
    /// has landed.
    pub fn sync(&self) -> Result<()> {
        self.context.flush_all()?;
        self.barrier()
    }

    /// Gives everybody a copy of the root's `data`.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(3, |world| {
    /// let mut data = [world.rank().0; 4];
    /// world.broadcast(Rank(2), &mut data)?;
    /// assert_eq!(data, [2; 4]);
    /// # Ok(()) }).unwrap();
    /// ```
    pub fn broadcast<T: Plain>(&self, root: Rank, data: &mut [T]) -> Result<()> {
        let at = self.position(root)?;
        let data = data.as_mut_bytes();
        let call = Call::rooted(Kind::Broadcast, data.len(), root);
        if self.group().one_node {
            flat::broadcast(self, call, at, data)
        } else {
            tree::broadcast(self, &self.enter(call)?, at, data)
        }
    }

    /// Folds everybody's `data`, element by element, into the root's. What the others' holds
    /// afterwards is unspecified.
    ///
    /// `fold` must be associative; the members' data is folded in an order that depends on nothing
    /// but the team.
    pub fn reduce<T: Plain>(
        &self,
        root: Rank,
        data: &mut [T],
        fold: impl Fn(T, T) -> T,
    ) -> Result<()> {
        let at = self.position(root)?;
        let call = Call::rooted(Kind::Reduce, size_of_val(data), root);
        self.check_element::<T>()?;
        let mut fold = on_bytes(fold);
        if self.group().one_node {
            flat::reduce(self, call, Some(at), size_of::<T>(), data.as_mut_bytes(), &mut fold)
        } else {
            tree::reduce(
                self,
                &self.enter(call)?,
                at,
                size_of::<T>(),
                data.as_mut_bytes(),
                &mut fold,
            )
        }
    }

    /// Folds everybody's `data`, element by element, and gives everybody the same result, bit by
    /// bit.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// let mut data = [f64::from(world.rank().0), 1.0];
    /// world.all_reduce(&mut data, |a, b| a + b)?;
    /// assert_eq!(data, [3.0, 3.0]);
    /// # Ok(()) }).unwrap();
    /// ```
    pub fn all_reduce<T: Plain>(&self, data: &mut [T], fold: impl Fn(T, T) -> T) -> Result<()> {
        let call = Call::new(Kind::AllReduce, size_of_val(data));
        self.check_element::<T>()?;
        let mut fold = on_bytes(fold);
        if self.group().one_node {
            flat::reduce(self, call, None, size_of::<T>(), data.as_mut_bytes(), &mut fold)
        } else {
            let step = self.enter(call)?;
            tree::reduce(self, &step, 0, size_of::<T>(), data.as_mut_bytes(), &mut fold)?;
            tree::broadcast(self, &step, 0, data.as_mut_bytes())
        }
    }

    /// Everybody's `mine`, one after the other, in the order of the team. All must be of one
    /// length.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// assert_eq!(world.all_gather(&[world.rank().0 * 10])?, [0, 10, 20]);
    /// # Ok(()) }).unwrap();
    /// ```
    pub fn all_gather<T: Plain>(&self, mine: &[T]) -> Result<Vec<T>> {
        let call = Call::new(Kind::AllGather, size_of_val(mine));
        let mut all = vec![T::new_zeroed(); mine.len() * self.size()];
        if self.group().one_node {
            flat::all_gather(self, call, mine.as_bytes(), all.as_mut_bytes())?;
        } else {
            tree::all_gather(self, &self.enter(call)?, mine.as_bytes(), all.as_mut_bytes())?;
        }
        Ok(all)
    }

    /// Sends the i-th block of `send` to the i-th member, and returns what the members sent here,
    /// in their order.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// let me = world.rank().0;
    /// assert_eq!(world.all_to_all(&[me * 10, me * 10 + 1, me * 10 + 2])?, [me, 10 + me, 20 + me]);
    /// # Ok(()) }).unwrap();
    /// ```
    pub fn all_to_all<T: Plain>(&self, send: &[T]) -> Result<Vec<T>> {
        if !send.len().is_multiple_of(self.size()) {
            return Err(Error::Misuse(format!(
                "{} elements cannot be dealt out evenly to {} members",
                send.len(),
                self.size()
            )));
        }
        let call = Call::new(Kind::AllToAll, size_of_val(send) / self.size());
        let mut receive = vec![T::new_zeroed(); send.len()];
        if self.group().one_node {
            flat::all_to_all(self, call, send.as_bytes(), receive.as_mut_bytes())?;
        } else {
            tree::all_to_all(self, &self.enter(call)?, send.as_bytes(), receive.as_mut_bytes())?;
        }
        Ok(receive)
    }

    /// Allocates a window: `len` elements on this member; others may choose other lengths.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// let window = world.window::<f64>(10 * world.rank().0 as usize)?;
    /// assert_eq!(window.len(farside::Rank(2))?, 20);
    /// # window.free(&world) }).unwrap();
    /// ```
    pub fn window<T: Plain>(&self, len: usize) -> Result<Window<T>> {
        check_type::<T>()?;
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        Ok(Window::of(Arc::new(self.segment(bytes, size_of::<T>() as u64, Traffic::Counted)?)))
    }

    /// Allocates a window whose traffic does not count as landings ([`Context::count_landings`]):
    /// for protocols that do the counting.
    pub fn uncounted_window<T: Plain>(&self, len: usize) -> Result<Window<T>> {
        check_type::<T>()?;
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        Ok(Window::of(Arc::new(self.segment(bytes, size_of::<T>() as u64, Traffic::Uncounted)?)))
    }

    /// Allocates `count` words on every member, all zero: the raw material of protocols. Many small
    /// allocations share pages.
    pub fn words(&self, count: usize) -> Result<Words> {
        Words::allocate(self, count)
    }

    /// Splits the team: members who say the same `colour` form a new team, ordered by `key`, then
    /// by rank. Who says `None` gets no team.
    ///
    /// ```
    /// # farside::local(5, |world| {
    /// let half = world.split(Some(u64::from(world.rank().0 % 2)), 0)?.unwrap();
    /// let mut sum = [world.rank().0];
    /// half.all_reduce(&mut sum, |a, b| a + b)?;
    /// assert_eq!(sum[0], if world.rank().0 % 2 == 0 { 0 + 2 + 4 } else { 1 + 3 });
    /// # Ok(()) }).unwrap();
    /// ```
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
                return Err(out_of_names(leader));
            }
        }
        self.agree_on_success(
            mine,
            mine.map_or(Ok(()), |id| {
                Segment::register(self.context.fabric(), id, bytes, Traffic::Uncounted)
            }),
        )?;
        let Some(id) = mine else {
            return Ok(None);
        };
        let area =
            Segment::open(self.context.fabric(), id, members, Traffic::Uncounted, &|_| bytes)?;
        let group = Group::new(self.context.fabric(), area)?;
        Ok(Some(Team { context: self.context, group: Hold::Owned(Box::new(group)) }))
    }

    /// Gives back the memory that a team made by [`Team::split`] needs for its collectives. Every
    /// member must do so; its windows must have been freed before.
    pub fn free(self) -> Result<()> {
        match &self.group {
            Hold::Borrowed(_) => Err(Error::Misuse(
                "only a team that was made by split can be freed, by its owner".into(),
            )),
            Hold::Owned(group) => {
                self.context.flush_all()?;
                // Whoever returns from a meeting has got all signals that will ever be sent to it.
                self.meet(&self.enter(Call::free(group.area.id, 0))?)?;
                self.context.fabric().deregister(group.area.id)
            }
        }
    }

    /// The members on this rank's node, as a team.
    pub fn split_by_node(&self) -> Result<Team<'w>> {
        let node = self.context.topology().node_of(self.context.rank());
        let team = self.split(Some(node.0.into()), 0)?;
        team.ok_or_else(|| Error::Misuse("a team of this node has no members".into()))
    }

    /// One meeting of all members, by the barrier that suits them: where they outnumber the
    /// processors, each of them should be woken once; otherwise, messages should be few one after
    /// the other.
    pub(crate) fn meet(&self, step: &Step) -> Result<()> {
        self.group().meetings.set(step.meeting);
        if self.group().one_node && self.group().crowded {
            central::barrier(self, step)
        } else {
            dissemination::barrier(self, step)
        }
    }

    /// A new segment with `bytes` on this member, and `element` bytes for each element on every
    /// member.
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
            return Err(out_of_names(self.members()[0]));
        }
        let (id, fabric) = (SegmentId(name), self.context.fabric());
        self.agree_on_success(Some(id), Segment::register(fabric, id, bytes, traffic))?;
        let lengths = if bytes_min == bytes_max { Vec::new() } else { self.all_gather(&[bytes])? };
        let bytes_of = |at: usize| lengths.get(at).copied().unwrap_or(bytes);
        Segment::open(fabric, id, self.group().members.clone(), traffic, &bytes_of)
    }

    /// What this member, who gives a name, tells the others.
    fn name_segment(&self) -> u64 {
        self.context.name_segment().map_or(NAMED_ALL, |name| name.0)
    }

    /// The members disagree on the type of a window: says with whom.
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

    pub(crate) fn free_segment(&self, segment: &Segment) -> Result<()> {
        if self.members() != &*segment.members {
            return Err(Error::Misuse(
                "a window is freed by the team that allocated it, not by another".into(),
            ));
        }
        // Nobody's memory goes while somebody may still have operations on it under way.
        self.sync_as(Call::free(segment.id, 0))?;
        self.context.fabric().deregister(segment.id)
    }

    /// A [`Team::sync`] that also checks that all members make the same call.
    pub(crate) fn sync_as(&self, call: Call) -> Result<()> {
        self.context.flush_all()?;
        self.meet(&self.enter(call)?)
    }

    /// Tells everybody whether all could expose their part: this rank's error if it has one,
    /// otherwise who failed. In either case nothing is left of the segment.
    fn agree_on_success(&self, segment: Option<SegmentId>, mine: Result<()>) -> Result<()> {
        // One more than the index of the last who failed.
        let mut failed = [if mine.is_err() { self.index() as u64 + 1 } else { 0 }];
        self.all_reduce(&mut failed, u64::max)?;
        mine?;
        let Some(at) = failed[0].checked_sub(1) else {
            return Ok(());
        };
        if let Some(segment) = segment {
            self.context.fabric().deregister(segment)?;
        }
        let rank = self.members()[at as usize];
        Err(Error::Misuse(format!("{rank} could not allocate its part; its own error says why")))
    }

    fn position(&self, rank: Rank) -> Result<usize> {
        self.context.topology().check(rank)?;
        self.members()
            .iter()
            .position(|&member| member == rank)
            .ok_or(Error::NotAMember { rank, of: "team" })
    }

    /// An element of a reduction must fit into one message.
    fn check_element<T>(&self) -> Result<()> {
        match size_of::<T>() as u64 {
            0 => Err(Error::Unsupported { what: "a reduction of elements without size".into() }),
            value if value > MESSAGE_BYTES => Err(Error::TooMuch {
                what: "bytes of an element of a reduction",
                value,
                limit: MESSAGE_BYTES,
            }),
            _ => Ok(()),
        }
    }
}

impl<'t, 'w: 't> From<&'t Team<'w>> for Team<'t> {
    fn from(team: &'t Team<'w>) -> Team<'t> {
        Team::borrowed(team.context, team.group())
    }
}

/// What a member who gives no name says in place of one, and one who has given all that it has: no
/// segment is called so.
const NAMELESS: u64 = 0;
const NAMED_ALL: u64 = u64::MAX;

/// Names are never used twice, so that an address that outlived its window is recognised.
fn out_of_names(rank: Rank) -> Error {
    Error::Misuse(format!(
        "{rank} has named {} windows, blocks of words and teams in this job, and has no name left: \
         keep windows and use them \
         again instead of allocating new ones, or let another rank be the first of the team",
        u32::MAX
    ))
}

/// Which types a window can hold: those with a size, and aligned to no more than a page.
pub(crate) fn check_type<T>() -> Result<()> {
    if size_of::<T>() == 0 {
        return Err(Error::Unsupported { what: "a window of elements without size".into() });
    }
    if align_of::<T>() > 4096 {
        return Err(Error::Unsupported {
            what: format!("a window of elements aligned to {} bytes", align_of::<T>()),
        });
    }
    Ok(())
}

/// Turns a fold of elements into one of bytes.
fn on_bytes<T: Plain>(fold: impl Fn(T, T) -> T) -> impl FnMut(&mut [u8], &[u8]) {
    move |into, from| {
        let size = size_of::<T>();
        for (into, from) in into.chunks_exact_mut(size).zip(from.chunks_exact(size)) {
            let element =
                |bytes: &[u8]| T::read_from_bytes(bytes).expect("a chunk is as long as an element");
            into.copy_from_slice(fold(element(into), element(from)).as_bytes());
        }
    }
}
