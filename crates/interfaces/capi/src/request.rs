//! Requests: transfers and collectives under way.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use farside::raw::Request;
use farside::{Error, PendingBarrier, PendingReduce, Plain, Rank, Result, Team};

use crate::job::{ContextEntry, context, farside_context_t};
use crate::number::{self, Foldable, of_number, operation};
use crate::status::{Out, bytes, bytes_mut, guarded, input, output};
use crate::team::{TeamEntry, farside_team_t, team};
use crate::window::{farside_window_t, window};
use farside_interop::handles::Table;

/// A transfer or a collective under way, until it was waited for or tested with success.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct farside_request_t {
    /// The number of the request; 0 is none.
    pub id: u64,
}

/// What a request's handle stands for.
struct RequestEntry {
    context: farside_context_t,
    state: Cell<Option<State>>,
}

enum State {
    Transfer(Request),
    Collective(Collective),
}

/// A collective under way, and what it borrows.
struct Collective {
    /// Dropped first: it borrows from what the users count for.
    pending: Box<dyn Pending>,
    _users: Users,
}

/// Counts as a user of a context and a team for as long as it lives.
pub(crate) struct Users {
    context: &'static ContextEntry,
    team: &'static TeamEntry,
}

impl Users {
    pub(crate) fn new(context: &'static ContextEntry, team: &'static TeamEntry) -> Users {
        context.users.set(context.users.get() + 1);
        team.users.set(team.users.get() + 1);
        Users { context, team }
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        self.context.users.set(self.context.users.get() - 1);
        self.team.users.set(self.team.users.get() - 1);
    }
}

/// A collective that was started.
trait Pending {
    fn test(&mut self) -> Result<bool>;
    /// Waits for the end, and leaves the result where the caller wanted it.
    fn wait(self: Box<Self>) -> Result<()>;
}

impl Pending for PendingBarrier<'static> {
    fn test(&mut self) -> Result<bool> {
        PendingBarrier::test(self)
    }

    fn wait(self: Box<Self>) -> Result<()> {
        PendingBarrier::wait(*self)
    }
}

/// A reduction, and where its result goes.
struct Reduction<T: 'static> {
    pending: PendingReduce<'static, T>,
    into: *mut T,
    count: usize,
}

impl<T: Plain> Pending for Reduction<T> {
    fn test(&mut self) -> Result<bool> {
        self.pending.test()
    }

    fn wait(self: Box<Self>) -> Result<()> {
        // SAFETY: by the promise of `start_reduction`'s caller.
        let into = unsafe { output(self.into, self.count, "receive")? };
        self.pending.wait_into(into)
    }
}

// SAFETY: programs in C free nothing that they still use, and use each thing as its thread may.
static REQUESTS: Table<RequestEntry> = unsafe { Table::new("request") };

fn insert(context: farside_context_t, state: State) -> Result<farside_request_t> {
    let id = REQUESTS.insert(RequestEntry { context, state: Cell::new(Some(state)) })?;
    Ok(farside_request_t { id })
}

/// Starts a farside_put. When the request is complete `data` may be changed; the bytes have landed
/// after a flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_put_request(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    data: *const c_void,
    bytes: usize,
    request: *mut farside_request_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let (data, out) =
            unsafe { (self::bytes(data, bytes, "data")?, Out::new(request, "request")?) };
        let to = self::window(window)?.at(Rank(rank), offset);
        let entry = self::context(context)?;
        // SAFETY: by the caller's promise the data stays until the request is complete.
        let request = unsafe { Request::put(&entry.told(), data.as_ptr(), data.len(), to)? };
        out.set(insert(context, State::Transfer(request))?);
        Ok(())
    })
}

/// Starts a farside_get. The bytes are there, and `into` may be touched, when the request is
/// complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_get_request(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
    request: *mut farside_request_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let (into, out) =
            unsafe { (bytes_mut(into, bytes, "into")?, Out::new(request, "request")?) };
        let from = self::window(window)?.at(Rank(rank), offset);
        let entry = self::context(context)?;
        // SAFETY: by the caller's promise nothing touches it until the request is complete.
        let request = unsafe { Request::get(&entry.told(), from, into.as_mut_ptr(), into.len())? };
        out.set(insert(context, State::Transfer(request))?);
        Ok(())
    })
}

/// Starts a farside_get_accumulate. `data` may be changed when the call returns; what was there is
/// in `old`, which may be touched, when the request is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_get_accumulate_request(
    context: farside_context_t,
    window: farside_window_t,
    rank: u32,
    offset: u64,
    data: *const c_void,
    old: *mut c_void,
    count: usize,
    number: c_int,
    operation: c_int,
    request: *mut farside_request_t,
) -> c_int {
    guarded(|| {
        // SAFETY: there is no scale.
        let accumulate = unsafe { number::accumulate(number, operation, std::ptr::null())? };
        // SAFETY: by the caller's promise.
        let ((data, old), out) = unsafe {
            (number::fetching(&accumulate, data, old, count)?, Out::new(request, "request")?)
        };
        let to = self::window(window)?.at(Rank(rank), offset);
        let (entry, bytes) = (self::context(context)?, old.len());
        // SAFETY: by the caller's promise nothing touches it until the request is complete.
        let request = unsafe {
            Request::get_accumulate(&entry.told(), &accumulate, data, to, old.as_mut_ptr(), bytes)?
        };
        out.set(insert(context, State::Transfer(request))?);
        Ok(())
    })
}

/// Starts a barrier: the request is complete when all members have started it. Between times any
/// other operation or collective may be made. A team can have 8 started collectives that were not
/// waited for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_barrier_nb(
    team: farside_team_t,
    request: *mut farside_request_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let out = unsafe { Out::new(request, "request")? };
        let found = self::team(team)?;
        let (users, context) = (Users::new(found.context, found.entry), found.entry.context);
        let pending = Box::new(found.team.into_barrier_nb()?);
        out.set(insert(context, State::Collective(Collective { pending, _users: users }))?);
        Ok(())
    })
}

/// The numbers of a reduction.
struct Reduced {
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    operation: c_int,
}

/// Starts a reduction of numbers of one kind.
///
/// # Safety
///
/// The pointers are null or valid for so many numbers, the second until the reduction is waited
/// for.
unsafe fn start_reduction<T: Foldable>(
    team: Team<'static>,
    data: Reduced,
) -> Result<Box<dyn Pending>> {
    let Reduced { send, receive, count, operation } = data;
    let fold = self::operation::<T>(operation)?.fold;
    // SAFETY: by the caller's promise.
    let (send, receive) = unsafe {
        (input::<T>(send.cast(), count, "send")?, output(receive.cast(), count, "receive")?)
    };
    let pending = team.into_all_reduce_nb(send, fold)?;
    Ok(Box::new(Reduction { pending, into: receive.as_mut_ptr(), count }))
}

/// Starts a farside_all_reduce of 4 KiB at most. `send` may be changed when the call returns;
/// `receive` must stay until the request is complete, and holds the result then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_all_reduce_nb(
    team: farside_team_t,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    number: c_int,
    operation: c_int,
    request: *mut farside_request_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let out = unsafe { Out::new(request, "request")? };
        let found = self::team(team)?;
        let (users, context) = (Users::new(found.context, found.entry), found.entry.context);
        let data = Reduced { send, receive, count, operation };
        // SAFETY: by the caller's promise.
        let pending = unsafe { of_number!(number, start_reduction(found.team, data))? };
        out.set(insert(context, State::Collective(Collective { pending, _users: users }))?);
        Ok(())
    })
}

/// Takes a request that is complete, or has failed, out of the table.
fn finish(handle: farside_request_t) -> Result<()> {
    let entry = REQUESTS.remove(handle.id)?;
    let context = context(entry.context);
    match entry.state.into_inner() {
        Some(State::Transfer(request)) => request.wait(context?.context()),
        Some(State::Collective(Collective { pending, _users })) => {
            context?;
            pending.wait()
        }
        None => Err(Error::InvalidState("another call is testing this request".into())),
    }
}

/// Gives 1 if a request is complete, else 0, without waiting. Once it is complete, and after an
/// error, the request is not valid any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_request_test(
    request: farside_request_t,
    is_complete: *mut c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let is_complete = unsafe { Out::new(is_complete, "is_complete")? };
        let entry = REQUESTS.get(request.id)?;
        let context = context(entry.context)?;
        let mut state = entry.state.take();
        let tested = match &mut state {
            Some(State::Transfer(request)) => request.test(context.context()),
            Some(State::Collective(collective)) => collective.pending.test(),
            None => Ok(false),
        };
        entry.state.set(state);
        match tested {
            Ok(false) => is_complete.set(0),
            Ok(true) => {
                finish(request)?;
                is_complete.set(1);
            }
            Err(error) => {
                drop(REQUESTS.remove(request.id)?);
                return Err(error);
            }
        }
        Ok(())
    })
}

/// Waits until a request is complete. Whatever it returns, the request is not valid any more, and
/// its memory is the caller's again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_request_wait(request: farside_request_t) -> c_int {
    guarded(|| finish(request))
}

/// Waits until `count` requests are complete, all of them also after one has failed, and returns
/// the first error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_request_wait_all(
    requests: *const farside_request_t,
    count: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let requests = unsafe { input(requests, count, "requests")? };
        requests.iter().map(|&request| finish(request)).fold(Ok(()), Result::and)
    })
}
