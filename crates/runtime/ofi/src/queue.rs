//! An endpoint of libfabric whose operations own the memory that they use, so that the caller of an
//! operation may abandon it.

use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::{Arc, Mutex};

use farside_fabric::{Atomic, Error, Result, Width};
use farside_nic::RemoteKey;

use crate::device::Device;
use crate::ffi::{self, AtomicCall, Completion, Context, LocalBytes, Peer, Posted, abi};
use crate::stage::{self, Stage};
use farside_fabric::lock::lock;

/// The number of stages that are made at a time.
const STAGES: usize = 8;

pub(crate) enum Event<'a> {
    Message(&'a [u8]),
    /// The operation with this tag has completed; one that reads, with what it has read.
    Done(u64, &'a [u8]),
    Failed(u64, Error),
}

pub(crate) struct Sizes {
    /// The length of the longest message.
    pub(crate) message_bytes: usize,
    /// The number of messages that may arrive before the endpoint is polled.
    pub(crate) receives: usize,
    /// The length of the longest operation on remote memory.
    pub(crate) stage_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) peer: Peer,
    pub(crate) key: RemoteKey,
    pub(crate) offset: u64,
}

impl Remote {
    fn bytes(&self) -> ffi::RemoteBytes {
        let RemoteKey { base, key, .. } = self.key;
        ffi::RemoteBytes { peer: self.peer, address: base + self.offset, key }
    }
}

/// An endpoint with its operations.
pub(crate) struct Queue {
    /// Once it is closed, no operation uses the memory in `state`.
    endpoint: ffi::Endpoint,
    device: Arc<Device>,
    message_bytes: usize,
    stage_bytes: usize,
    state: Mutex<State>,
}

impl Drop for Queue {
    fn drop(&mut self) {
        // The library may refuse, as some providers do while memory is bound to the endpoint. What
        // operations may still use stays.
        if !self.endpoint.close() {
            std::mem::forget(std::mem::take(&mut *lock(&self.state)));
        }
    }
}

#[derive(Default)]
struct State {
    operations: Vec<Operation>,
    free: Vec<usize>,
    stages: Vec<Stage>,
}

/// An operation, and the memory that it uses while it is under way.
struct Operation {
    /// In a box: the library keeps its address while operations are added.
    context: Box<Context>,
    what: What,
    stage: Option<Stage>,
}

impl Operation {
    /// Returns the beginning of the stage as memory of the operation.
    fn local(&self, bytes: usize) -> LocalBytes {
        match &self.stage {
            Some(stage) => LocalBytes {
                start: stage.start(),
                bytes: bytes.min(stage.bytes().len()),
                desc: stage.desc(),
            },
            None => LocalBytes { start: ptr::null_mut(), bytes: 0, desc: ptr::null_mut() },
        }
    }

    fn context(&mut self) -> *mut Context {
        ptr::from_mut(&mut *self.context)
    }
}

/// What an operation does; the number is its tag.
#[derive(Clone, Copy, PartialEq)]
enum What {
    Nothing,
    Receive,
    Send,
    Write(u64),
    /// Reads so many bytes.
    Read(u64, usize),
}

impl Queue {
    pub(crate) fn open(device: &Arc<Device>, sizes: &Sizes) -> Result<Queue> {
        let queue = Queue {
            endpoint: device.open_endpoint()?,
            device: device.clone(),
            message_bytes: sizes.message_bytes,
            stage_bytes: sizes.stage_bytes.max(sizes.message_bytes),
            state: Mutex::default(),
        };
        let mut state = lock(&queue.state);
        for stage in stage::new(&queue.device, &queue.endpoint, sizes.receives, queue.stage_bytes)?
        {
            queue.receive(&mut state, stage)?;
        }
        drop(state);
        Ok(queue)
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    pub(crate) fn endpoint(&self) -> &ffi::Endpoint {
        &self.endpoint
    }

    fn stage(&self, state: &mut State) -> Result<Stage> {
        if state.stages.is_empty() {
            state.stages.extend(stage::new(
                &self.device,
                &self.endpoint,
                STAGES,
                self.stage_bytes,
            )?);
        }
        state
            .stages
            .pop()
            .ok_or(Error::System { call: "allocating staging buffers", errno: libc::ENOMEM })
    }

    /// Starts an operation, which `post` hands to the library. It keeps its stage and its context
    /// until it has completed, or the endpoint is closed.
    fn start(
        &self,
        state: &mut State,
        what: What,
        stage: Option<Stage>,
        post: impl FnOnce(&mut Operation) -> Posted,
    ) -> Posted {
        let index = state.free.pop().unwrap_or_else(|| {
            let index = state.operations.len();
            let context = Context::new(index);
            state.operations.push(Operation { context, what: What::Nothing, stage: None });
            index
        });
        let operation = &mut state.operations[index];
        (operation.what, operation.stage) = (what, stage);
        let posted = post(operation);
        if posted != Posted::Yes {
            operation.what = What::Nothing;
            state.stages.extend(operation.stage.take());
            state.free.push(index);
        }
        posted
    }

    fn receive(&self, state: &mut State, stage: Stage) -> Result<()> {
        let posted = self.start(state, What::Receive, Some(stage), |operation| {
            let into = operation.local(self.message_bytes);
            // SAFETY: the operation keeps stage and context.
            unsafe { self.endpoint.receive(into, operation.context()) }
        });
        match posted {
            Posted::Yes => Ok(()),
            Posted::Busy => Err(Error::Network("libfabric takes no more receive buffers".into())),
            Posted::No(error) => Err(error),
        }
    }

    pub(crate) fn send(&self, to: Peer, head: &[u8], rest: &[u8]) -> Posted {
        let bytes = head.len() + rest.len();
        if bytes > self.message_bytes {
            return Posted::No(Error::TooMuch {
                what: "bytes of a message",
                value: bytes as u64,
                limit: self.message_bytes as u64,
            });
        }
        if rest.is_empty() && bytes <= self.device.info().inject_bytes() {
            return self.endpoint.inject(to, head);
        }
        let mut state = lock(&self.state);
        let mut stage = match self.stage(&mut state) {
            Ok(stage) => stage,
            Err(error) => return Posted::No(error),
        };
        stage.bytes_mut()[..head.len()].copy_from_slice(head);
        stage.bytes_mut()[head.len()..bytes].copy_from_slice(rest);
        self.start(&mut state, What::Send, Some(stage), |operation| {
            let from = operation.local(bytes);
            // SAFETY: the operation keeps stage and context.
            unsafe { self.endpoint.send(to, from, operation.context()) }
        })
    }

    /// Writes to remote memory; `tag` comes back when the bytes have landed there.
    pub(crate) fn write(&self, to: Remote, bytes: &[u8], tag: u64) -> Posted {
        let mut state = lock(&self.state);
        let injects = bytes.len() <= self.device.info().inject_bytes();
        let mut stage = None;
        if !injects {
            let mut taken = match self.stage(&mut state) {
                Ok(stage) => stage,
                Err(error) => return Posted::No(error),
            };
            taken.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            stage = Some(taken);
        }
        self.start(&mut state, What::Write(tag), stage, |operation| {
            let from = if injects {
                let start = bytes.as_ptr().cast_mut();
                LocalBytes { start, bytes: bytes.len(), desc: ptr::null_mut() }
            } else {
                operation.local(bytes.len())
            };
            // SAFETY: the operation keeps stage and context; bytes without a stage are injected.
            unsafe { self.endpoint.write(to.bytes(), from, injects, operation.context()) }
        })
    }

    /// Reads remote memory; `tag` comes back with the bytes.
    pub(crate) fn read(&self, from: Remote, bytes: usize, tag: u64) -> Posted {
        let mut state = lock(&self.state);
        let stage = match self.stage(&mut state) {
            Ok(stage) => stage,
            Err(error) => return Posted::No(error),
        };
        self.start(&mut state, What::Read(tag, bytes), Some(stage), |operation| {
            let into = operation.local(bytes);
            // SAFETY: the operation keeps stage and context.
            unsafe { self.endpoint.read(from.bytes(), into, operation.context()) }
        })
    }

    /// Executes an atomic on a remote word; `tag` comes back with what the word held before.
    pub(crate) fn atomic(&self, at: Remote, width: Width, op: Atomic, tag: u64) -> Posted {
        let Some(call) = atomic_call(width, op) else {
            return Posted::No(Error::Unsupported {
                what: format!("{} on a pair, by the network", op.name()),
            });
        };
        let mut state = lock(&self.state);
        let mut stage = match self.stage(&mut state) {
            Ok(stage) => stage,
            Err(error) => return Posted::No(error),
        };
        let mut write = |at: usize, value: u64| {
            stage.bytes_mut()[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        write(AtomicCall::OPERAND_AT, call.operand);
        write(AtomicCall::EXPECTED_AT, call.expected.unwrap_or(0));
        let what = What::Read(tag, width.bytes() as usize);
        self.start(&mut state, what, Some(stage), |operation| {
            let operands = operation.local(AtomicCall::BYTES);
            // SAFETY: the operation keeps stage and context, and the stage is longer; atomics are
            // asked of providers that have them only.
            unsafe { self.endpoint.atomic(at.bytes(), call, operands, operation.context()) }
        })
    }

    /// Returns whether the provider executes all atomics on words of this width.
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
        all.iter()
            .all(|&op| atomic_call(width, op).is_some_and(|call| self.endpoint.has_atomic(call)))
    }

    /// Returns a file to sleep at, if the provider has one and nothing has completed since it was
    /// polled.
    pub(crate) fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.endpoint.wait_fd()
    }

    pub(crate) fn has_wait_fd(&self) -> bool {
        self.endpoint.has_wait_fd()
    }

    /// Lets the provider progress, and reports what has happened. Returns whether anything has.
    pub(crate) fn poll(&self, mut report: impl FnMut(Event<'_>)) -> bool {
        self.endpoint.poll(|completion| self.complete(completion, &mut report))
    }

    /// Reports an operation that has completed, and takes back what it used.
    fn complete(&self, completion: Completion, report: &mut dyn FnMut(Event<'_>)) {
        let Completion { index, outcome } = completion;
        let mut state = lock(&self.state);
        let Some(operation) = state.operations.get_mut(index) else { return };
        let what = std::mem::replace(&mut operation.what, What::Nothing);
        let stage = operation.stage.take();
        state.free.push(index);
        drop(state);
        let bytes = stage.as_ref().map_or(&[][..], Stage::bytes);
        match (what, outcome) {
            (What::Receive, Ok(length)) => {
                report(Event::Message(&bytes[..length.min(bytes.len())]));
            }
            (What::Write(tag), Ok(_)) => report(Event::Done(tag, &[])),
            (What::Read(tag, length), Ok(_)) => {
                report(Event::Done(tag, &bytes[..length.min(bytes.len())]));
            }
            (What::Write(tag) | What::Read(tag, _), Err(error)) => {
                report(Event::Failed(tag, error));
            }
            // A message that was not sent, or not received, counts as lost.
            (What::Send | What::Receive, Err(_)) | (What::Send, Ok(_)) | (What::Nothing, _) => {}
        }
        let mut state = lock(&self.state);
        match (what, stage) {
            (What::Receive, Some(stage)) => {
                // If the library refuses the buffer there is one less to receive into.
                let _ = self.receive(&mut state, stage);
            }
            (_, stage) => state.stages.extend(stage),
        }
    }
}

/// Returns an atomic as the library names it; `None` if it has no words of this width.
fn atomic_call(width: Width, op: Atomic) -> Option<AtomicCall> {
    let datatype = match width {
        Width::W32 => abi::atomic::UINT32,
        Width::W64 => abi::atomic::UINT64,
        Width::Pair => return None,
    };
    let (op, operand, expected) = match op {
        Atomic::Load => (abi::atomic::READ, 0, None),
        Atomic::Store(value) | Atomic::Swap(value) => (abi::atomic::WRITE, value, None),
        Atomic::Add(value) => (abi::atomic::SUM, value, None),
        Atomic::And(value) => (abi::atomic::BAND, value, None),
        Atomic::Or(value) => (abi::atomic::BOR, value, None),
        Atomic::Xor(value) => (abi::atomic::BXOR, value, None),
        Atomic::CompareSwap { expected, desired } => {
            (abi::atomic::CSWAP, desired, Some(expected as u64))
        }
    };
    Some(AtomicCall { datatype, op, operand: operand as u64, expected })
}
