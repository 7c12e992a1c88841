//! One rank's handle on a lock: it checks its owner, and the members for losses.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use farside_fabric::{Error, ExitCause, Loss, Rank, Result};
use farside_rma::{Context, Team};

use super::LockWords;

/// One rank's handle on a lock.
pub struct Handle {
    rank: Rank,
    /// How many losses there were when no member was among them.
    losses: Cell<u32>,
}

impl Handle {
    /// Makes the handle of `rank`.
    pub fn new(rank: Rank) -> Handle {
        Handle { rank, losses: Cell::new(0) }
    }

    /// Returns the rank that owns the handle.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Refuses a context of any rank but the owner.
    pub fn check_owner(&self, context: &Context) -> Result<()> {
        if context.rank() == self.rank {
            return Ok(());
        }
        Err(Error::InvalidState(format!(
            "{} uses a lock handle that belongs to {}",
            context.rank(),
            self.rank
        )))
    }

    #[cold]
    pub(crate) fn not_held(rank: Rank) -> Error {
        Error::InvalidState(format!("{rank} releases a lock that it does not hold"))
    }

    /// Refuses to free a lock that a member still has. Collective over the members.
    pub(crate) fn check_unheld(team: &Team<'_>, is_held: bool) -> Result<()> {
        let held = team.all_gather(&[u8::from(is_held)])?;
        if let Some(at) = held.iter().position(|&held| held != 0) {
            let holder = team.members()[at];
            return Err(Error::InvalidState(format!(
                "a lock cannot be freed while {holder} holds it (its guard was leaked)"
            )));
        }
        Ok(())
    }

    /// Refuses a lock with a lost member: it is poisoned. The members are looked at only after a
    /// loss of any rank.
    #[inline]
    pub fn check_losses<'s>(
        &self,
        context: &Context,
        lock: impl FnOnce() -> &'s LockWords,
    ) -> Result<()> {
        let losses = context.failures().losses.load(Ordering::Relaxed);
        if losses == self.losses.get() {
            Ok(())
        } else {
            self.judge_losses(context, lock().members())
        }
    }

    #[cold]
    fn judge_losses(&self, context: &Context, members: &[Rank]) -> Result<()> {
        // The losses that are counted here are seen below.
        let losses = context.failures().losses.load(Ordering::Acquire);
        match context.loss_among(members.iter().copied()) {
            Some(Loss { rank, how }) => Err(Error::Poisoned { rank, how }),
            None => {
                self.losses.set(losses);
                Ok(())
            }
        }
    }

    /// Turns the loss of a member into a poisoned lock. A member that has left in order has left
    /// the lock in order, too: its departure stays what it is.
    #[cold]
    pub fn explain(context: &Context, error: Error, members: &[Rank]) -> Error {
        let is_lost = |&rank: &Rank| context.is_lost(rank);
        match error {
            // The rank is a member, of whose loss this node may not know yet; or another rank,
            // whose loss is the cause of a member's.
            Error::RankLost { rank, how }
                if how != ExitCause::Left
                    && (members.contains(&rank) || members.iter().any(is_lost)) =>
            {
                Error::Poisoned { rank, how }
            }
            other => other,
        }
    }

    /// Makes the surviving members agree on a home, and waits until none of them uses the lock any
    /// more. Collective over `survivors`.
    pub fn agree_on_home(
        &self,
        survivors: &Team<'_>,
        lock: &LockWords,
        can_be_home: impl Fn(Rank) -> bool,
    ) -> Result<Rank> {
        let context = survivors.context();
        self.check_owner(context)?;
        let stranger = survivors.members().iter().find(|rank| !lock.members().contains(rank));
        if let Some(&rank) = stranger {
            return Err(Error::NotAMember { rank, of: "lock" });
        }
        // What was posted to the lost is lost, and nobody is told of it after the recovery.
        while let Err(error) = context.finish_calls() {
            // That of one call; there may be more.
            error.lost_rank().ok_or(error)?;
        }
        match context.flush_all() {
            Err(error) if error.lost_rank().is_none() => return Err(error),
            _ => survivors.barrier()?,
        }
        let mut candidates = survivors.members().iter().filter(|&&rank| can_be_home(rank));
        let chosen =
            candidates.clone().find(|&&rank| rank == lock.home()).or_else(|| candidates.next());
        // The first survivor decides: they may have heard of the losses at different times.
        let mut home = [chosen.map_or(u32::MAX, |rank| rank.0)];
        survivors.broadcast(survivors.members()[0], &mut home)?;
        context.topology().check(Rank(home[0]))?;
        context.go_on();
        Ok(Rank(home[0]))
    }
}
