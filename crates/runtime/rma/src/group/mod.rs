//! Groups: the members of a team or job, the shapes that their messages follow, their barriers.
//!
//! Every member has an *area* (`area.rs`), laid out alike everywhere. A collective begins by
//! writing down, in the own area, what it is (`call.rs`) and its number in the group's history.
//! Messages carry a digest of the call, so that a member whose neighbour makes another call notices
//! at once; a member that waits for long looks at what the others have written down. The one that
//! notices *poisons* the group: all members' waits, now and later, end with an error that names the
//! member and its call (`member.rs`).
//!
//! [`dissemination`], [`parent`] and [`children`] give the partners of a member; every protocol of
//! this workspace that goes around a ring or along a binomial tree takes them from here.

pub(crate) mod area;
pub(crate) mod barrier;
pub(crate) mod call;
pub(crate) mod kinds;
pub(crate) mod member;
pub(crate) mod nodes;
mod shape;
#[doc(hidden)]
pub mod steps;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use farside_fabric::{Connection, Error, Rank, Result};

pub use kinds::{BarrierKind, SyncKind};
pub use shape::{Edge, Exchange, children, dissemination, is_below, neighbour, parent, rounds};

use crate::segment::Segment;
use crate::words::Pool;
use call::Started;
use nodes::Nodes;

pub(crate) struct Group {
    pub(crate) area: Arc<Segment>,
    pub(crate) members: Arc<[Rank]>,
    /// Which of the members this rank is.
    pub(crate) me: usize,
    /// How many collectives this member has entered.
    pub(crate) sequence: Cell<u32>,
    pub(crate) meetings: Cell<u32>,
    /// How many collectives the members that have left had entered, as far as they were asked.
    pub(crate) left: RefCell<BTreeMap<Rank, Option<u32>>>,
    /// Messages sent, and received, in each channel.
    pub(crate) sent: Box<[Cell<u32>]>,
    pub(crate) received: Box<[Cell<u32>]>,
    pub(crate) one_node: bool,
    /// Whether the members on this node outnumber its processors.
    pub(crate) crowded: bool,
    pub(crate) pool: RefCell<Pool>,
    /// Made when first needed: the nodes, and the memory of the combined fence and barrier (`None`
    /// where it does not apply).
    pub(crate) nodes: OnceCell<Nodes>,
    pub(crate) messages: OnceCell<Option<Messages>>,
    /// Room for long collectives across nodes, from the first one on.
    pub(crate) exposed: RefCell<Option<Arc<Segment>>>,
    /// How many non-blocking collectives this member has started, the last in each place, and how
    /// many have a handle that was neither waited for nor dropped.
    pub(crate) started: Cell<u32>,
    pub(crate) places: [RefCell<Option<Started>>; area::PLACES as usize],
    pub(crate) under_way: Cell<u32>,
    /// The buffer in which parts are packed, so that collectives need not allocate.
    pub(crate) buffer: RefCell<Vec<u8>>,
    /// How many combined fences and barriers this member has made.
    pub(crate) syncs: Cell<u32>,
}

/// The memory of a group's combined fence and barrier.
pub(crate) struct Messages {
    pub(crate) segment: Segment,
    /// How much this rank had posted to each node when it last synchronized.
    pub(crate) issued_last: RefCell<Box<[u64]>>,
}

impl Group {
    pub(crate) fn new(fabric: &dyn Connection, area: Segment) -> Result<Group> {
        let (members, job) = (area.members.clone(), fabric.job());
        // In the team of all ranks everybody is where its number says.
        let me = match members.get(job.rank.index()) {
            Some(&rank) if rank == job.rank => Some(job.rank.index()),
            _ => members.iter().position(|&rank| rank == job.rank),
        };
        let me = me.ok_or(Error::NotAMember { rank: job.rank, of: "team" })?;
        let one_node = members.iter().all(|&rank| job.topology.same_node(rank, members[0]));
        let crowded = job.is_crowded(members.iter().copied());
        let channels = area::channel(true, rounds(members.len())) as usize + 1;
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
            nodes: OnceCell::new(),
            messages: OnceCell::new(),
            exposed: RefCell::default(),
            started: Cell::new(0),
            places: [const { RefCell::new(None) }; area::PLACES as usize],
            under_way: Cell::new(0),
            buffer: RefCell::default(),
            syncs: Cell::new(0),
        })
    }

    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }
}
