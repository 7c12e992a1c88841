//! Endpoints of libfabric whose operations own the memory that they use: what has been posted can
//! be forgotten by whoever posted it.

use std::ffi::c_void;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard};

use farside_fabric::{Atomic, Error, Result, Width};

use crate::device::{Device, Place, close};
use crate::ffi::{self, Peer};
use crate::stage::{self, Stage};

/// How many completions are read at a time.
const READ_AT_ONCE: usize = 16;
/// How many stages are made at a time.
const STAGES: usize = 8;
/// How many completions may wait.
const COMPLETIONS: usize = 4096;

/// What has happened at an endpoint.
pub(crate) enum Happened<'a> {
    /// A message has come.
    Message(&'a [u8]),
    /// An operation is over; of one that reads, with what it has read.
    Done(u64, &'a [u8]),
    /// An operation has failed, for this reason.
    Failed(u64, Error),
}

/// An endpoint with its completions.
pub(crate) struct Queue {
    device: Arc<Device>,
    ep: *mut ffi::Ep,
    cq: *mut ffi::Cq,
    av: *mut ffi::Av,
    fd: Option<RawFd>,
    message_bytes: usize,
    stage_bytes: usize,
    state: Mutex<State>,
}

// SAFETY: the objects are used under FI_THREAD_SAFE, and what they point to in `state` under its
// lock.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

#[derive(Default)]
struct State {
    /// Each in a box: the library keeps its address while others are added.
    #[expect(clippy::vec_box)]
    operations: Vec<Box<Operation>>,
    free: Vec<usize>,
    stages: Vec<Stage>,
    under_way: usize,
}

/// What the library is told of an operation: it may use the beginning itself.
#[repr(C)]
struct Operation {
    room: [u64; 8],
    index: usize,
    what: What,
    stage: Option<Stage>,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Nothing,
    Receive,
    Send,
    Write(u64),
    /// Reads so many bytes.
    Read(u64, usize),
}

/// Whether an operation was taken.
#[derive(Debug, PartialEq)]
pub(crate) enum Posted {
    Yes,
    /// Not now; later it may be.
    Busy,
    /// Never, for this reason.
    No(Error),
}

impl Queue {
    /// An endpoint that takes messages of up to `message_bytes`, so many at a time, and operations
    /// of up to `stage_bytes`.
    pub(crate) fn open(
        device: &Arc<Device>,
        message_bytes: usize,
        receives: usize,
        stage_bytes: usize,
    ) -> Result<Queue> {
        let mut queue = Queue {
            device: device.clone(),
            ep: ptr::null_mut(),
            cq: ptr::null_mut(),
            av: ptr::null_mut(),
            fd: None,
            message_bytes,
            stage_bytes: stage_bytes.max(message_bytes),
            state: Mutex::default(),
        };
        queue.open_completions()?;
        queue.open_endpoint()?;
        let mut state = queue.state();
        for stage in stage::new(&queue.device, receives, queue.stage_bytes)? {
            queue.receive(&mut state, stage)?;
        }
        drop(state);
        Ok(queue)
    }

    fn open_completions(&mut self) -> Result<()> {
        let domain = self.device.domain();
        let mut attr = ffi::CqAttr {
            size: COMPLETIONS,
            flags: 0,
            format: ffi::CQ_FORMAT_DATA,
            wait_obj: ffi::WAIT_FD,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: ptr::null_mut(),
        };
        // SAFETY: the domain is open, and all arguments are alive.
        unsafe {
            let open = (*(*domain).ops).cq_open;
            if open(domain, &mut attr, &mut self.cq, ptr::null_mut()) == 0 {
                let mut fd: RawFd = -1;
                let fid = ptr::addr_of_mut!((*self.cq).fid);
                let asked =
                    ((*(*fid).ops).control)(fid, ffi::GETWAIT, ptr::addr_of_mut!(fd).cast());
                self.fd = (asked == 0 && fd >= 0).then_some(fd);
                return Ok(());
            }
            // There is nothing to sleep at.
            attr.wait_obj = ffi::WAIT_NONE;
            match open(domain, &mut attr, &mut self.cq, ptr::null_mut()) {
                0 => Ok(()),
                status => Err(self.device.failed("fi_cq_open", status)),
            }
        }
    }

    fn open_endpoint(&mut self) -> Result<()> {
        let domain = self.device.domain();
        let check = |call, status: i32| {
            if status == 0 { Ok(()) } else { Err(self.device.failed(call, status)) }
        };
        let kind = match self.device.provider.domain().av_type {
            0 => ffi::AV_MAP,
            kind => kind,
        };
        let mut attr = ffi::AvAttr {
            kind,
            rx_ctx_bits: 0,
            count: 0,
            ep_per_node: 0,
            name: ptr::null(),
            map_addr: ptr::null_mut(),
            flags: 0,
        };
        // SAFETY: the domain is open, all arguments are alive, and everything is bound before the
        // endpoint is enabled.
        unsafe {
            check(
                "fi_av_open",
                ((*(*domain).ops).av_open)(domain, &mut attr, &mut self.av, ptr::null_mut()),
            )?;
            let info = self.device.provider.info;
            check(
                "fi_endpoint",
                ((*(*domain).ops).endpoint)(domain, info, &mut self.ep, ptr::null_mut()),
            )?;
            let fid = ptr::addr_of_mut!((*self.ep).fid);
            let ops = &*(*fid).ops;
            check(
                "binding an address vector",
                (ops.bind)(fid, ptr::addr_of_mut!((*self.av).fid), 0),
            )?;
            let both = ffi::SEND | ffi::RECV;
            check(
                "binding a completion queue",
                (ops.bind)(fid, ptr::addr_of_mut!((*self.cq).fid), both),
            )?;
            check("fi_enable", (ops.control)(fid, ffi::ENABLE, ptr::null_mut()))
        }
    }

    /// The endpoint itself.
    pub(crate) fn raw(&self) -> *mut ffi::Ep {
        self.ep
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under this lock can panic half-way.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The address that others enter to reach this endpoint.
    pub(crate) fn address(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0u8; 256];
        let mut length = bytes.len();
        // SAFETY: the endpoint is open; it writes no more than it is told that there is.
        let status = unsafe {
            let getname = (*(*self.ep).cm).getname;
            getname(ptr::addr_of_mut!((*self.ep).fid), bytes.as_mut_ptr().cast(), &mut length)
        };
        if status != 0 {
            return Err(self.device.failed("fi_getname", status));
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Enters somebody's address.
    pub(crate) fn enter(&self, address: &[u8]) -> Result<Peer> {
        let mut peer = ffi::ANYBODY;
        // Addresses have the length that the provider's own have; some are strings, which end with
        // zero.
        let padded: Vec<u8> = address.iter().copied().chain([0; 8]).collect();
        // SAFETY: the vector is open; the address has the provider's format, by the agreement of
        // the job.
        let entered = unsafe {
            ((*(*self.av).ops).insert)(
                self.av,
                padded.as_ptr().cast(),
                1,
                &mut peer,
                0,
                ptr::null_mut(),
            )
        };
        if entered == 1 {
            Ok(peer)
        } else {
            Err(self.device.failed("fi_av_insert", entered.min(-libc::EINVAL)))
        }
    }

    fn stage(&self, state: &mut State) -> Result<Stage> {
        if state.stages.is_empty() {
            state.stages.extend(stage::new(&self.device, STAGES, self.stage_bytes)?);
        }
        state
            .stages
            .pop()
            .ok_or(Error::System { call: "setting memory aside", errno: libc::ENOMEM })
    }

    /// Starts an operation: `start` hands it to the library, with its context.
    fn start(
        &self,
        state: &mut State,
        what: What,
        stage: Option<Stage>,
        start: impl FnOnce(&mut Operation, *mut c_void) -> isize,
    ) -> Posted {
        let index = state.free.pop().unwrap_or_else(|| {
            let index = state.operations.len();
            state.operations.push(Box::new(Operation {
                room: [0; 8],
                index,
                what: What::Nothing,
                stage: None,
            }));
            index
        });
        let operation = &mut *state.operations[index];
        (operation.what, operation.stage) = (what, stage);
        let context = ptr::from_mut::<Operation>(operation).cast();
        match start(operation, context) {
            0 => {
                state.under_way += usize::from(what != What::Receive);
                Posted::Yes
            }
            status => {
                operation.what = What::Nothing;
                state.stages.extend(operation.stage.take());
                state.free.push(index);
                if -status == ffi::EAGAIN {
                    Posted::Busy
                } else {
                    Posted::No(self.device.failed("posting an operation", status as i32))
                }
            }
        }
    }

    fn receive(&self, state: &mut State, stage: Stage) -> Result<()> {
        let (ep, bytes) = (self.ep, self.message_bytes);
        let posted = self.start(state, What::Receive, Some(stage), |operation, context| {
            let Some(stage) = &mut operation.stage else { return 0 };
            // SAFETY: the stage is the operation's until it is over.
            unsafe {
                let recv = (*(*ep).msg).recv;
                recv(ep, stage.start().cast(), bytes, stage.desc(), ffi::ANYBODY, context)
            }
        });
        match posted {
            Posted::Yes => Ok(()),
            Posted::Busy => Err(Error::Misuse("libfabric takes no more receive buffers".into())),
            Posted::No(error) => Err(error),
        }
    }

    /// Sends a message that is in two parts.
    pub(crate) fn send(&self, to: Peer, head: &[u8], rest: &[u8]) -> Posted {
        let bytes = head.len() + rest.len();
        if bytes > self.message_bytes {
            return Posted::No(Error::Misuse(format!("a message of {bytes} bytes is too long")));
        }
        let ep = self.ep;
        if rest.is_empty() && bytes <= self.device.provider.tx().inject_size {
            // SAFETY: the endpoint is open; the bytes are copied before this returns.
            let status = unsafe { ((*(*ep).msg).inject)(ep, head.as_ptr().cast(), bytes, to) };
            return match -status {
                0 => Posted::Yes,
                ffi::EAGAIN => Posted::Busy,
                _ => Posted::No(self.device.failed("fi_inject", status as i32)),
            };
        }
        let mut state = self.state();
        let mut stage = match self.stage(&mut state) {
            Ok(stage) => stage,
            Err(error) => return Posted::No(error),
        };
        stage.bytes_mut()[..head.len()].copy_from_slice(head);
        stage.bytes_mut()[head.len()..bytes].copy_from_slice(rest);
        self.start(&mut state, What::Send, Some(stage), |operation, context| {
            let Some(stage) = &mut operation.stage else { return 0 };
            // SAFETY: the stage is the operation's until it is over.
            unsafe {
                ((*(*ep).msg).send)(ep, stage.start().cast(), bytes, stage.desc(), to, context)
            }
        })
    }

    /// Writes to far memory; `tag` comes back when the bytes have landed there.
    pub(crate) fn write(
        &self,
        to: Peer,
        place: Place,
        offset: u64,
        bytes: &[u8],
        tag: u64,
    ) -> Posted {
        let mut state = self.state();
        let is_small = bytes.len() <= self.device.provider.tx().inject_size;
        let mut stage = None;
        if !is_small {
            let mut taken = match self.stage(&mut state) {
                Ok(stage) => stage,
                Err(error) => return Posted::No(error),
            };
            taken.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            stage = Some(taken);
        }
        let ep = self.ep;
        self.start(&mut state, What::Write(tag), stage, |operation, context| {
            let (base, mut desc) = match &mut operation.stage {
                Some(stage) => (stage.start(), stage.desc()),
                None => (bytes.as_ptr().cast_mut(), ptr::null_mut()),
            };
            let iov = libc::iovec { iov_base: base.cast(), iov_len: bytes.len() };
            let far = ffi::RmaIov { addr: place.base + offset, len: bytes.len(), key: place.key };
            let message = ffi::MsgRma {
                iov: &iov,
                desc: &mut desc,
                iov_count: 1,
                addr: to,
                rma_iov: &far,
                rma_iov_count: 1,
                context,
                data: 0,
            };
            let inject = if is_small { ffi::INJECT } else { 0 };
            // SAFETY: the stage is the operation's until it is over; bytes without one are copied
            // before this returns.
            unsafe {
                ((*(*ep).rma).writemsg)(
                    ep,
                    &message,
                    ffi::COMPLETION | ffi::DELIVERY_COMPLETE | inject,
                )
            }
        })
    }

    /// Reads far memory; `tag` comes back with the bytes.
    pub(crate) fn read(
        &self,
        from: Peer,
        place: Place,
        offset: u64,
        bytes: usize,
        tag: u64,
    ) -> Posted {
        let mut state = self.state();
        let stage = match self.stage(&mut state) {
            Ok(stage) => stage,
            Err(error) => return Posted::No(error),
        };
        let ep = self.ep;
        self.start(&mut state, What::Read(tag, bytes), Some(stage), |operation, context| {
            let Some(stage) = &mut operation.stage else { return 0 };
            let (addr, key) = (place.base + offset, place.key);
            // SAFETY: the stage is the operation's until it is over.
            unsafe {
                ((*(*ep).rma).read)(
                    ep,
                    stage.start().cast(),
                    bytes,
                    stage.desc(),
                    from,
                    addr,
                    key,
                    context,
                )
            }
        })
    }

    /// Executes an atomic on a far word; `tag` comes back with what the word held before.
    pub(crate) fn atomic(
        &self,
        to: Peer,
        place: Place,
        offset: u64,
        (width, op): (Width, Atomic),
        tag: u64,
    ) -> Posted {
        let Some((kind, code, operand, expected)) = in_words_of_the_library(width, op) else {
            return Posted::No(Error::Unsupported {
                what: format!("{} on a pair, by the network", op.name()),
            });
        };
        let mut state = self.state();
        let mut stage = match self.stage(&mut state) {
            Ok(stage) => stage,
            Err(error) => return Posted::No(error),
        };
        // The result at the beginning, then what is written, then what is expected.
        stage.bytes_mut()[16..24].copy_from_slice(&operand.to_le_bytes());
        stage.bytes_mut()[32..40].copy_from_slice(&expected.unwrap_or(0).to_le_bytes());
        let ep = self.ep;
        let what = What::Read(tag, width.bytes() as usize);
        self.start(&mut state, what, Some(stage), |operation, context| {
            let Some(stage) = &mut operation.stage else { return 0 };
            let (base, desc) = (stage.start(), stage.desc());
            let (addr, key) = (place.base + offset, place.key);
            // SAFETY: the stage is the operation's until it is over, and longer than this.
            unsafe {
                let (result, written, compared) =
                    (base.cast(), base.add(16).cast(), base.add(32).cast());
                let ops = &*(*ep).atomic;
                if expected.is_some() {
                    (ops.compwrite)(
                        ep, written, 1, desc, compared, desc, result, desc, to, addr, key, kind,
                        code, context,
                    )
                } else {
                    (ops.readwrite)(
                        ep, written, 1, desc, result, desc, to, addr, key, kind, code, context,
                    )
                }
            }
        })
    }

    /// Whether the provider executes all atomics on words of this width.
    pub(crate) fn has_atomics(&self, width: Width) -> bool {
        let all = [
            Atomic::Load,
            Atomic::Store(0),
            Atomic::Add(0),
            Atomic::Swap(0),
            Atomic::CompareSwap { expected: 0, desired: 0 },
            Atomic::And(0),
            Atomic::Or(0),
            Atomic::Xor(0),
        ];
        // SAFETY: the endpoint is open.
        let is_there =
            self.device.provider.has_atomics() && unsafe { !(*self.ep).atomic.is_null() };
        is_there
            && all.iter().all(|&op| {
                let Some((kind, code, _, expected)) = in_words_of_the_library(width, op) else {
                    return false;
                };
                let mut count = 0;
                // SAFETY: as above.
                let status = unsafe {
                    let ops = &*(*self.ep).atomic;
                    let valid =
                        if expected.is_some() { ops.compwritevalid } else { ops.readwritevalid };
                    valid(self.ep, kind, code, &mut count)
                };
                status == 0 && count >= 1
            })
    }

    /// How many operations are under way that somebody waits for.
    pub(crate) fn under_way(&self) -> usize {
        self.state().under_way
    }

    /// Something to sleep at, if the provider has that; only if nothing has happened that it would
    /// not tell of.
    pub(crate) fn sleep_at(&self) -> Option<BorrowedFd<'_>> {
        let fd = self.fd?;
        // SAFETY: both are open; the number stays open as long as the queue does.
        unsafe {
            let mut fid = ptr::addr_of_mut!((*self.cq).fid);
            let fabric = self.device.fabric();
            let may = ((*(*fabric).ops).trywait)(fabric, &mut fid, 1);
            (may == 0).then(|| BorrowedFd::borrow_raw(fd))
        }
    }

    /// Whether there is anything to sleep at.
    pub(crate) fn can_sleep(&self) -> bool {
        self.fd.is_some()
    }

    /// Lets the provider work, and tells what has happened. Says whether anything has.
    pub(crate) fn look(&self, mut tell: impl FnMut(Happened<'_>)) -> bool {
        let empty = ffi::CqEntry {
            context: ptr::null_mut(),
            flags: 0,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
        };
        let mut entries = [empty; READ_AT_ONCE];
        // SAFETY: the queue is open, and there is room for so many entries of its format.
        let read =
            unsafe { ((*(*self.cq).ops).read)(self.cq, entries.as_mut_ptr().cast(), READ_AT_ONCE) };
        if read == -ffi::EAVAIL {
            self.look_at_failure(&mut tell);
            return true;
        }
        let Ok(count) = usize::try_from(read) else { return false };
        for entry in &entries[..count] {
            self.settle(entry.context, Ok(entry.len), &mut tell);
        }
        count > 0
    }

    fn look_at_failure(&self, tell: &mut dyn FnMut(Happened<'_>)) {
        // SAFETY: all zeros is a value of this type: numbers and null.
        let mut entry: ffi::CqErrEntry = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open, and the entry is ours.
        let read = unsafe { ((*(*self.cq).ops).readerr)(self.cq, &mut entry, 0) };
        if read >= 0 {
            let error = self.device.failed("an operation", -entry.err);
            self.settle(entry.context, Err(error), tell);
        }
    }

    /// An operation is over.
    fn settle(
        &self,
        context: *mut c_void,
        outcome: Result<usize>,
        tell: &mut dyn FnMut(Happened<'_>),
    ) {
        if context.is_null() {
            return;
        }
        let mut state = self.state();
        // SAFETY: it is the context of one of our operations, none of which is ever freed while the
        // queue is open.
        let index = unsafe { (*context.cast::<Operation>()).index };
        let Some(operation) = state.operations.get_mut(index) else { return };
        let what = std::mem::replace(&mut operation.what, What::Nothing);
        let stage = operation.stage.take();
        state.free.push(index);
        state.under_way -= usize::from(!matches!(what, What::Receive | What::Nothing));
        drop(state);
        let bytes = stage.as_ref().map_or(&[][..], Stage::bytes);
        match (what, outcome) {
            (What::Receive, Ok(length)) => {
                tell(Happened::Message(&bytes[..length.min(bytes.len())]))
            }
            (What::Write(tag), Ok(_)) => tell(Happened::Done(tag, &[])),
            (What::Read(tag, length), Ok(_)) => {
                tell(Happened::Done(tag, &bytes[..length.min(bytes.len())]))
            }
            (What::Write(tag) | What::Read(tag, _), Err(error)) => {
                tell(Happened::Failed(tag, error))
            }
            // A message that was not sent, or not received, got lost.
            (What::Send | What::Receive, Err(_)) | (What::Send, Ok(_)) | (What::Nothing, _) => {}
        }
        let mut state = self.state();
        match (what, stage) {
            (What::Receive, Some(stage)) => {
                // What the library does not take back is one buffer less to receive into.
                let _ = self.receive(&mut state, stage);
            }
            (_, stage) => state.stages.extend(stage),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // First the endpoint, which uses everything else: afterwards nobody touches the stages.
        close(self.ep.cast());
        close(self.cq.cast());
        close(self.av.cast());
    }
}

/// The type, the operation, the operand, and what is expected, as the library names them; `None` if
/// it has no words of this width.
fn in_words_of_the_library(width: Width, op: Atomic) -> Option<(i32, i32, u64, Option<u64>)> {
    let kind = match width {
        Width::W32 => ffi::atomic::UINT32,
        Width::W64 => ffi::atomic::UINT64,
        Width::Pair => return None,
    };
    Some(match op {
        Atomic::Load => (kind, ffi::atomic::READ, 0, None),
        Atomic::Store(value) | Atomic::Swap(value) => {
            (kind, ffi::atomic::WRITE, value as u64, None)
        }
        Atomic::Add(value) => (kind, ffi::atomic::SUM, value as u64, None),
        Atomic::And(value) => (kind, ffi::atomic::BAND, value as u64, None),
        Atomic::Or(value) => (kind, ffi::atomic::BOR, value as u64, None),
        Atomic::Xor(value) => (kind, ffi::atomic::BXOR, value as u64, None),
        Atomic::CompareSwap { expected, desired } => {
            (kind, ffi::atomic::CSWAP, desired as u64, Some(expected as u64))
        }
    })
}
