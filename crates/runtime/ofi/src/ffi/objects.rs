//! libfabric's objects: domains, memory regions, and endpoints with their queue and addresses.
//!
//! This is the one file that calls through the objects' tables of functions. Each object holds the
//! ones that it was made from, so that they are closed in the right order. All are used under
//! `FI_THREAD_SAFE`.

use std::ffi::c_void;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::Arc;

use farside_fabric::Result;

use super::abi::{self, Peer};
use super::info::Info;
use super::library::Library;
use super::operation::{
    AtomicCall, Completion, Context, LocalBytes, Posted, RemoteBytes, index_of,
};

/// The number of completions that are read at a time.
const READ_AT_ONCE: usize = 16;
/// The number of completions that may wait.
const COMPLETIONS: usize = 4096;
/// The length of the longest address of an endpoint.
const ADDRESS_BYTES: usize = 256;

/// Closes an object, and returns whether it is closed. What the library refuses to close stays
/// until the process ends.
///
/// # Safety
///
/// `fid` must be the beginning of an open object, which is not used after it was closed.
unsafe fn close(fid: *mut abi::Fid) -> bool {
    // SAFETY: open by the caller's promise.
    unsafe { ((*(*fid).ops).close)(fid) == 0 }
}

struct Fabric(*mut abi::Fabric);

impl Drop for Fabric {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once.
        unsafe { close(self.0.cast()) };
    }
}

/// A domain: a provider opened.
pub(crate) struct Domain {
    raw: *mut abi::Domain,
    fabric: Fabric,
    info: Info,
}

// SAFETY: domains are used under FI_THREAD_SAFE.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once; what was made from it is closed.
        unsafe { close(self.raw.cast()) };
    }
}

impl Domain {
    pub(crate) fn open(info: Info) -> Result<Domain> {
        let library = info.library();
        let mut fabric = ptr::null_mut();
        // SAFETY: the info is alive and complete.
        let opened =
            unsafe { (library.fabric)((*info.as_ptr()).fabric_attr, &mut fabric, ptr::null_mut()) };
        library.check("fi_fabric", opened)?;
        let fabric = Fabric(fabric);
        let mut raw = ptr::null_mut();
        // SAFETY: the fabric is open, the info alive and complete.
        let opened = unsafe {
            ((*(*fabric.0).ops).domain)(fabric.0, info.as_ptr(), &mut raw, ptr::null_mut())
        };
        library.check("fi_domain", opened)?;
        Ok(Domain { raw, fabric, info })
    }

    pub(crate) fn info(&self) -> &Info {
        &self.info
    }

    fn library(&self) -> &Library {
        self.info.library()
    }

    /// Registers memory of this process under a key, which the provider may replace.
    ///
    /// # Safety
    ///
    /// The memory must stay mapped until the region is dropped.
    pub(crate) unsafe fn register(
        self: &Arc<Domain>,
        base: *mut u8,
        bytes: usize,
        access: u64,
        key: u64,
    ) -> Result<MemoryRegion> {
        let mut raw = ptr::null_mut();
        // SAFETY: the domain is open, and the memory mapped by the caller's promise.
        let status = unsafe {
            let domain = ptr::addr_of_mut!((*self.raw).fid);
            let reg = (*(*self.raw).mr).reg;
            reg(domain, base.cast(), bytes, access, 0, key, 0, &mut raw, ptr::null_mut())
        };
        self.library().check("fi_mr_reg", status)?;
        Ok(MemoryRegion { raw, domain: self.clone() })
    }
}

pub(crate) struct MemoryRegion {
    raw: *mut abi::Mr,
    domain: Arc<Domain>,
}

// SAFETY: regions are used under FI_THREAD_SAFE.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above.
unsafe impl Sync for MemoryRegion {}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once.
        unsafe { close(self.raw.cast()) };
    }
}

impl MemoryRegion {
    /// Lets an endpoint serve the region, on providers that require that.
    pub(crate) fn serve_by(&self, endpoint: &Endpoint) -> Result<()> {
        // SAFETY: both are open.
        let status = unsafe {
            let fid = ptr::addr_of_mut!((*self.raw).fid);
            let ops = &*(*fid).ops;
            match (ops.bind)(fid, ptr::addr_of_mut!((*endpoint.raw).fid), 0) {
                0 => (ops.control)(fid, abi::ENABLE, ptr::null_mut()),
                refused => refused,
            }
        };
        self.domain.library().check("fi_mr_enable", status)
    }

    /// Returns the key by which remote operations name the region.
    pub(crate) fn key(&self) -> u64 {
        // SAFETY: it is open.
        unsafe { (*self.raw).key }
    }

    /// Returns the descriptor by which local operations name the region.
    pub(crate) fn desc(&self) -> *mut c_void {
        // SAFETY: it is open.
        unsafe { (*self.raw).mem_desc }
    }
}

struct CompletionQueue {
    raw: *mut abi::Cq,
    /// A file that can be polled for completions, if the provider has one.
    fd: Option<RawFd>,
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once.
        unsafe { close(self.raw.cast()) };
    }
}

impl CompletionQueue {
    fn open(domain: &Domain) -> Result<CompletionQueue> {
        let mut attr = abi::CqAttr {
            size: COMPLETIONS,
            flags: 0,
            format: abi::CQ_FORMAT_DATA,
            wait_obj: abi::WAIT_FD,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: ptr::null_mut(),
        };
        let mut raw = ptr::null_mut();
        // SAFETY: the domain is open, and all arguments are alive.
        unsafe {
            let open = (*(*domain.raw).ops).cq_open;
            if open(domain.raw, &mut attr, &mut raw, ptr::null_mut()) == 0 {
                let mut fd: RawFd = -1;
                let fid = ptr::addr_of_mut!((*raw).fid);
                let into = ptr::addr_of_mut!(fd).cast();
                let asked = ((*(*fid).ops).control)(fid, abi::GETWAIT, into);
                return Ok(CompletionQueue { raw, fd: (asked == 0 && fd >= 0).then_some(fd) });
            }
            // The provider has no file to poll.
            attr.wait_obj = abi::WAIT_NONE;
            let opened = open(domain.raw, &mut attr, &mut raw, ptr::null_mut());
            domain.library().check("fi_cq_open", opened)?;
        }
        Ok(CompletionQueue { raw, fd: None })
    }
}

struct AddressVector(*mut abi::Av);

impl Drop for AddressVector {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once.
        unsafe { close(self.0.cast()) };
    }
}

impl AddressVector {
    fn open(domain: &Domain) -> Result<AddressVector> {
        let mut attr = abi::AvAttr {
            kind: domain.info.av_type(),
            rx_ctx_bits: 0,
            count: 0,
            ep_per_node: 0,
            name: ptr::null(),
            map_addr: ptr::null_mut(),
            flags: 0,
        };
        let mut raw = ptr::null_mut();
        // SAFETY: the domain is open, and all arguments are alive.
        let opened = unsafe {
            ((*(*domain.raw).ops).av_open)(domain.raw, &mut attr, &mut raw, ptr::null_mut())
        };
        domain.library().check("fi_av_open", opened)?;
        Ok(AddressVector(raw))
    }
}

/// An endpoint with its completion queue and its address vector. Those are closed after it.
pub(crate) struct Endpoint {
    raw: *mut abi::Ep,
    cq: CompletionQueue,
    av: AddressVector,
    domain: Arc<Domain>,
}

// SAFETY: endpoints, queues and vectors are used under FI_THREAD_SAFE.
unsafe impl Send for Endpoint {}
// SAFETY: as above.
unsafe impl Sync for Endpoint {}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.close();
    }
}

impl Endpoint {
    /// Closes it, and returns whether it is closed: then no operation uses its memory any more.
    /// Nothing may be started afterwards.
    pub(crate) fn close(&mut self) -> bool {
        // SAFETY: it is open, and closed once, before what it is bound to.
        if !self.raw.is_null() && unsafe { close(self.raw.cast()) } {
            self.raw = ptr::null_mut();
        }
        self.raw.is_null()
    }

    pub(crate) fn open(domain: &Arc<Domain>) -> Result<Endpoint> {
        let (cq, av) = (CompletionQueue::open(domain)?, AddressVector::open(domain)?);
        let library = domain.library();
        let mut raw = ptr::null_mut();
        // SAFETY: the domain is open, the info alive and complete.
        let opened = unsafe {
            let open = (*(*domain.raw).ops).endpoint;
            open(domain.raw, domain.info.as_ptr(), &mut raw, ptr::null_mut())
        };
        library.check("fi_endpoint", opened)?;
        let endpoint = Endpoint { raw, cq, av, domain: domain.clone() };
        // SAFETY: all three are open, and bound before the endpoint is enabled.
        unsafe {
            let fid = ptr::addr_of_mut!((*raw).fid);
            let ops = &*(*fid).ops;
            let av = ptr::addr_of_mut!((*endpoint.av.0).fid);
            library.check("binding an address vector", (ops.bind)(fid, av, 0))?;
            let cq = ptr::addr_of_mut!((*endpoint.cq.raw).fid);
            let bound = (ops.bind)(fid, cq, abi::SEND | abi::RECV);
            library.check("binding a completion queue", bound)?;
            library.check("fi_enable", (ops.control)(fid, abi::ENABLE, ptr::null_mut()))?;
        }
        Ok(endpoint)
    }

    pub(crate) fn address(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0u8; ADDRESS_BYTES];
        let mut length = bytes.len();
        // SAFETY: the endpoint is open; no more is written than there is room for.
        let status = unsafe {
            let getname = (*(*self.raw).cm).getname;
            getname(ptr::addr_of_mut!((*self.raw).fid), bytes.as_mut_ptr().cast(), &mut length)
        };
        self.domain.library().check("fi_getname", status)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    pub(crate) fn insert(&self, address: &[u8]) -> Result<Peer> {
        // The provider reads as many bytes as its own addresses have; some are strings, which end
        // with zero.
        let mut padded = vec![0; ADDRESS_BYTES.max(address.len() + 1)];
        padded[..address.len()].copy_from_slice(address);
        let mut peer = abi::ADDR_UNSPEC;
        // SAFETY: the vector is open; the address is longer than any that the provider reads.
        let inserted = unsafe {
            let insert = (*(*self.av.0).ops).insert;
            insert(self.av.0, padded.as_ptr().cast(), 1, &mut peer, 0, ptr::null_mut())
        };
        match inserted {
            1 => Ok(peer),
            status => Err(self.domain.library().error("fi_av_insert", status.min(-libc::EINVAL))),
        }
    }

    fn posted(&self, call: &'static str, status: isize) -> Posted {
        match -status {
            0 => Posted::Yes,
            abi::EAGAIN => Posted::Busy,
            _ => Posted::No(self.domain.library().error(call, status as i32)),
        }
    }

    /// Sends a message of at most [`Info::inject_bytes`], which is copied.
    pub(crate) fn inject(&self, to: Peer, message: &[u8]) -> Posted {
        // SAFETY: the endpoint is open; the bytes are copied before this returns.
        let status = unsafe {
            ((*(*self.raw).msg).inject)(self.raw, message.as_ptr().cast(), message.len(), to)
        };
        self.posted("fi_inject", status)
    }

    /// Starts to receive a message from any peer.
    ///
    /// # Safety
    ///
    /// `into` and `context` must stay valid, and unused by anything else, until the operation
    /// completes or the endpoint is dropped; so for all operations.
    pub(crate) unsafe fn receive(&self, into: LocalBytes, context: *mut Context) -> Posted {
        let LocalBytes { start, bytes, desc } = into;
        // SAFETY: the endpoint is open; the rest by the caller's promise.
        let status = unsafe {
            let recv = (*(*self.raw).msg).recv;
            recv(self.raw, start.cast(), bytes, desc, abi::ADDR_UNSPEC, context.cast())
        };
        self.posted("fi_recv", status)
    }

    /// Starts to send a message.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::receive`].
    pub(crate) unsafe fn send(&self, to: Peer, from: LocalBytes, context: *mut Context) -> Posted {
        let LocalBytes { start, bytes, desc } = from;
        // SAFETY: the endpoint is open; the rest by the caller's promise.
        let status = unsafe {
            ((*(*self.raw).msg).send)(self.raw, start.cast(), bytes, desc, to, context.cast())
        };
        self.posted("fi_send", status)
    }

    /// Starts to write to remote memory; completes when the bytes have landed there. Bytes of at
    /// most [`Info::inject_bytes`] may be copied at once: `injects`.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::receive`]; bytes that are copied at once need be valid for this call
    /// only.
    pub(crate) unsafe fn write(
        &self,
        to: RemoteBytes,
        from: LocalBytes,
        injects: bool,
        context: *mut Context,
    ) -> Posted {
        let LocalBytes { start, bytes, mut desc } = from;
        let iov = libc::iovec { iov_base: start.cast(), iov_len: bytes };
        let remote = abi::RmaIov { addr: to.address, len: bytes, key: to.key };
        let message = abi::MsgRma {
            iov: &iov,
            desc: &mut desc,
            iov_count: 1,
            addr: to.peer,
            rma_iov: &remote,
            rma_iov_count: 1,
            context: context.cast(),
            data: 0,
        };
        let inject = if injects { abi::INJECT } else { 0 };
        let flags = abi::COMPLETION | abi::DELIVERY_COMPLETE | inject;
        // SAFETY: the endpoint is open, the message alive; the rest by the caller's promise.
        let status = unsafe { ((*(*self.raw).rma).writemsg)(self.raw, &message, flags) };
        self.posted("fi_writemsg", status)
    }

    /// Starts to read remote memory.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::receive`].
    pub(crate) unsafe fn read(
        &self,
        from: RemoteBytes,
        into: LocalBytes,
        context: *mut Context,
    ) -> Posted {
        let RemoteBytes { peer, address, key } = from;
        let LocalBytes { start, bytes, desc } = into;
        // SAFETY: the endpoint is open; the rest by the caller's promise.
        let status = unsafe {
            let read = (*(*self.raw).rma).read;
            read(self.raw, start.cast(), bytes, desc, peer, address, key, context.cast())
        };
        self.posted("fi_read", status)
    }

    /// Starts an atomic on a remote word. `operands` holds the operand at
    /// [`AtomicCall::OPERAND_AT`], the expected value at [`AtomicCall::EXPECTED_AT`], and gets the
    /// old value at its beginning.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::receive`]; `operands` must have [`AtomicCall::BYTES`], and the provider
    /// must have atomics.
    pub(crate) unsafe fn atomic(
        &self,
        at: RemoteBytes,
        call: AtomicCall,
        operands: LocalBytes,
        context: *mut Context,
    ) -> Posted {
        let RemoteBytes { peer, address, key } = at;
        let LocalBytes { start, desc, .. } = operands;
        let (ep, context, result) = (self.raw, context.cast(), start.cast());
        let AtomicCall { datatype, op, expected, .. } = call;
        // SAFETY: the endpoint is open; the rest by the caller's promise.
        let status = unsafe {
            let operand = start.add(AtomicCall::OPERAND_AT).cast();
            let compared = start.add(AtomicCall::EXPECTED_AT).cast();
            let ops = &*(*ep).atomic;
            if expected.is_some() {
                (ops.compwrite)(
                    ep, operand, 1, desc, compared, desc, result, desc, peer, address, key,
                    datatype, op, context,
                )
            } else {
                (ops.readwrite)(
                    ep, operand, 1, desc, result, desc, peer, address, key, datatype, op, context,
                )
            }
        };
        self.posted("fi_fetch_atomic", status)
    }

    pub(crate) fn has_atomic(&self, call: AtomicCall) -> bool {
        let mut count = 0;
        // SAFETY: the endpoint is open.
        let status = unsafe {
            if !self.domain.info.has_atomics() || (*self.raw).atomic.is_null() {
                return false;
            }
            let ops = &*(*self.raw).atomic;
            let is_compare = call.expected.is_some();
            let valid = if is_compare { ops.compwritevalid } else { ops.readwritevalid };
            valid(self.raw, call.datatype, call.op, &mut count)
        };
        status == 0 && count >= 1
    }

    /// Lets the provider progress, and reports what has completed. Returns whether anything has.
    pub(crate) fn poll(&self, mut completed: impl FnMut(Completion)) -> bool {
        let empty = abi::CqEntry {
            context: ptr::null_mut(),
            flags: 0,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
        };
        let mut entries = [empty; READ_AT_ONCE];
        let cq = self.cq.raw;
        // SAFETY: the queue is open, and there is room for so many entries of its format.
        let read = unsafe { ((*(*cq).ops).read)(cq, entries.as_mut_ptr().cast(), READ_AT_ONCE) };
        if read == -abi::EAVAIL {
            if let Some(failure) = self.failure() {
                completed(failure);
            }
            return true;
        }
        let Ok(count) = usize::try_from(read) else { return false };
        for entry in &entries[..count] {
            // SAFETY: the queue has reported it.
            if let Some(index) = unsafe { index_of(entry.context) } {
                completed(Completion { index, outcome: Ok(entry.len) });
            }
        }
        count > 0
    }

    fn failure(&self) -> Option<Completion> {
        let cq = self.cq.raw;
        // SAFETY: all zeros is a value of this type: numbers and null.
        let mut entry: abi::CqErrEntry = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open, and there is room for the entry.
        let read = unsafe { ((*(*cq).ops).readerr)(cq, &mut entry, 0) };
        if read < 0 {
            return None;
        }
        // SAFETY: the queue has reported it.
        let index = unsafe { index_of(entry.context) }?;
        let error = self.domain.library().error("an operation", -entry.err);
        Some(Completion { index, outcome: Err(error) })
    }

    /// Returns whether [`Endpoint::wait_fd`] ever returns a file.
    pub(crate) fn has_wait_fd(&self) -> bool {
        self.cq.fd.is_some()
    }

    /// Returns a file that can be polled for completions, if the provider has one and would report
    /// everything that completes from now on.
    pub(crate) fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        let fd = self.cq.fd?;
        // SAFETY: both are open; the file stays open as long as the queue does.
        unsafe {
            let mut fid = ptr::addr_of_mut!((*self.cq.raw).fid);
            let fabric = self.domain.fabric.0;
            let may = ((*(*fabric).ops).trywait)(fabric, &mut fid, 1);
            (may == 0).then(|| BorrowedFd::borrow_raw(fd))
        }
    }
}
