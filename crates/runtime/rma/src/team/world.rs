//! The collectives of all ranks, as methods of the world.

use farside_fabric::Result;

use crate::collective::nonblocking::{PendingBarrier, PendingReduce};
use crate::numeric::Numeric;
use crate::plain::Plain;
use crate::world::World;

impl World {
    /// See [`Team::all_gather_into`](crate::Team::all_gather_into).
    #[track_caller]
    pub fn all_gather_into<T: Plain>(&self, mine: &[T], all: &mut [T]) -> Result<()> {
        self.team().all_gather_into(mine, all)
    }

    /// See [`Team::all_to_all_into`](crate::Team::all_to_all_into).
    #[track_caller]
    pub fn all_to_all_into<T: Plain>(&self, send: &[T], receive: &mut [T]) -> Result<()> {
        self.team().all_to_all_into(send, receive)
    }

    /// See [`Team::all_to_all_v`](crate::Team::all_to_all_v).
    #[track_caller]
    pub fn all_to_all_v<T: Plain>(&self, parts: &[&[T]]) -> Result<Vec<Vec<T>>> {
        self.team().all_to_all_v(parts)
    }

    /// See [`Team::all_to_all_v_into`](crate::Team::all_to_all_v_into).
    #[track_caller]
    pub fn all_to_all_v_into<T: Plain>(
        &self,
        send: &[T],
        counts: &[usize],
        receive: &mut Vec<T>,
        received: &mut [usize],
    ) -> Result<()> {
        self.team().all_to_all_v_into(send, counts, receive, received)
    }

    /// See [`Team::scan`](crate::Team::scan).
    #[track_caller]
    pub fn scan<T: Plain>(&self, data: &mut [T], fold: impl Fn(T, T) -> T) -> Result<()> {
        self.team().scan(data, fold)
    }

    /// See [`Team::exclusive_scan`](crate::Team::exclusive_scan).
    #[track_caller]
    pub fn exclusive_scan<T: Plain>(
        &self,
        data: &mut [T],
        identity: T,
        fold: impl Fn(T, T) -> T,
    ) -> Result<()> {
        self.team().exclusive_scan(data, identity, fold)
    }

    /// See [`Team::all_sum`](crate::Team::all_sum).
    #[track_caller]
    pub fn all_sum<T: Numeric>(&self, data: &mut [T]) -> Result<()> {
        self.team().all_sum(data)
    }

    /// See [`Team::all_min`](crate::Team::all_min).
    #[track_caller]
    pub fn all_min<T: Numeric>(&self, data: &mut [T]) -> Result<()> {
        self.team().all_min(data)
    }

    /// See [`Team::all_max`](crate::Team::all_max).
    #[track_caller]
    pub fn all_max<T: Numeric>(&self, data: &mut [T]) -> Result<()> {
        self.team().all_max(data)
    }

    /// See [`Team::barrier_nb`](crate::Team::barrier_nb).
    #[track_caller]
    pub fn barrier_nb(&self) -> Result<PendingBarrier<'_>> {
        self.team().into_barrier_nb()
    }

    /// See [`Team::all_reduce_nb`](crate::Team::all_reduce_nb).
    #[track_caller]
    pub fn all_reduce_nb<T: Plain>(
        &self,
        data: &[T],
        fold: impl Fn(T, T) -> T,
    ) -> Result<PendingReduce<'_, T>> {
        self.team().into_all_reduce_nb(data, fold)
    }
}
