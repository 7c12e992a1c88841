//! The ways in which a rank asks for a lock.

use std::time::Duration;

use farside::{Error, Rank, Result, World};

/// How a rank asks for a lock. Rank 0 always waits until it has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Wait,
    /// All but rank 0 take their place, and give it up again unless they have the lock at once;
    /// then they wait.
    GiveUp,
    /// All but rank 0 take their place, and go away unless they have the lock at once.
    WalkAway,
    /// All but rank 0 ask once without waiting; then they wait.
    Try,
    /// All but rank 0 wait as long as anything else happens; then they wait without a limit.
    Patient,
    /// Each rank in one of these ways.
    Mixed,
}

fn style_of(style: Style, rank: Rank) -> Style {
    const ALL: [Style; 5] =
        [Style::Wait, Style::GiveUp, Style::WalkAway, Style::Try, Style::Patient];
    match style {
        _ if rank == Rank(0) => Style::Wait,
        Style::Mixed => ALL[rank.index() % ALL.len()],
        other => other,
    }
}

/// The time to wait.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    None,
    Time(Duration),
    /// Not at all.
    Once,
}

/// Asks once, and again if that was in vain; `None` if the rank has gone away without the lock.
pub(super) fn ask<G>(
    world: &World,
    style: Style,
    request: impl Fn(Limit) -> Result<Option<G>>,
) -> Result<Option<G>> {
    let style = style_of(style, world.rank());
    let first = match style {
        Style::Wait | Style::Mixed => None,
        Style::GiveUp | Style::WalkAway => request(Limit::Time(Duration::ZERO))?,
        Style::Patient => request(Limit::Time(Duration::from_secs(1)))?,
        Style::Try => request(Limit::Once)?,
    };
    match first {
        Some(guard) => Ok(Some(guard)),
        None if style == Style::WalkAway => Ok(None),
        None => request(Limit::None),
    }
}

pub(super) fn in_time<G>(asked: Result<G>) -> Result<Option<G>> {
    match asked {
        Err(Error::TimedOut { .. }) => Ok(None),
        other => other.map(Some),
    }
}
