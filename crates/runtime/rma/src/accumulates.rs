//! The accumulates of a context.

use farside_fabric::memory::Contender;
use farside_fabric::{Accumulate, Error, Op, Piece, Rank, Region, Reply, Result, Started};
use zerocopy::IntoBytes;

use crate::context::Context;
use crate::near::Near;
use crate::pending::Transfer;
use crate::place::Place;
use crate::plain::Summand;
use crate::target::{Message, Target, old_elements};

impl Context {
    /// Adds `scale * data` to what is at a place, element by element; accumulates on the same
    /// elements do not disturb each other.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(4, |world| {
    /// let window = world.window::<f64>(2)?;
    /// world.accumulate(0.5, &[2.0, 4.0], window.at(Rank(0), 0))?;
    /// world.sync()?;
    /// assert_eq!(world.get_value(window.at(Rank(0), 1))?, 8.0);
    /// # window.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn accumulate<T: Summand>(&self, scale: T, data: &[T], to: Place<'_, T>) -> Result<()> {
        self.accumulate_posted(&scale.sum()?, data.as_bytes(), to)
    }

    /// Combines `data` with what is at a place, element by element, by any operation that the
    /// elements have; accumulates on the same elements do not disturb each other.
    ///
    /// ```
    /// # use farside::{Op, Rank};
    /// # farside::local(4, |world| {
    /// let window = world.window::<u16>(2)?;
    /// let me = world.rank().0 as u16;
    /// world.accumulate_with(Op::Max, &[me, 7], window.at(Rank(0), 0))?;
    /// world.sync()?;
    /// assert_eq!(world.get_value(window.at(Rank(0), 0))?, 3);
    /// # window.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn accumulate_with<T: Summand>(&self, op: Op, data: &[T], to: Place<'_, T>) -> Result<()> {
        self.accumulate_posted(&Accumulate::new(T::NUMBER, op)?, data.as_bytes(), to)
    }

    /// Combines `data` with what is at a place, and reads what was there before into `old`: each
    /// element is read and changed in one step. `data` and `old` are equally long; for
    /// [`Op::NoOp`], `data` may be empty.
    ///
    /// ```
    /// # use farside::{Op, Rank};
    /// # farside::local(3, |world| {
    /// let window = world.window::<f64>(2)?;
    /// let mut old = [0.0; 2];
    /// world.get_accumulate(Op::Sum, &[1.0, 0.5], window.at(Rank(0), 0), &mut old)?;
    /// assert!(old[0] < 3.0 && old[1] == old[0] / 2.0);
    /// # world.sync()?; window.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn get_accumulate<T: Summand>(
        &self,
        op: Op,
        data: &[T],
        to: Place<'_, T>,
        old: &mut [T],
    ) -> Result<()> {
        let accumulate = Accumulate::new(T::NUMBER, op)?;
        self.get_accumulate_at(&accumulate, data.as_bytes(), to, old.as_mut_bytes())
    }

    /// Combines one element with what is at a place, and returns what was there before.
    ///
    /// It is atomic with accumulates, where [`Context::fetch_add`] and the other atomics are atomic
    /// with each other.
    #[track_caller]
    pub fn get_accumulate_value<T: Summand>(
        &self,
        op: Op,
        value: T,
        at: Place<'_, T>,
    ) -> Result<T> {
        let mut old = T::new_zeroed();
        self.get_accumulate(op, &[value], at, std::slice::from_mut(&mut old))?;
        Ok(old)
    }

    /// Starts a [`Context::get_accumulate`] into all of `old`, which belongs to the transfer until
    /// it is complete. `data` may be reused at once.
    #[track_caller]
    pub fn get_accumulate_nb<T: Summand>(
        &self,
        op: Op,
        data: &[T],
        to: Place<'_, T>,
        mut old: Vec<T>,
    ) -> Result<Transfer<'_, T>> {
        let accumulate = Accumulate::new(T::NUMBER, op)?;
        let (data, bytes) = (data.as_bytes(), old.as_mut_bytes());
        let started = self.start_get_accumulate(&accumulate, data, to, bytes)?;
        Ok(Transfer::of(self, to.rank, started, old))
    }

    #[track_caller]
    pub(crate) fn accumulate_posted<T>(
        &self,
        accumulate: &Accumulate,
        data: &[u8],
        to: Place<'_, T>,
    ) -> Result<()> {
        let bytes = data.len() as u64;
        to.check(bytes)?;
        let message = Message::new(accumulate, data);
        match to.said(self.atomic_target(to.segment, to.rank))? {
            Target::Near(mapped) => {
                self.accumulate_at(self.near(mapped, to.rank), message, to, bytes, None)
            }
            Target::Far(far) => {
                let region = far.block(to.offset, bytes);
                to.said(far.post_accumulate(self, &region, message))?;
                self.tally().accumulate(to.rank, bytes);
                Ok(())
            }
        }
    }

    #[track_caller]
    pub(crate) fn get_accumulate_at<T>(
        &self,
        accumulate: &Accumulate,
        data: &[u8],
        to: Place<'_, T>,
        old: &mut [u8],
    ) -> Result<()> {
        match self.start_get_accumulate(accumulate, data, to, old)? {
            Started::Done(_) => Ok(()),
            started => old_elements(self.finish(started, to.rank)?, old),
        }
    }

    /// Starts an accumulate whose old elements are wanted. If it is done already, they are in
    /// `old`, otherwise they come with its reply.
    #[track_caller]
    pub(crate) fn start_get_accumulate<T>(
        &self,
        accumulate: &Accumulate,
        data: &[u8],
        to: Place<'_, T>,
        old: &mut [u8],
    ) -> Result<Started> {
        let bytes = old.len() as u64;
        to.check(bytes)?;
        let message = Message::new(accumulate, data);
        check_lengths(message, old.len())?;
        match to.said(self.atomic_target(to.segment, to.rank))? {
            Target::Near(mapped) => {
                let near = self.near(mapped, to.rank);
                self.accumulate_at(near, message, to, bytes, Some(&mut *old))?;
                self.note_fetched_bytes(mapped.address(to.offset), old);
                Ok(Started::Done(Reply::None))
            }
            Target::Far(far) => {
                let started = far.start_accumulate(self, &far.block(to.offset, bytes), message);
                let started = to.said(started)?;
                self.tally().accumulate(to.rank, bytes);
                match started {
                    Started::Done(reply) => {
                        old_elements(reply, old)?;
                        Ok(Started::Done(Reply::None))
                    }
                    pending => Ok(pending),
                }
            }
        }
    }

    #[track_caller]
    fn accumulate_at<T>(
        &self,
        near: Near<'_>,
        message: Message<'_>,
        to: Place<'_, T>,
        bytes: u64,
        old: Option<&mut [u8]>,
    ) -> Result<()> {
        let Message { accumulate, bytes: data } = message;
        let piece = Piece { offset: to.offset, bytes };
        let is_done = self.accumulate_near(near, bytes, old.is_some(), |mapped, contender| {
            mapped.accumulate(piece, accumulate, data, old, contender)
        });
        if is_done { Ok(()) } else { Err(refusal(message, to, bytes)) }
    }

    /// Runs an accumulate on near memory as this rank.
    #[inline]
    #[track_caller]
    pub(crate) fn contend<R>(&self, run: impl FnOnce(&mut Contender<'_>) -> R) -> R {
        let mut holder_is_lost = |holder| self.holder_is_lost(holder);
        run(&mut Contender { me: self.rank(), holder_is_lost: &mut holder_is_lost })
    }

    /// Stands in a loop that waits for a short lock of `holder`: lets others run, and says whether
    /// the holder is lost.
    #[track_caller]
    fn holder_is_lost(&self, holder: Rank) -> bool {
        self.fabric().relax();
        self.is_lost(holder)
    }
}

pub(crate) fn check_lengths(message: Message<'_>, old_bytes: usize) -> Result<()> {
    let (left, right) = (message.bytes.len() as u64, old_bytes as u64);
    if left == message.accumulate.message_bytes(right) {
        return Ok(());
    }
    Err(Error::Mismatch { what: "bytes to accumulate and bytes to fetch", left, right })
}

#[cold]
#[track_caller]
fn refusal<T>(message: Message<'_>, to: Place<'_, T>, bytes: u64) -> Error {
    let region = Region::block(to.rank, to.segment.id, to.offset, bytes);
    let fits = to.segment.part(to.rank).and_then(|part| region.check(part.bytes));
    match fits.and_then(|_| message.accumulate.check(&region, message.bytes.len())) {
        Err(error) => to.in_elements(error),
        Ok(()) => Error::Internal(format!("{:?} at {to:?} was refused", message.accumulate)),
    }
}
