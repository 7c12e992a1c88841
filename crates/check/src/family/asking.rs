//! The ways in which a rank asks for a lock.

use std::time::Duration;

use farside::lock::registry::Style;
use farside::{Error, Rank, Result, World};

/// Returns how one rank asks.
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
    /// Without a limit.
    None,
    /// For some time.
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

/// Returns the guard, if the lock was acquired in time.
pub(super) fn in_time<G>(asked: Result<G>) -> Result<Option<G>> {
    match asked {
        Err(Error::TimedOut { .. }) => Ok(None),
        other => other.map(Some),
    }
}
