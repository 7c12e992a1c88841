//! libfabric's declarations: the structures and constants of its headers that are used here.
//!
//! They are those of version 1.17 of the interface, which later versions extend only at their ends.
//! [`super::layout`] compares every one of them with the installed headers.

use std::ffi::{c_char, c_int, c_void};

/// The entry of a peer in an address vector (`fi_addr_t`).
pub(crate) type Peer = u64;
/// Any peer (`FI_ADDR_UNSPEC`).
pub(crate) const ADDR_UNSPEC: Peer = u64::MAX;

pub(crate) const API_VERSION: u32 = (1 << 16) | 17;

pub(crate) const MSG: u64 = 1 << 1;
pub(crate) const RMA: u64 = 1 << 2;
pub(crate) const ATOMIC: u64 = 1 << 4;
pub(crate) const READ: u64 = 1 << 8;
pub(crate) const WRITE: u64 = 1 << 9;
pub(crate) const RECV: u64 = 1 << 10;
pub(crate) const SEND: u64 = 1 << 11;
pub(crate) const REMOTE_READ: u64 = 1 << 12;
pub(crate) const REMOTE_WRITE: u64 = 1 << 13;
pub(crate) const COMPLETION: u64 = 1 << 24;
pub(crate) const INJECT: u64 = 1 << 25;
pub(crate) const DELIVERY_COMPLETE: u64 = 1 << 28;
/// The provider uses a part of each operation's context.
pub(crate) const MODE_CONTEXT: u64 = 1 << 59;
pub(crate) const MODE_CONTEXT2: u64 = 1 << 52;

/// The first and the last format of addresses that are IP addresses.
pub(crate) const SOCKADDR: u32 = 1;
pub(crate) const SOCKADDR_IN6: u32 = 3;
pub(crate) const EP_RDM: c_int = 3;
pub(crate) const AV_MAP: c_int = 1;
pub(crate) const THREAD_SAFE: c_int = 1;
pub(crate) const WAIT_NONE: c_int = 0;
pub(crate) const WAIT_FD: c_int = 3;
pub(crate) const CQ_FORMAT_DATA: c_int = 3;
pub(crate) const MR_LOCAL: c_int = 1 << 2;
pub(crate) const MR_VIRT_ADDR: c_int = 1 << 4;
pub(crate) const MR_ALLOCATED: c_int = 1 << 5;
pub(crate) const MR_PROV_KEY: c_int = 1 << 6;
pub(crate) const MR_ENDPOINT: c_int = 1 << 9;
pub(crate) const GETWAIT: c_int = 5;
pub(crate) const ENABLE: c_int = 6;
pub(crate) const NUMERIC_HOST: u64 = 1 << 55;
pub(crate) const SOURCE: u64 = 1 << 57;

pub(crate) const EAGAIN: isize = 11;
pub(crate) const ENODATA: i32 = 61;
pub(crate) const EAVAIL: isize = 259;

pub(crate) mod atomic {
    use super::c_int;
    pub(crate) const UINT32: c_int = 5;
    pub(crate) const UINT64: c_int = 7;
    pub(crate) const SUM: c_int = 2;
    pub(crate) const BOR: c_int = 6;
    pub(crate) const BAND: c_int = 7;
    pub(crate) const BXOR: c_int = 9;
    pub(crate) const READ: c_int = 10;
    pub(crate) const WRITE: c_int = 11;
    pub(crate) const CSWAP: c_int = 12;
}

#[repr(C)]
pub(crate) struct Info {
    pub(crate) next: *mut Info,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) src_addrlen: usize,
    pub(crate) dest_addrlen: usize,
    pub(crate) src_addr: *mut c_void,
    pub(crate) dest_addr: *mut c_void,
    pub(crate) handle: *mut Fid,
    pub(crate) tx_attr: *mut TxAttr,
    pub(crate) rx_attr: *mut RxAttr,
    pub(crate) ep_attr: *mut EpAttr,
    pub(crate) domain_attr: *mut DomainAttr,
    pub(crate) fabric_attr: *mut FabricAttr,
    pub(crate) nic: *mut c_void,
}

#[repr(C)]
pub(crate) struct TxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) inject_size: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
    pub(crate) rma_iov_limit: usize,
    pub(crate) tclass: u32,
}

#[repr(C)]
pub(crate) struct RxAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) total_buffered_recv: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
}

#[repr(C)]
pub(crate) struct EpAttr {
    pub(crate) kind: c_int,
    pub(crate) protocol: u32,
    pub(crate) protocol_version: u32,
    pub(crate) max_msg_size: usize,
    pub(crate) msg_prefix_size: usize,
    pub(crate) max_order_raw_size: usize,
    pub(crate) max_order_war_size: usize,
    pub(crate) max_order_waw_size: usize,
    pub(crate) mem_tag_format: u64,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) auth_key_size: usize,
    pub(crate) auth_key: *mut u8,
}

#[repr(C)]
pub(crate) struct DomainAttr {
    pub(crate) domain: *mut Domain,
    pub(crate) name: *mut c_char,
    pub(crate) threading: c_int,
    pub(crate) control_progress: c_int,
    pub(crate) data_progress: c_int,
    pub(crate) resource_mgmt: c_int,
    pub(crate) av_type: c_int,
    pub(crate) mr_mode: c_int,
    pub(crate) mr_key_size: usize,
    pub(crate) cq_data_size: usize,
    pub(crate) cq_cnt: usize,
    pub(crate) ep_cnt: usize,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) max_ep_tx_ctx: usize,
    pub(crate) max_ep_rx_ctx: usize,
    pub(crate) max_ep_stx_ctx: usize,
    pub(crate) max_ep_srx_ctx: usize,
    pub(crate) cntr_cnt: usize,
    pub(crate) mr_iov_limit: usize,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) auth_key: *mut u8,
    pub(crate) auth_key_size: usize,
    pub(crate) max_err_data: usize,
    pub(crate) mr_cnt: usize,
    pub(crate) tclass: u32,
}

#[repr(C)]
pub(crate) struct FabricAttr {
    pub(crate) fabric: *mut Fabric,
    pub(crate) name: *mut c_char,
    pub(crate) prov_name: *mut c_char,
    pub(crate) prov_version: u32,
    pub(crate) api_version: u32,
}

/// The beginning of every object of the library.
#[repr(C)]
pub(crate) struct Fid {
    pub(crate) class: usize,
    pub(crate) context: *mut c_void,
    pub(crate) ops: *mut Ops,
}

/// A function of a table that is not used here.
type Unused = *const c_void;

#[repr(C)]
pub(crate) struct Ops {
    pub(crate) size: usize,
    pub(crate) close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub(crate) bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub(crate) control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
    pub(crate) rest: [Unused; 3],
}

#[repr(C)]
pub(crate) struct Fabric {
    pub(crate) fid: Fid,
    pub(crate) ops: *mut FabricOps,
    pub(crate) api_version: u32,
}

#[repr(C)]
pub(crate) struct FabricOps {
    pub(crate) size: usize,
    pub(crate) domain:
        unsafe extern "C" fn(*mut Fabric, *mut Info, *mut *mut Domain, *mut c_void) -> c_int,
    pub(crate) passive_ep: Unused,
    pub(crate) eq_open: Unused,
    pub(crate) wait_open: Unused,
    pub(crate) trywait: unsafe extern "C" fn(*mut Fabric, *mut *mut Fid, c_int) -> c_int,
    pub(crate) domain2: Unused,
}

#[repr(C)]
pub(crate) struct Domain {
    pub(crate) fid: Fid,
    pub(crate) ops: *mut DomainOps,
    pub(crate) mr: *mut MrOps,
}

#[repr(C)]
pub(crate) struct DomainOps {
    pub(crate) size: usize,
    pub(crate) av_open:
        unsafe extern "C" fn(*mut Domain, *mut AvAttr, *mut *mut Av, *mut c_void) -> c_int,
    pub(crate) cq_open:
        unsafe extern "C" fn(*mut Domain, *mut CqAttr, *mut *mut Cq, *mut c_void) -> c_int,
    pub(crate) endpoint:
        unsafe extern "C" fn(*mut Domain, *mut Info, *mut *mut Ep, *mut c_void) -> c_int,
    pub(crate) rest: [Unused; 8],
}

#[repr(C)]
pub(crate) struct MrOps {
    pub(crate) size: usize,
    pub(crate) reg: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut Mr,
        *mut c_void,
    ) -> c_int,
    pub(crate) rest: [Unused; 2],
}

#[repr(C)]
pub(crate) struct Mr {
    pub(crate) fid: Fid,
    pub(crate) mem_desc: *mut c_void,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct AvAttr {
    pub(crate) kind: c_int,
    pub(crate) rx_ctx_bits: c_int,
    pub(crate) count: usize,
    pub(crate) ep_per_node: usize,
    pub(crate) name: *const c_char,
    pub(crate) map_addr: *mut c_void,
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct Av {
    pub(crate) fid: Fid,
    pub(crate) ops: *mut AvOps,
}

#[repr(C)]
pub(crate) struct AvOps {
    pub(crate) size: usize,
    pub(crate) insert:
        unsafe extern "C" fn(*mut Av, *const c_void, usize, *mut Peer, u64, *mut c_void) -> c_int,
    pub(crate) rest: [Unused; 6],
}

#[repr(C)]
pub(crate) struct CqAttr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) format: c_int,
    pub(crate) wait_obj: c_int,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_cond: c_int,
    pub(crate) wait_set: *mut c_void,
}

#[repr(C)]
pub(crate) struct Cq {
    pub(crate) fid: Fid,
    pub(crate) ops: *mut CqOps,
}

#[repr(C)]
pub(crate) struct CqOps {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut Cq, *mut c_void, usize) -> isize,
    pub(crate) readfrom: Unused,
    pub(crate) readerr: unsafe extern "C" fn(*mut Cq, *mut CqErrEntry, u64) -> isize,
    pub(crate) rest: [Unused; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CqEntry {
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct CqErrEntry {
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) olen: usize,
    pub(crate) err: c_int,
    pub(crate) prov_errno: c_int,
    pub(crate) err_data: *mut c_void,
    pub(crate) err_data_size: usize,
}

#[repr(C)]
pub(crate) struct Ep {
    pub(crate) fid: Fid,
    pub(crate) ops: Unused,
    pub(crate) cm: *mut CmOps,
    pub(crate) msg: *mut MsgOps,
    pub(crate) rma: *mut RmaOps,
    pub(crate) tagged: Unused,
    pub(crate) atomic: *mut AtomicOps,
    pub(crate) collective: Unused,
}

#[repr(C)]
pub(crate) struct CmOps {
    pub(crate) size: usize,
    pub(crate) setname: Unused,
    pub(crate) getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
    pub(crate) rest: [Unused; 7],
}

#[repr(C)]
pub(crate) struct MsgOps {
    pub(crate) size: usize,
    pub(crate) recv:
        unsafe extern "C" fn(*mut Ep, *mut c_void, usize, *mut c_void, Peer, *mut c_void) -> isize,
    pub(crate) recvv: Unused,
    pub(crate) recvmsg: Unused,
    pub(crate) send: unsafe extern "C" fn(
        *mut Ep,
        *const c_void,
        usize,
        *mut c_void,
        Peer,
        *mut c_void,
    ) -> isize,
    pub(crate) sendv: Unused,
    pub(crate) sendmsg: Unused,
    pub(crate) inject: unsafe extern "C" fn(*mut Ep, *const c_void, usize, Peer) -> isize,
    pub(crate) rest: [Unused; 2],
}

#[repr(C)]
pub(crate) struct RmaIov {
    pub(crate) addr: u64,
    pub(crate) len: usize,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct MsgRma {
    pub(crate) iov: *const libc::iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: Peer,
    pub(crate) rma_iov: *const RmaIov,
    pub(crate) rma_iov_count: usize,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct RmaOps {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(
        *mut Ep,
        *mut c_void,
        usize,
        *mut c_void,
        Peer,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) readv: Unused,
    pub(crate) readmsg: Unused,
    pub(crate) write: Unused,
    pub(crate) writev: Unused,
    pub(crate) writemsg: unsafe extern "C" fn(*mut Ep, *const MsgRma, u64) -> isize,
    pub(crate) rest: [Unused; 3],
}

#[repr(C)]
pub(crate) struct AtomicOps {
    pub(crate) size: usize,
    pub(crate) write: Unused,
    pub(crate) writev: Unused,
    pub(crate) writemsg: Unused,
    pub(crate) inject: Unused,
    pub(crate) readwrite: unsafe extern "C" fn(
        *mut Ep,
        *const c_void,
        usize,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        Peer,
        u64,
        u64,
        c_int,
        c_int,
        *mut c_void,
    ) -> isize,
    pub(crate) readwritev: Unused,
    pub(crate) readwritemsg: Unused,
    pub(crate) compwrite: unsafe extern "C" fn(
        *mut Ep,
        *const c_void,
        usize,
        *mut c_void,
        *const c_void,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        Peer,
        u64,
        u64,
        c_int,
        c_int,
        *mut c_void,
    ) -> isize,
    pub(crate) compwritev: Unused,
    pub(crate) compwritemsg: Unused,
    pub(crate) writevalid: Unused,
    pub(crate) readwritevalid: unsafe extern "C" fn(*mut Ep, c_int, c_int, *mut usize) -> c_int,
    pub(crate) compwritevalid: unsafe extern "C" fn(*mut Ep, c_int, c_int, *mut usize) -> c_int,
}
