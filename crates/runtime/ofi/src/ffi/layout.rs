//! Every structure and constant of `abi` against the installed headers of libfabric: a C program
//! prints what its compiler makes of them.

use std::mem::{offset_of, size_of};
use std::process::{Command, Output};

use super::abi;

/// The version of the interface whose structures `abi` declares; later ones extend them at their
/// ends.
const VERSION: u64 = abi::API_VERSION as u64;

/// A C expression, and its value in Rust.
struct Fact {
    expression: String,
    value: u64,
    /// Whether the C value may be greater, with headers of a later version.
    may_grow: bool,
}

macro_rules! structures {
    ($($rust:ident = $c:literal { $($field:ident $(as $name:ident)?),* $(,)? })*) => {
        vec![$(
            Fact {
                expression: format!("sizeof({})", $c),
                value: size_of::<abi::$rust>() as u64,
                may_grow: true,
            },
            $(Fact {
                expression: format!("offsetof({}, {})", $c, c_name!($field $($name)?)),
                value: offset_of!(abi::$rust, $field) as u64,
                may_grow: false,
            },)*
        )*]
    };
}

/// The name of a field in C: the same, unless another is given.
macro_rules! c_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:ident) => {
        stringify!($name)
    };
}

macro_rules! constants {
    ($($c:literal = $value:expr;)*) => {
        vec![$(Fact { expression: $c.into(), value: $value as u64, may_grow: false }),*]
    };
}

fn structures() -> Vec<Fact> {
    structures! {
        Info = "struct fi_info" {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle,
            tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, nic
        }
        TxAttr = "struct fi_tx_attr" {
            caps, mode, op_flags, msg_order, comp_order, inject_size, size, iov_limit,
            rma_iov_limit, tclass
        }
        RxAttr = "struct fi_rx_attr" {
            caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size, iov_limit
        }
        EpAttr = "struct fi_ep_attr" {
            kind as type, protocol, protocol_version, max_msg_size, msg_prefix_size,
            max_order_raw_size, max_order_war_size, max_order_waw_size, mem_tag_format, tx_ctx_cnt,
            rx_ctx_cnt, auth_key_size, auth_key
        }
        DomainAttr = "struct fi_domain_attr" {
            domain, name, threading, control_progress, data_progress, resource_mgmt, av_type,
            mr_mode, mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt,
            max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx, cntr_cnt, mr_iov_limit,
            caps, mode, auth_key, auth_key_size, max_err_data, mr_cnt, tclass
        }
        FabricAttr = "struct fi_fabric_attr" { fabric, name, prov_name, prov_version, api_version }
        Fid = "struct fid" { class as fclass, context, ops }
        Ops = "struct fi_ops" { size, close, bind, control, rest as ops_open }
        Fabric = "struct fid_fabric" { fid, ops, api_version }
        FabricOps = "struct fi_ops_fabric" {
            size, domain, passive_ep, eq_open, wait_open, trywait, domain2
        }
        Domain = "struct fid_domain" { fid, ops, mr }
        DomainOps = "struct fi_ops_domain" { size, av_open, cq_open, endpoint, rest as scalable_ep }
        MrOps = "struct fi_ops_mr" { size, reg, rest as regv }
        Mr = "struct fid_mr" { fid, mem_desc, key }
        AvAttr = "struct fi_av_attr" {
            kind as type, rx_ctx_bits, count, ep_per_node, name, map_addr, flags
        }
        Av = "struct fid_av" { fid, ops }
        AvOps = "struct fi_ops_av" { size, insert, rest as insertsvc }
        CqAttr = "struct fi_cq_attr" {
            size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set
        }
        Cq = "struct fid_cq" { fid, ops }
        CqOps = "struct fi_ops_cq" { size, read, readfrom, readerr, rest as sread }
        CqEntry = "struct fi_cq_data_entry" { context as op_context, flags, len, buf, data }
        CqErrEntry = "struct fi_cq_err_entry" {
            context as op_context, flags, len, buf, data, tag, olen, err, prov_errno, err_data,
            err_data_size
        }
        Ep = "struct fid_ep" { fid, ops, cm, msg, rma, tagged, atomic, collective }
        CmOps = "struct fi_ops_cm" { size, setname, getname, rest as getpeer }
        MsgOps = "struct fi_ops_msg" {
            size, recv, recvv, recvmsg, send, sendv, sendmsg, inject, rest as senddata
        }
        RmaIov = "struct fi_rma_iov" { addr, len, key }
        MsgRma = "struct fi_msg_rma" {
            iov as msg_iov, desc, iov_count, addr, rma_iov, rma_iov_count, context, data
        }
        RmaOps = "struct fi_ops_rma" {
            size, read, readv, readmsg, write, writev, writemsg, rest as inject
        }
        AtomicOps = "struct fi_ops_atomic" {
            size, write, writev, writemsg, inject, readwrite, readwritev, readwritemsg, compwrite,
            compwritev, compwritemsg, writevalid, readwritevalid, compwritevalid
        }
    }
}

fn constants() -> Vec<Fact> {
    constants! {
        "FI_ADDR_UNSPEC" = abi::ADDR_UNSPEC;
        "FI_MSG" = abi::MSG;
        "FI_RMA" = abi::RMA;
        "FI_ATOMIC" = abi::ATOMIC;
        "FI_READ" = abi::READ;
        "FI_WRITE" = abi::WRITE;
        "FI_RECV" = abi::RECV;
        "FI_SEND" = abi::SEND;
        "FI_REMOTE_READ" = abi::REMOTE_READ;
        "FI_REMOTE_WRITE" = abi::REMOTE_WRITE;
        "FI_COMPLETION" = abi::COMPLETION;
        "FI_INJECT" = abi::INJECT;
        "FI_DELIVERY_COMPLETE" = abi::DELIVERY_COMPLETE;
        "FI_CONTEXT" = abi::MODE_CONTEXT;
        "FI_CONTEXT2" = abi::MODE_CONTEXT2;
        "FI_SOCKADDR" = abi::SOCKADDR;
        "FI_SOCKADDR_IN6" = abi::SOCKADDR_IN6;
        "FI_EP_RDM" = abi::EP_RDM;
        "FI_AV_MAP" = abi::AV_MAP;
        "FI_THREAD_SAFE" = abi::THREAD_SAFE;
        "FI_WAIT_NONE" = abi::WAIT_NONE;
        "FI_WAIT_FD" = abi::WAIT_FD;
        "FI_CQ_FORMAT_DATA" = abi::CQ_FORMAT_DATA;
        "FI_MR_LOCAL" = abi::MR_LOCAL;
        "FI_MR_VIRT_ADDR" = abi::MR_VIRT_ADDR;
        "FI_MR_ALLOCATED" = abi::MR_ALLOCATED;
        "FI_MR_PROV_KEY" = abi::MR_PROV_KEY;
        "FI_MR_ENDPOINT" = abi::MR_ENDPOINT;
        "FI_GETWAIT" = abi::GETWAIT;
        "FI_ENABLE" = abi::ENABLE;
        "FI_NUMERICHOST" = abi::NUMERIC_HOST;
        "FI_SOURCE" = abi::SOURCE;
        "FI_EAGAIN" = abi::EAGAIN;
        "FI_ENODATA" = abi::ENODATA;
        "FI_EAVAIL" = abi::EAVAIL;
        "FI_UINT32" = abi::atomic::UINT32;
        "FI_UINT64" = abi::atomic::UINT64;
        "FI_SUM" = abi::atomic::SUM;
        "FI_BOR" = abi::atomic::BOR;
        "FI_BAND" = abi::atomic::BAND;
        "FI_BXOR" = abi::atomic::BXOR;
        "FI_ATOMIC_READ" = abi::atomic::READ;
        "FI_ATOMIC_WRITE" = abi::atomic::WRITE;
        "FI_CSWAP" = abi::atomic::CSWAP;
    }
}

fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(output) } else { Err(format!("{command:?}: {}", said())) }
}

fn values_in_c(expressions: &[&str]) -> Result<Vec<u64>, String> {
    let prints: String = expressions
        .iter()
        .map(|each| format!("    printf(\"%llu\\n\", (unsigned long long)({each}));\n"))
        .collect();
    let program = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <rdma/fabric.h>\n\
         #include <rdma/fi_atomic.h>\n#include <rdma/fi_cm.h>\n#include <rdma/fi_domain.h>\n\
         #include <rdma/fi_endpoint.h>\n#include <rdma/fi_eq.h>\n#include <rdma/fi_errno.h>\n\
         #include <rdma/fi_rma.h>\n\nint main(void) {{\n{prints}    return 0;\n}}\n"
    );
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("abi.c"), program).map_err(|error| error.to_string())?;
    run(Command::new("cc").arg("-o").arg(file("abi")).arg(file("abi.c")))?;
    let output = run(&mut Command::new(file("abi")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| line.parse().map_err(|_| format!("{line:?} is not a number"))).collect()
}

/// Says that the headers are missing; in CI that is a failure.
fn skip(why: &str) {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    assert!(!in_ci, "in CI nothing is skipped: {why}");
    println!("skipped: install gcc and libfabric-dev ({why})");
}

#[test]
fn declarations_are_those_of_the_headers() {
    let version = match values_in_c(&["FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)"]) {
        Ok(values) => values[0],
        Err(why) => return skip(&why),
    };
    assert!(version >= VERSION, "headers of version {version:#x} are too old");
    let mut facts = structures();
    facts.extend(constants());
    let expressions: Vec<&str> = facts.iter().map(|fact| fact.expression.as_str()).collect();
    let values = values_in_c(&expressions).expect("the headers declare all of them");
    assert_eq!(values.len(), facts.len());
    let is_wrong = |(fact, value): &(&Fact, u64)| {
        let has_grown = fact.may_grow && version > VERSION && *value > fact.value;
        *value != fact.value && !has_grown
    };
    let wrong: Vec<String> = facts
        .iter()
        .zip(values)
        .filter(is_wrong)
        .map(|(fact, value)| format!("{} is {value}, not {}", fact.expression, fact.value))
        .collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), facts.len());
}
