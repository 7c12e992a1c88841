//! The collectives of a team.

use farside_fabric::{Error, Rank, Result};
use zerocopy::IntoBytes;

use super::Team;
use crate::collective::nonblocking::{self, PendingBarrier, PendingReduce};
use crate::collective::{exposed, flat, tree, unequal};
use crate::group::area::ELEMENT_BYTES;
use crate::group::barrier::{self, combined};
use crate::group::call::{Call, Kind};
use crate::group::{BarrierKind, SyncKind};
use crate::numeric::Numeric;
use crate::plain::Plain;

/// Collectives. All members make the same calls, in the same order.
impl Team<'_> {
    /// Returns when every member has called it. Says nothing about puts: see [`Team::sync`].
    ///
    /// This is `MPI_Barrier` and `shmem_sync_all`, not `shmem_barrier_all`.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.meet_for(Call::BARRIER)
    }

    /// Like [`Team::barrier`], by a chosen algorithm; all members choose the same.
    ///
    /// ```
    /// use farside::BarrierKind;
    ///
    /// # farside::local(3, |world| {
    /// for kind in BarrierKind::ALL {
    ///     world.barrier_by(kind)?;
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn barrier_by(&self, kind: BarrierKind) -> Result<()> {
        let step = self.enter(Call::barrier(kind))?;
        self.told(barrier::meet(self, &step, kind))
    }

    /// Returns when every member has called it and all that any member has put before, to any rank,
    /// has landed.
    ///
    /// This is `GA_Sync` and `shmem_barrier_all`, not `shmem_sync_all`.
    ///
    /// In a team of all ranks, over a fabric that counts what lands, that is the combined fence and
    /// barrier of \[ARMCI03\]: no member waits for acknowledgements from other nodes. Elsewhere it
    /// is [`Context::flush_all`](crate::Context::flush_all) and [`Team::barrier`].
    ///
    /// ```
    /// # farside::local(4, |world| {
    /// let window = world.window::<u64>(4)?;
    /// for peer in world.ranks() {
    ///     world.put_value(7, window.at(peer, world.rank().index()))?;
    /// }
    /// world.sync()?;
    /// assert_eq!(window.own().to_vec()?, [7; 4]);
    /// # window.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn sync(&self) -> Result<()> {
        self.sync_by(SyncKind::Auto)
    }

    /// Like [`Team::sync`], in a chosen way; members need not choose the same.
    #[track_caller]
    pub fn sync_by(&self, kind: SyncKind) -> Result<()> {
        self.told(combined::sync(self, kind))?
    }

    /// Gives every member a copy of the root's `data`.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(3, |world| {
    /// let mut data = [world.rank().0; 4];
    /// world.broadcast(Rank(2), &mut data)?;
    /// assert_eq!(data, [2; 4]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn broadcast<T: Plain>(&self, root: Rank, data: &mut [T]) -> Result<()> {
        let at = self.position(root)?;
        let data = data.as_mut_bytes();
        let call = Call::rooted(Kind::Broadcast, data.len(), root);
        self.told(if self.group().one_node {
            flat::broadcast(self, call, at, data)
        } else {
            tree::broadcast(self, &self.enter(call)?, at, data)
        })
    }

    /// Folds all members' `data`, element by element, into the root's. What that of the others
    /// holds afterwards is unspecified.
    ///
    /// `fold` must be associative and need not commute: the members' data is folded in the order
    /// of the team. Which parts are folded first depends on the length, and on the nodes: sums of
    /// floating-point numbers may differ in their last bits between those.
    #[track_caller]
    pub fn reduce<T: Plain>(
        &self,
        root: Rank,
        data: &mut [T],
        fold: impl Fn(T, T) -> T,
    ) -> Result<()> {
        let at = self.position(root)?;
        let call = Call::rooted(Kind::Reduce, size_of_val(data), root);
        self.check_element::<T>()?;
        let mut fold = on_bytes(fold);
        self.told(if self.group().one_node {
            flat::reduce(self, call, Some(at), size_of::<T>(), data.as_mut_bytes(), &mut fold)
        } else {
            tree::reduce(
                self,
                &self.enter(call)?,
                at,
                size_of::<T>(),
                data.as_mut_bytes(),
                &mut fold,
            )
        })
    }

    /// Folds all members' `data`, element by element, in the order of the team, and gives every
    /// member the same result, bit by bit. What [`Team::reduce`] says of `fold` holds here, too.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// let mut data = [f64::from(world.rank().0), 1.0];
    /// world.all_reduce(&mut data, |a, b| a + b)?;
    /// assert_eq!(data, [3.0, 3.0]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn all_reduce<T: Plain>(&self, data: &mut [T], fold: impl Fn(T, T) -> T) -> Result<()> {
        self.check_element::<T>()?;
        self.all_reduce_bytes(size_of::<T>(), data.as_mut_bytes(), &mut on_bytes(fold))
    }

    #[track_caller]
    pub(crate) fn all_reduce_bytes(
        &self,
        element: usize,
        data: &mut [u8],
        fold: &mut dyn FnMut(&mut [u8], &[u8]),
    ) -> Result<()> {
        let call = Call::new(Kind::AllReduce, data.len());
        if self.group().one_node {
            self.told(flat::reduce(self, call, None, element, data, fold))
        } else if data.len() >= exposed::BYTES_MIN {
            exposed::all_reduce(self, call, element, data, fold)
        } else {
            let step = self.enter(call)?;
            self.told(
                tree::reduce(self, &step, 0, element, data, fold)
                    .and_then(|()| tree::broadcast(self, &step, 0, data)),
            )
        }
    }

    /// Returns every member's `mine`, one after the other, in the order of the team. All must be of
    /// one length.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// assert_eq!(world.all_gather(&[world.rank().0 * 10])?, [0, 10, 20]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn all_gather<T: Plain>(&self, mine: &[T]) -> Result<Vec<T>> {
        let mut all = vec![T::new_zeroed(); mine.len() * self.size()];
        self.all_gather_into(mine, &mut all)?;
        Ok(all)
    }

    /// Like [`Team::all_gather`], into `all`, which has room for all members' parts.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// let mut all = [0; 3];
    /// world.all_gather_into(&[world.rank().0 * 10], &mut all)?;
    /// assert_eq!(all, [0, 10, 20]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn all_gather_into<T: Plain>(&self, mine: &[T], all: &mut [T]) -> Result<()> {
        if all.len() != mine.len() * self.size() {
            return Err(Error::InvalidArgument(format!(
                "{} members give {} elements each, but there is room for {} in all",
                self.size(),
                mine.len(),
                all.len()
            )));
        }
        let call = Call::new(Kind::AllGather, size_of_val(mine));
        if self.group().one_node {
            self.told(flat::all_gather(self, call, mine.as_bytes(), all.as_mut_bytes()))
        } else if size_of_val(all) >= exposed::BYTES_MIN {
            exposed::all_gather(self, call, mine.as_bytes(), all.as_mut_bytes())
        } else {
            let step = self.enter(call)?;
            self.told(tree::all_gather(self, &step, mine.as_bytes(), all.as_mut_bytes()))
        }
    }

    /// Sends the i-th block of `send` to the i-th member, and returns what the members sent here,
    /// in their order.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// let me = world.rank().0;
    /// assert_eq!(world.all_to_all(&[me * 10, me * 10 + 1, me * 10 + 2])?, [me, 10 + me, 20 + me]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn all_to_all<T: Plain>(&self, send: &[T]) -> Result<Vec<T>> {
        let mut receive = vec![T::new_zeroed(); send.len()];
        self.all_to_all_into(send, &mut receive)?;
        Ok(receive)
    }

    /// Like [`Team::all_to_all`], into `receive`, which is as long as `send`.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// let (me, mut receive) = (world.rank().0, [0; 3]);
    /// world.all_to_all_into(&[me * 10, me * 10 + 1, me * 10 + 2], &mut receive)?;
    /// assert_eq!(receive, [me, 10 + me, 20 + me]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn all_to_all_into<T: Plain>(&self, send: &[T], receive: &mut [T]) -> Result<()> {
        if !send.len().is_multiple_of(self.size()) {
            return Err(Error::InvalidArgument(format!(
                "{} elements cannot be divided evenly among {} members: use all_to_all_v",
                send.len(),
                self.size()
            )));
        }
        if send.len() != receive.len() {
            return Err(Error::InvalidArgument(format!(
                "an all-to-all of {} elements into a buffer of {}: both must have the same length",
                send.len(),
                receive.len()
            )));
        }
        let call = Call::new(Kind::AllToAll, size_of_val(send) / self.size());
        if self.group().one_node {
            self.told(flat::all_to_all(self, call, send.as_bytes(), receive.as_mut_bytes()))
        } else if size_of_val(send) >= exposed::BYTES_MIN {
            exposed::all_to_all(self, call, send.as_bytes(), receive.as_mut_bytes())
        } else {
            let step = self.enter(call)?;
            self.told(tree::all_to_all(self, &step, send.as_bytes(), receive.as_mut_bytes()))
        }
    }

    /// Sends the i-th part to the i-th member, and returns what the members sent here, in their
    /// order. Parts may be of any lengths.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// // Each rank sends its number once to rank 0, twice to rank 1, three times to rank 2.
    /// let me = world.rank().0;
    /// let parts = [&[me][..], &[me, me], &[me, me, me]];
    /// let times = me as usize + 1;
    /// assert_eq!(world.all_to_all_v(&parts)?, [vec![0; times], vec![1; times], vec![2; times]]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn all_to_all_v<T: Plain>(&self, parts: &[&[T]]) -> Result<Vec<Vec<T>>> {
        let counts: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let (mut receive, mut received) = (Vec::new(), vec![0; self.size()]);
        self.all_to_all_v_into(&parts.concat(), &counts, &mut receive, &mut received)?;
        let mut rest = receive.as_slice();
        let take = |&count: &usize| {
            let (part, others) = rest.split_at(count);
            rest = others;
            part.to_vec()
        };
        Ok(received.iter().map(take).collect())
    }

    /// Like [`Team::all_to_all_v`], with the parts one after the other: member i gets `counts[i]`
    /// elements of `send`. What the members sent here replaces what `receive` holds, and how much
    /// each has sent, what `received` does.
    ///
    /// ```
    /// # farside::local(2, |world| {
    /// let me = world.rank().0;
    /// let (mut receive, mut received) = (Vec::new(), [0; 2]);
    /// world.all_to_all_v_into(&[me; 3], &[1, 2], &mut receive, &mut received)?;
    /// let times = me as usize + 1;
    /// assert_eq!((received, receive.len()), ([times; 2], 2 * times));
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn all_to_all_v_into<T: Plain>(
        &self,
        send: &[T],
        counts: &[usize],
        receive: &mut Vec<T>,
        received: &mut [usize],
    ) -> Result<()> {
        crate::window::check_type::<T>()?;
        unequal::all_to_all(self, send, counts, receive, received)
    }

    /// Replaces each member's `data` by the fold, element by element, of that of all members up to
    /// and including it, in the order of the team.
    ///
    /// ```
    /// # farside::local(4, |world| {
    /// let mut data = [world.rank().0 + 1];
    /// world.scan(&mut data, |a, b| a + b)?;
    /// assert_eq!(data[0], [1, 3, 6, 10][world.rank().index()]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn scan<T: Plain>(&self, data: &mut [T], fold: impl Fn(T, T) -> T) -> Result<()> {
        self.scan_by(Call::new(Kind::Scan, size_of_val(data)), data, fold)
    }

    /// Replaces each member's `data` by the fold, element by element, of that of all members before
    /// it; the first member gets `identity`.
    ///
    /// ```
    /// # farside::local(4, |world| {
    /// // Where each rank's part begins in what all have.
    /// let mut start = [10 * u64::from(world.rank().0)];
    /// world.exclusive_scan(&mut start, 0, |a, b| a + b)?;
    /// assert_eq!(start[0], [0, 0, 10, 30][world.rank().index()]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn exclusive_scan<T: Plain>(
        &self,
        data: &mut [T],
        identity: T,
        fold: impl Fn(T, T) -> T,
    ) -> Result<()> {
        self.scan_by(Call::new(Kind::ExclusiveScan, size_of_val(data)), data, fold)?;
        if self.index() == 0 {
            data.fill(identity);
        }
        Ok(())
    }

    #[track_caller]
    fn scan_by<T: Plain>(
        &self,
        call: Call,
        data: &mut [T],
        fold: impl Fn(T, T) -> T,
    ) -> Result<()> {
        self.check_element::<T>()?;
        let mut fold = on_bytes(fold);
        self.told(if self.group().one_node {
            flat::scan(self, call, size_of::<T>(), data.as_mut_bytes(), &mut fold)
        } else {
            let step = self.enter(call)?;
            tree::scan(self, &step, size_of::<T>(), data.as_mut_bytes(), &mut fold)
        })
    }

    /// Gives every member the sum of all members' `data`, element by element. Integers wrap.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// let mut data = [1u64, u64::from(world.rank().0)];
    /// world.all_sum(&mut data)?;
    /// assert_eq!(data, [3, 3]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn all_sum<T: Numeric>(&self, data: &mut [T]) -> Result<()> {
        self.all_reduce(data, T::plus)
    }

    /// Gives every member the least of all members' `data`, element by element.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// let mut data = [world.rank().0];
    /// world.all_min(&mut data)?;
    /// assert_eq!(data, [0]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn all_min<T: Numeric>(&self, data: &mut [T]) -> Result<()> {
        self.all_reduce(data, T::lesser)
    }

    /// Gives every member the greatest of all members' `data`, element by element.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// let mut data = [world.rank().0];
    /// world.all_max(&mut data)?;
    /// assert_eq!(data, [2]);
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn all_max<T: Numeric>(&self, data: &mut [T]) -> Result<()> {
        self.all_reduce(data, T::greater)
    }

    /// Starts a barrier: it is over when all members have started it.
    ///
    /// The call waits for one atomic, not for the other members, and what others need of this one
    /// is done when it returns: the handle may be tested, waited for or dropped, and between times
    /// any other operation or collective made. A team can have 8 non-blocking collectives under
    /// way, whose handles were neither waited for nor dropped; one more is [`Error::TooMuch`]. To
    /// start a collective waits, if need be, until the one 8 before it is over.
    ///
    /// ```
    /// # farside::local(3, |world| {
    /// let mut barrier = world.barrier_nb()?;
    /// let mut computed = 0;
    /// while !barrier.test()? {
    ///     computed += 1; // … while others are on their way
    /// }
    /// # Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn barrier_nb(&self) -> Result<PendingBarrier<'_>> {
        nonblocking::barrier(Team::from(self))
    }

    /// Starts an all-reduce of 4 KiB at most; every member gets the same result, bit by bit. See
    /// [`Team::barrier_nb`].
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(3, |world| {
    /// let window = world.window::<f64>(3)?;
    /// let norm = world.all_reduce_nb(&[1.5], |a, b| a + b)?;
    /// // One-sided operations go on meanwhile.
    /// world.put_value(1.0, window.at(Rank(0), world.rank().index()))?;
    /// assert_eq!(norm.wait()?, [4.5]);
    /// # window.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn all_reduce_nb<T: Plain>(
        &self,
        data: &[T],
        fold: impl Fn(T, T) -> T,
    ) -> Result<PendingReduce<'_, T>> {
        Team::from(self).into_all_reduce_nb(data, fold)
    }

    /// An element of a reduction must fit into one message, with others.
    fn check_element<T>(&self) -> Result<()> {
        self.check_element_bytes(size_of::<T>())
    }

    pub(crate) fn check_element_bytes(&self, bytes: usize) -> Result<()> {
        match bytes as u64 {
            0 => Err(Error::Unsupported { what: "a reduction of zero-sized elements".into() }),
            value if value > ELEMENT_BYTES => Err(Error::TooMuch {
                what: "bytes of an element of a reduction",
                value,
                limit: ELEMENT_BYTES,
            }),
            _ => Ok(()),
        }
    }
}

impl<'w> Team<'w> {
    /// Starts a [`Team::barrier_nb`] whose handle keeps the team.
    #[track_caller]
    pub fn into_barrier_nb(self) -> Result<PendingBarrier<'w>> {
        nonblocking::barrier(self)
    }

    /// Starts a [`Team::all_reduce_nb`] whose handle keeps the team.
    #[track_caller]
    pub fn into_all_reduce_nb<T: Plain>(
        self,
        data: &[T],
        fold: impl Fn(T, T) -> T,
    ) -> Result<PendingReduce<'w, T>> {
        self.check_element::<T>()?;
        let call = Call::new(Kind::AllReduceNb, size_of_val(data));
        nonblocking::all_reduce(self, call, data, &mut on_bytes(fold))
    }
}

fn on_bytes<T: Plain>(fold: impl Fn(T, T) -> T) -> impl FnMut(&mut [u8], &[u8]) {
    move |into, from| {
        let size = size_of::<T>();
        for (into, from) in into.chunks_exact_mut(size).zip(from.chunks_exact(size)) {
            let element =
                |bytes: &[u8]| T::read_from_bytes(bytes).expect("a chunk is as long as an element");
            into.copy_from_slice(fold(element(into), element(from)).as_bytes());
        }
    }
}
