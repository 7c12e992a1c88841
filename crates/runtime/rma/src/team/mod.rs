//! Teams: subsets of the ranks with collectives of their own.

mod collectives;
mod memory;
mod world;

use farside_fabric::{Error, Rank, Result};

use crate::context::Context;
use crate::group::Group;
use crate::group::nodes::Nodes;

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

/// A team made by [`Team::split`], without the borrow of its context: for whoever keeps both in
/// places of its own, as interfaces of other languages do.
pub struct Detached {
    group: Box<Group>,
}

impl Detached {
    pub(crate) fn new(group: Group) -> Detached {
        Detached { group: Box::new(group) }
    }

    /// Returns the team, over the context that it was made by.
    pub fn attach<'w>(&'w self, context: &'w Context) -> Team<'w> {
        Team::borrowed(context, &self.group)
    }

    /// Does what [`Team::free`] does, over the context that the team was made by.
    #[track_caller]
    pub fn free(self, context: &Context) -> Result<()> {
        Team { context, group: Hold::Owned(self.group) }.free()
    }
}

impl<'w> Team<'w> {
    /// Separates a team that was made by [`Team::split`] from its context; [`Detached::attach`]
    /// puts them together again.
    pub fn detach(self) -> Result<Detached> {
        match self.group {
            Hold::Owned(group) => Ok(Detached { group }),
            Hold::Borrowed(_) => {
                Err(Error::InvalidState("only a team that was made by split is detached".into()))
            }
        }
    }

    pub(crate) fn borrowed(context: &'w Context, group: &'w Group) -> Team<'w> {
        Team { context, group: Hold::Borrowed(group) }
    }

    /// Returns the context that its collectives go through.
    pub fn context(&self) -> &'w Context {
        self.context
    }

    pub(crate) fn group(&self) -> &Group {
        match &self.group {
            Hold::Borrowed(group) => group,
            Hold::Owned(group) => group,
        }
    }

    /// Returns the members, in the order of the team.
    pub fn members(&self) -> &[Rank] {
        &self.group().members
    }

    /// Returns the number of members.
    pub fn size(&self) -> usize {
        self.group().members.len()
    }

    /// Returns which of the members this rank is, from 0.
    pub fn index(&self) -> usize {
        self.group().me
    }

    pub(crate) fn position(&self, rank: Rank) -> Result<usize> {
        self.context.topology().check(rank)?;
        self.members()
            .iter()
            .position(|&member| member == rank)
            .ok_or(Error::NotAMember { rank, of: "team" })
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        let group = self.group();
        group.nodes.get_or_init(|| Nodes::new(self.context.topology(), &group.members, group.me))
    }
}

impl<'t, 'w: 't> From<&'t Team<'w>> for Team<'t> {
    fn from(team: &'t Team<'w>) -> Team<'t> {
        Team::borrowed(team.context, team.group())
    }
}
