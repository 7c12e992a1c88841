//! Transfers of elements in one piece, with and without a signal behind them.

use farside_fabric::{Atomic, Error, Result};
use zerocopy::IntoBytes;

use crate::context::Context;
use crate::operations::SignalAt;
use crate::place::Place;
use crate::plain::{Integer, Plain};

impl Context {
    /// Writes `data` to a place. Returns as soon as `data` may be reused; [`Context::flush`] tells
    /// when it has landed.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(2, |world| {
    /// let window = world.window::<f64>(100)?;
    /// if world.rank() == Rank(0) {
    ///     world.put(&[1.0, 2.0, 3.0], window.at(Rank(1), 10))?;
    /// }
    /// world.sync()?;
    /// assert_eq!(world.get_value(window.at(Rank(1), 12))?, 3.0);
    /// # window.free(world) }).unwrap();
    /// ```
    #[inline]
    #[track_caller]
    pub fn put<T: Plain>(&self, data: &[T], to: Place<'_, T>) -> Result<()> {
        let bytes = data.as_bytes();
        to.check(bytes.len() as u64)?;
        to.said(self.put_at(to.segment, to.rank, to.offset, bytes))
    }

    /// Writes one element.
    #[inline]
    #[track_caller]
    pub fn put_value<T: Plain>(&self, value: T, to: Place<'_, T>) -> Result<()> {
        self.put(std::slice::from_ref(&value), to)
    }

    /// Reads from a place into `into`.
    #[inline]
    #[track_caller]
    pub fn get<T: Plain>(&self, from: Place<'_, T>, into: &mut [T]) -> Result<()> {
        let bytes = into.as_mut_bytes();
        from.check(bytes.len() as u64)?;
        from.said(self.get_at(from.segment, from.rank, from.offset, bytes))
    }

    /// Reads one element.
    #[inline]
    #[track_caller]
    pub fn get_value<T: Plain>(&self, from: Place<'_, T>) -> Result<T> {
        let mut value = T::new_zeroed();
        self.get(from, std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Writes `data` to a place and then, when it is there, `value` to a word of the same rank,
    /// waking the rank if it waits for it.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(2, |world| {
    /// let (data, flag) = (world.window::<u8>(100)?, world.window::<u64>(1)?);
    /// if world.rank() == Rank(0) {
    ///     world.put_signal(b"news", data.at(Rank(1), 0), 1, flag.at(Rank(1), 0))?;
    /// } else {
    ///     world.wait(flag.at(Rank(1), 0), |flag| flag == 1)?;
    ///     assert_eq!(world.get_value(data.at(Rank(1), 3))?, b's');
    /// }
    /// # data.free(world)?; flag.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn put_signal<T: Plain, I: Integer>(
        &self,
        data: &[T],
        to: Place<'_, T>,
        value: I,
        signal: Place<'_, I>,
    ) -> Result<()> {
        self.put_signal_by(data, to, Atomic::Store(value.to_bits()), signal)
    }

    /// Writes `data` to a place and then, when it is there, adds `value` to a word of the same
    /// rank, wrapping, and wakes a rank that waits for it: several origins can signal one word.
    ///
    /// ```
    /// # use farside::Rank;
    /// # farside::local(3, |world| {
    /// let (parts, come) = (world.window::<u32>(3)?, world.window::<u64>(1)?);
    /// let me = world.rank();
    /// world.put_signal_add(&[me.0 + 1], parts.at(Rank(0), me.index()), 1, come.at(Rank(0), 0))?;
    /// if me == Rank(0) {
    ///     world.wait(come.at(me, 0), |count| count == 3)?;
    ///     assert_eq!(parts.own().to_vec()?, [1, 2, 3]);
    /// }
    /// # parts.free(world)?; come.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn put_signal_add<T: Plain, I: Integer>(
        &self,
        data: &[T],
        to: Place<'_, T>,
        value: I,
        signal: Place<'_, I>,
    ) -> Result<()> {
        self.put_signal_by(data, to, Atomic::Add(value.to_bits()), signal)
    }

    #[track_caller]
    fn put_signal_by<T: Plain, I: Integer>(
        &self,
        data: &[T],
        to: Place<'_, T>,
        op: Atomic,
        signal: Place<'_, I>,
    ) -> Result<()> {
        if to.rank != signal.rank {
            let (data, signal) = (to.rank, signal.rank);
            return Err(Error::InvalidArgument(format!(
                "put_signal sends its data to {data} and its signal to {signal}, but both must go \
                 to one rank; to signal another, put, flush {data}, and then signal"
            )));
        }
        signal.check(size_of::<I>() as u64)?;
        to.check(size_of_val(data) as u64)?;
        let (segment, offset) = (signal.segment, signal.offset);
        let at = SignalAt { segment, offset, width: I::WIDTH, op };
        let signalled = self.put_signal_at(to.segment, to.rank, to.offset, data.as_bytes(), at);
        signal.said(to.said(signalled))
    }
}
