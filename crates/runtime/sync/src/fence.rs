//! Fences that return when everything has landed: by acknowledgement, or by request for
//! confirmation.
//!
//! Paper:     \[ARMCI03\] section 3.1.1 and 3.1.2: the two ways to a fence, and all-fence as a loop
//!            over all servers.
//! Differs:   the request for confirmation is an atomic that a fence orders behind what was put:
//!            its reply comes from the agent or interface that carried out the puts.
//! State:     1 word on every rank, which is only read (confirmation).
//! Invariant: when a fence on a rank returns, all that this context posted to it has landed.
//! Ordering:  the request comes after the puts (`a_confirmation_without_fence_is_caught`).
//! Cost:      acknowledged: no message of its own. Confirmed: 1 atomic for each rank, one after the
//!            other: 2 (N - 1) latencies for all.
//! Checked:   2 ranks and 3 ranks exhaustively, each against the other's puts.

use farside_fabric::{Rank, Result};
use farside_rma::group::steps;
use farside_rma::{Context, Team, Words, World};

/// How a fence learns that puts have landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Wait for the acknowledgements of the fabric.
    Acknowledged,
    /// Ask each target, and wait for its answer.
    Confirmed,
}

impl Style {
    /// Returns its name, as benchmarks spell it.
    pub fn name(self) -> &'static str {
        match self {
            Style::Acknowledged => "acknowledged",
            Style::Confirmed => "confirmed",
        }
    }
}

/// Fences of one job. Collective to make and to free.
///
/// ```
/// use farside::fence::{Fences, Style};
/// use farside::Rank;
///
/// farside::local(3, |world| {
///     let (fences, window) = (Fences::new(world)?, world.window::<u64>(3)?);
///     for style in [Style::Acknowledged, Style::Confirmed] {
///         for peer in world.ranks() {
///             world.put_value(1, window.at(peer, world.rank().index()))?;
///         }
///         // Rank 2 is told that rank 0's memory has it all; then the rest.
///         fences.fence(world, style, Rank(0))?;
///         fences.all_fence(world, style)?;
///         world.barrier()?;
///         assert_eq!(window.own().to_vec()?, [1, 1, 1]);
///     }
///     window.free(world)?;
///     fences.free(world)
/// })
/// .unwrap();
/// ```
#[must_use = "fences that are dropped without `free` keep their memory until the job ends"]
pub struct Fences {
    words: Words,
}

impl Fences {
    /// Prepares fences for all ranks.
    pub fn new(world: &World) -> Result<Fences> {
        Ok(Fences { words: world.team().protocol_words(1)? })
    }

    /// Returns when all that this context posted to `peer` has landed.
    pub fn fence(&self, context: &Context, style: Style, peer: Rank) -> Result<()> {
        match style {
            Style::Acknowledged => context.flush(peer),
            Style::Confirmed => {
                if !context.omits(steps::ORDER) {
                    context.fence()?;
                }
                context.load(self.words.at(peer, 0)).map(drop)
            }
        }
    }

    /// Returns when all that this context posted to any rank has landed: the linear loop over all
    /// ranks that the combined fence and barrier replaced.
    pub fn all_fence(&self, context: &Context, style: Style) -> Result<()> {
        context
            .ranks()
            .filter(|&peer| peer != context.rank())
            .try_for_each(|peer| self.fence(context, style, peer))?;
        context.flush(context.rank())
    }

    /// Gives the memory back.
    pub fn free<'t>(self, team: impl Into<Team<'t>>) -> Result<()> {
        self.words.free(team)
    }
}
