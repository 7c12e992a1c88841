//! The shm fabric: ranks of one machine, processes or threads, over memory that all of them map.
//!
//! A [`Job`] is one anonymous file in memory (`memfd`): a header, a block for each rank, slots for
//! calls, tables of segments, and an arena for each rank that its segments are cut from. Nothing
//! outside the job can open it, and it is gone when the last process is. Every process maps all of
//! it once; near operations are plain instructions on that mapping.
//!
//! The fabric of several nodes stands on this one: `nic` asks it for the near half of its work, by
//! [`Surroundings`] (what the handlers of a node reach beyond it), [`Neighbourhood`] (what an agent
//! is given), [`Membership`] and [`Companion`] (what keeps a rank in the job), [`Reach`]
//! (operations on behalf of far ranks) and [`FarAnswer`] (calls of far ranks). That seam is for
//! `nic` alone.
//!
//! - `layout`: what is in the file, and where; `memory`: the file and its mapping; all `unsafe` of
//!   this crate is there and in `bell`'s system call;
//! - `segments`: the tables that name the pieces of arenas;
//! - `peer_state`: which ranks have departed, in which order, and by which cause;
//! - `bell`: how a rank sleeps and is woken;
//! - `waiting`: spin, yield or sleep, as the machine allows;
//! - `arena`: which bytes of a rank's memory are free;
//! - `endpoint`: the [`farside_fabric::Fabric`] itself;
//! - `reach`: what is done to mapped memory, on whosever behalf;
//! - `agent`: the thread that runs handlers, `succession`: whose does, `calls`: who has called;
//! - `machine`: sockets, NUMA nodes, caches and the time, as the system tells them.

mod agent;
mod arena;
mod bell;
mod calls;
mod endpoint;
mod layout;
mod machine;
mod memory;
mod peer_state;
mod reach;
mod segments;
mod succession;
mod waiting;

pub use agent::{FarAnswer, Neighbourhood, Surroundings};
pub use endpoint::{Companion, Endpoint, Membership};
pub use machine::{cores, list, now_ns, topology_of_this_machine};
pub use memory::{Config, Job, RANKS_MAX};
pub use peer_state::{FarLoss, RankLoss, fate_bits, fate_from_bits};
pub use reach::Reach;
