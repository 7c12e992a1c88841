//! Collectives without types, and teams that come into being without a parent.

use std::sync::Arc;

use farside_fabric::{Error, Rank, Result, SegmentId};

use crate::context::Context;
use crate::group::Group;
use crate::group::area as at;
use crate::group::call::{Call, Kind};
use crate::segment::{Segment, Traffic};
use crate::team::{Detached, Team};

/// Folds all members' data, which is `data.len() / element` elements, and gives every member the
/// same result. `fold` is called with two runs of elements, and folds the second into the first.
///
/// ```
/// farside::local(3, |world| {
///     let mut data = [world.rank().0 as u8; 4];
///     farside::raw::all_reduce(&world.team(), 1, &mut data, |into, from| {
///         into.iter_mut().zip(from).for_each(|(a, b)| *a += b);
///     })?;
///     assert_eq!(data, [3; 4]);
///     Ok(())
/// })
/// .unwrap();
/// ```
pub fn all_reduce(
    team: &Team<'_>,
    element: usize,
    data: &mut [u8],
    mut fold: impl FnMut(&mut [u8], &[u8]),
) -> Result<()> {
    if element == 0 || !data.len().is_multiple_of(element) {
        return Err(Error::InvalidArgument(format!(
            "{} bytes are not a whole number of elements of {element} bytes",
            data.len()
        )));
    }
    team.check_element_bytes(element)?;
    team.all_reduce_bytes(element, data, &mut fold)
}

/// What the members of a team have moved among themselves by one-sided operations, as far as all
/// must agree on it.
#[derive(Debug, Clone, Copy)]
pub enum Moved {
    /// So many bytes of one member to all.
    Broadcast {
        /// Their number.
        bytes: usize,
        /// Whose they are.
        root: Rank,
    },
    /// So many bytes of each member to all.
    AllGather(usize),
    /// So many bytes of each member to each.
    AllToAll(usize),
    /// So many bytes of each, folded in the order of the members.
    Scan(usize),
    /// So many bytes of each, folded.
    AllReduce(usize),
}

/// Returns when every member has called it: a barrier that ends a collective of the caller's own,
/// and fails if the members mean different ones.
#[track_caller]
pub fn barrier_after(team: &Team<'_>, moved: Moved) -> Result<()> {
    let call = match moved {
        Moved::Broadcast { bytes, root } => Call::rooted(Kind::Broadcast, bytes, root),
        Moved::AllGather(bytes) => Call::new(Kind::AllGather, bytes),
        Moved::AllToAll(bytes) => Call::new(Kind::AllToAll, bytes),
        Moved::Scan(bytes) => Call::new(Kind::Scan, bytes),
        Moved::AllReduce(bytes) => Call::new(Kind::AllReduce, bytes),
    };
    team.meet_for(call)
}

/// Returns when every member has called it, at the end of its program: fails if another one makes
/// any other collective call.
#[track_caller]
pub fn barrier_to_leave(team: &Team<'_>) -> Result<()> {
    team.meet_for(Call::LEAVE)
}

/// What the members of a team that is to come into being have in common before.
pub trait Rendezvous {
    /// Gives every member the first member's `word`. Collective among the members.
    fn share(&mut self, word: u64) -> Result<u64>;
    /// Returns when every member has called it, whether all of them are well. One that is not says
    /// why, which the other members are not told.
    fn agree(&mut self, failed: Option<&Error>) -> Result<bool>;
}

/// Makes a team of `members`, in their order, which must be the same for all of them and contain
/// this rank. No other rank takes part: the members find each other by `rendezvous`.
pub fn team_among(
    context: &Context,
    members: &[Rank],
    rendezvous: &mut dyn Rendezvous,
) -> Result<Detached> {
    let leads = members.first() == Some(&context.rank());
    let name = if leads { context.name_segment().map_or(u64::MAX, |name| name.0) } else { 0 };
    let id = match rendezvous.share(name)? {
        u64::MAX => return Err(Error::OutOfNames { rank: members[0] }),
        name => SegmentId(name),
    };
    let bytes = at::area_bytes(members.len() as u32);
    // Who has no memory comes all the same: the others wait for it, and give theirs back.
    let own = Segment::register(context.fabric(), id, bytes, Traffic::Uncounted);
    let agreed = match rendezvous.agree(own.as_ref().err()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::InvalidState("another member has no memory for the team".into())),
        Err(error) => Err(error),
    };
    let own = own?;
    agreed.or_else(|error| context.fabric().deregister(id).and(Err(error)))?;
    let members: Arc<[Rank]> = members.into();
    let area = Segment::open(
        context.fabric(),
        (id, own),
        members,
        Traffic::Uncounted,
        &|_| bytes,
        context.failed_calls().clone(),
    );
    Ok(Detached::new(Group::new(context.fabric(), area)?))
}
