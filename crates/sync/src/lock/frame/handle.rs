//! Whose handle on a lock this is, and whether all of the lock's members are still there.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use farside_fabric::{Error, ExitCause, Loss, Rank, Result};
use farside_rma::{Context, Team};

use super::Site;

/// One rank's handle on a lock.
pub struct Handle {
    rank: Rank,
    /// How many losses there were when no member was among them.
    losses: Cell<u32>,
}

impl Handle {
    /// The handle of `rank`.
    pub fn new(rank: Rank) -> Handle {
        Handle { rank, losses: Cell::new(0) }
    }

    /// Whose it is.
    #[inline]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Nobody else may use it.
    pub fn check_owner(&self, context: &Context) -> Result<()> {
        if context.rank() == self.rank {
            return Ok(());
        }
        Err(Error::Misuse(format!(
            "{} uses a handle on a lock that belongs to {}",
            context.rank(),
            self.rank
        )))
    }

    /// A lock with a lost member is poisoned. Those who are no members do not matter, so `site` is
    /// asked for them only after a loss.
    #[inline]
    pub fn check_losses<'s>(
        &self,
        context: &Context,
        site: impl FnOnce() -> &'s Site,
    ) -> Result<()> {
        let losses = context.failures().losses.load(Ordering::Relaxed);
        if losses == self.losses.get() {
            Ok(())
        } else {
            self.judge_losses(context, site().members(), losses)
        }
    }

    #[cold]
    fn judge_losses(&self, context: &Context, members: &[Rank], losses: u32) -> Result<()> {
        match context.job().first_loss(members.iter().copied()) {
            Some(Loss { rank, how }) => Err(Error::Poisoned { rank, how }),
            None => {
                self.losses.set(losses);
                Ok(())
            }
        }
    }

    /// That a member was lost means that the lock is poisoned. That it has left in order does not:
    /// it left the lock in order, too.
    #[cold]
    pub fn explain(context: &Context, error: Error, members: &[Rank]) -> Error {
        let is_lost = |&rank: &Rank| context.is_lost(rank);
        match error {
            // A member is named, of whose loss this node may not know yet; or somebody else, whose
            // loss is the cause of a member's.
            Error::RankLost { rank, how }
                if how != ExitCause::Left
                    && (members.contains(&rank) || members.iter().any(is_lost)) =>
            {
                Error::Poisoned { rank, how }
            }
            other => other,
        }
    }

    /// Makes the members that are left agree on a home, and waits until nobody uses the lock any
    /// more. Collective over `survivors`.
    pub fn agree_on_home(
        &self,
        survivors: &Team<'_>,
        site: &Site,
        can_be_home: impl Fn(Rank) -> bool,
    ) -> Result<Rank> {
        let context = survivors.context();
        self.check_owner(context)?;
        let stranger = survivors.members().iter().find(|rank| !site.members().contains(rank));
        if let Some(&rank) = stranger {
            return Err(Error::NotAMember { rank, of: "lock" });
        }
        // What was posted to the lost is lost.
        match context.flush_all() {
            Err(error) if error.lost_rank().is_none() => return Err(error),
            _ => survivors.barrier()?,
        }
        let mut candidates = survivors.members().iter().filter(|&&rank| can_be_home(rank));
        let chosen =
            candidates.clone().find(|&&rank| rank == site.home()).or_else(|| candidates.next());
        // One of them decides: they may have heard of the losses at different times.
        let mut home = [chosen.map_or(u32::MAX, |rank| rank.0)];
        survivors.broadcast(survivors.members()[0], &mut home)?;
        context.topology().check(Rank(home[0]))?;
        context.go_on();
        Ok(Rank(home[0]))
    }
}
