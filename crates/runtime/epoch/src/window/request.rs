//! Operations with an answer: handles that give it once it is there.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use farside_fabric::{Error, Op, Rank, Result};
use farside_rma::{AtomicWord as Word, Context, Fetch, Place, Plain, Summand, Transfer};

use crate::answer::AnswerSlot;
use crate::fault::Fault;
use crate::message::elements;

pub(crate) trait Underway<A> {
    fn is_done(&mut self) -> Result<bool>;
    fn wait(self: Box<Self>) -> Result<A>;
}

impl<T: Plain> Underway<Vec<T>> for Transfer<'_, T> {
    fn is_done(&mut self) -> Result<bool> {
        Transfer::is_done(self)
    }

    fn wait(self: Box<Self>) -> Result<Vec<T>> {
        Transfer::wait(*self)
    }
}

impl<C: Word> Underway<C> for Fetch<'_, C> {
    fn is_done(&mut self) -> Result<bool> {
        Fetch::is_done(self)
    }

    fn wait(self: Box<Self>) -> Result<C> {
        Fetch::wait(*self)
    }
}

type Start<'t, A> =
    Box<dyn Fn(&'t Context, Place<'_, u8>) -> Result<Box<dyn Underway<A> + 't>> + 't>;

/// Reads an answer of so many bytes from a message.
type Decode<A> = fn(&[u8], usize) -> Result<A>;

pub(crate) struct Ticket<'t, A> {
    target: Rank,
    reads: bool,
    start: Option<Start<'t, A>>,
    decode: Decode<A>,
    /// The number of bytes of an answer in a message that count.
    bytes: usize,
    state: RefCell<State<'t, A>>,
}

enum State<'t, A> {
    Queued,
    Underway(Box<dyn Underway<A> + 't>),
    Done(A),
    Failed(Error),
    Taken,
}

impl<'t, A> Ticket<'t, A> {
    fn done(target: Rank, answer: A) -> Ticket<'t, A> {
        Ticket {
            target,
            reads: true,
            start: None,
            decode: |_, _| Err(Error::Internal("an answer that was there has come again".into())),
            bytes: 0,
            state: RefCell::new(State::Done(answer)),
        }
    }

    fn queued(
        target: Rank,
        reads: bool,
        start: Start<'t, A>,
        decode: Decode<A>,
        bytes: usize,
    ) -> Rc<Ticket<'t, A>> {
        Rc::new(Ticket {
            target,
            reads,
            start: Some(start),
            decode,
            bytes,
            state: RefCell::new(State::Queued),
        })
    }

    fn take(&self) -> Result<A> {
        match self.state.replace(State::Taken) {
            State::Done(answer) => Ok(answer),
            State::Failed(error) => Err(error),
            State::Taken => {
                Err(Error::InvalidState("the result of this operation was already taken".into()))
            }
            pending => {
                self.state.replace(pending);
                Err(Fault::NotComplete { target: self.target }.into())
            }
        }
    }

    fn keep(&self, result: Result<A>) -> Result<()> {
        let (state, outcome) = match result {
            Ok(answer) => (State::Done(answer), Ok(())),
            Err(error) => (State::Failed(error.clone()), Err(error)),
        };
        self.state.replace(state);
        outcome
    }
}

impl<'t, A> AnswerSlot<'t> for Ticket<'t, A> {
    fn start(&self, context: &'t Context, at: Place<'_, u8>) -> Result<()> {
        if let Some(start) = &self.start {
            *self.state.borrow_mut() = State::Underway(start(context, at)?);
        }
        Ok(())
    }

    fn is_done(&self) -> Result<bool> {
        let is_done = match &mut *self.state.borrow_mut() {
            State::Underway(underway) => underway.is_done()?,
            State::Queued => return Ok(false),
            _ => return Ok(true),
        };
        if is_done {
            self.finish()?;
        }
        Ok(is_done)
    }

    fn finish(&self) -> Result<()> {
        match self.state.replace(State::Taken) {
            State::Underway(underway) => self.keep(underway.wait()),
            other => {
                self.state.replace(other);
                Ok(())
            }
        }
    }

    fn reads(&self) -> bool {
        self.reads
    }

    fn fill(&self, bytes: &[u8]) -> Result<()> {
        self.keep((self.decode)(bytes, self.bytes))
    }
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident<$element:ident: $bound:ident> gives $answer:ty) => {
        $(#[$doc])*
        #[must_use = "the answer comes from `take`, once the operation is complete"]
        pub struct $name<'t, $element: $bound> {
            pub(super) ticket: Rc<Ticket<'t, $answer>>,
        }

        impl<'t, $element: $bound> $name<'t, $element> {
            /// The answer of a completed operation. Before that, an error.
            pub fn take(self) -> Result<$answer> {
                self.ticket.take()
            }

            /// Returns the target.
            pub fn target(&self) -> Rank {
                self.ticket.target
            }

            pub(super) fn done(target: Rank, answer: $answer) -> Self {
                $name { ticket: Rc::new(Ticket::done(target, answer)) }
            }
        }
    };
}

handle! {
    /// A [`get`](crate::Window::get) whose data is complete when its epoch ends, after a flush, or
    /// when it was waited for.
    Get<T: Plain> gives Vec<T>
}
handle! {
    /// A [`put`](crate::Window::put_request) whose data comes back when its epoch ends, after a
    /// flush, or when it was waited for.
    Put<T: Plain> gives Vec<T>
}
handle! {
    /// A fetching atomic whose old value is known when its epoch ends, after a flush, or when it
    /// was waited for.
    Fetched<C: Word> gives C
}

impl<'t, T: Plain> Get<'t, T> {
    pub(super) fn queued(target: Rank, into: Vec<T>) -> Get<'t, T> {
        let bytes = size_of_val(&into[..]);
        let into = Cell::new(into);
        // Started once, it takes the memory along.
        let start: Start<'t, Vec<T>> = Box::new(move |context, at| {
            Ok(Box::new(context.get_nb_into::<T>(at.cast(), into.take())?) as Box<dyn Underway<_>>)
        });
        let decode = |bytes: &[u8], len| elements(bytes.get(..len).unwrap_or_default());
        Get { ticket: Ticket::queued(target, true, start, decode, bytes) }
    }
}

impl<'t, T: Summand> Get<'t, T> {
    /// An accumulate that fetches.
    pub(super) fn accumulating(target: Rank, op: Op, data: Vec<T>) -> Get<'t, T> {
        let bytes = size_of_val(&data[..]);
        let start: Start<'t, Vec<T>> = Box::new(move |context, at| {
            let old = vec![T::new_zeroed(); data.len()];
            let transfer = context.get_accumulate_nb(op, &data, at.cast(), old)?;
            Ok(Box::new(transfer) as Box<dyn Underway<_>>)
        });
        let decode = |bytes: &[u8], len| elements(bytes.get(..len).unwrap_or_default());
        Get { ticket: Ticket::queued(target, true, start, decode, bytes) }
    }
}

impl<'t, T: Plain> Put<'t, T> {
    pub(super) fn queued(target: Rank, data: Vec<T>) -> Put<'t, T> {
        let bytes = size_of_val(&data[..]);
        let data = Cell::new(data);
        // Started once, it takes the data along.
        let start: Start<'t, Vec<T>> = Box::new(move |context, at| {
            Ok(Box::new(context.put_nb::<T>(data.take(), at.cast())?) as Box<dyn Underway<_>>)
        });
        let decode = |_: &[u8], _| Err(Error::Internal("a put has no answer in a message".into()));
        Put { ticket: Ticket::queued(target, false, start, decode, bytes) }
    }
}

impl<'t, C: Word> Fetched<'t, C> {
    pub(super) fn queued(target: Rank, op: farside_fabric::Atomic) -> Fetched<'t, C> {
        let start: Start<'t, C> = Box::new(move |context, at| {
            Ok(Box::new(context.atomic_nb::<C>(at.cast(), op)?) as Box<dyn Underway<_>>)
        });
        let decode = |bytes: &[u8], _| {
            let bits = bytes.try_into().map(u128::from_le_bytes);
            bits.map(C::from_bits)
                .map_err(|_| Error::Internal("an atomic's answer has not 16 bytes".into()))
        };
        Fetched { ticket: Ticket::queued(target, true, start, decode, 16) }
    }
}
