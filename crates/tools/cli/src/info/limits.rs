//! What the system allows, and what to do where that is too little.

use farside_job::SocketBuffer;
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};

use super::{Section, interfaces};

struct Limit {
    name: &'static str,
    value: Value,
    unit: &'static str,
    /// Whether it is enough; nothing where that depends.
    enough: Option<bool>,
    note: String,
}

pub(super) fn section() -> Section {
    let limits = [
        open_files(),
        locked_memory(),
        address_space(),
        huge_pages(),
        socket_buffer(),
        memory_group(),
        mappings(),
        process_handles(),
        userfault(),
        cross_memory(),
    ];
    let row = |limit: Limit| {
        vec![
            json!(limit.name),
            limit.value,
            json!(limit.unit),
            json!(limit.enough),
            json!(limit.note),
        ]
    };
    let rows = limits.into_iter().map(row).collect();
    Section { name: "limits", columns: &["limit", "value", "unit", "enough", "note"], rows }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: &str) -> Option<u64> {
    read(path)?.parse().ok()
}

/// A limit on resources; null is none.
fn resource(which: Resource) -> (Option<u64>, Value) {
    let current = getrlimit(which).current;
    (current, current.map_or(json!("unlimited"), |value| json!(value)))
}

fn advise(
    name: &'static str,
    value: Value,
    unit: &'static str,
    enough: bool,
    (good, advice): (&str, &str),
) -> Limit {
    let note = if enough { good } else { advice };
    Limit { name, value, unit, enough: Some(enough), note: note.to_owned() }
}

fn open_files() -> Limit {
    let (current, value) = resource(Resource::Nofile);
    // The launcher has two pipes and a handle on the process for each rank; a rank under another
    // launcher a handle on each of its neighbours.
    let notes = ("", "`farside run` needs 3 for each rank: raise it with `ulimit -n 4096`");
    advise("open files", value, "files", current.is_none_or(|files| files >= 1024), notes)
}

fn locked_memory() -> Limit {
    let (current, value) = resource(Resource::Memlock);
    let advice = "shm and nic lock nothing; interfaces that reach memory by themselves \
                  (InfiniBand, EFA, Slingshot) need all of it: \
                  `ulimit -l unlimited`, memlock in /etc/security/limits.conf, \
                  LimitMEMLOCK=infinity for slurmd";
    let enough =
        if current.is_none() { Some(true) } else { interfaces::reaches_memory().then_some(false) };
    let note = if current.is_none() { "" } else { advice }.to_owned();
    Limit { name: "locked memory", value, unit: "bytes", enough, note }
}

fn address_space() -> Limit {
    let (current, value) = resource(Resource::As);
    let advice = "a job reserves addresses for the memory of all ranks of a node: `ulimit -v \
                  unlimited`, or less with FARSIDE_MEMORY";
    advise("address space", value, "bytes", current.is_none(), ("", advice))
}

fn huge_pages() -> Limit {
    let info = read("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
    };
    let (total, kibibytes) =
        (field("HugePages_Total").unwrap_or(0), field("Hugepagesize").unwrap_or(0));
    let shared = read("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    let shared = shared.split(['[', ']']).nth(1).unwrap_or("unknown").to_owned();
    let note = format!(
        "of {kibibytes} KiB; transparent ones for shared memory: {shared}. Not needed; with `echo \
         advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled` windows get them, and some \
         providers of libfabric use reserved ones"
    );
    Limit { name: "huge pages", value: json!(total), unit: "pages", enough: None, note }
}

fn socket_buffer() -> Limit {
    match farside_job::socket_buffer() {
        Ok(SocketBuffer { asked_bytes: asked, granted_bytes: granted }) => {
            let note = format!(
                "the nic fabric asks for {asked}; with less, datagrams get lost under load and are \
                 sent again: `sysctl -w net.core.rmem_max={asked}`"
            );
            advise("UDP buffer", json!(granted), "bytes", granted >= asked, ("", &note))
        }
        Err(error) => Limit {
            name: "UDP buffer",
            value: Value::Null,
            unit: "bytes",
            enough: Some(false),
            note: error.to_string(),
        },
    }
}

fn memory_group() -> Limit {
    let limit = read("/sys/fs/cgroup/memory.max")
        .or_else(|| read("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    // The first version of control groups writes a number that no machine has.
    let limit = limit.and_then(|text| text.parse::<u64>().ok()).filter(|&bytes| bytes < 1 << 60);
    let machine = rustix::system::sysinfo();
    let ram = machine.totalram * u64::from(machine.mem_unit);
    let note = "shared memory counts; a rank beyond it is killed. A job that is to stay below it \
                takes FARSIDE_MEMORY";
    let enough = limit.is_none_or(|bytes| bytes >= ram);
    let value = limit.map_or(json!("unlimited"), |bytes| json!(bytes));
    advise("memory of the control group", value, "bytes", enough, ("", note))
}

fn mappings() -> Limit {
    let count = number("/proc/sys/vm/max_map_count");
    let advice = "shared pages (dsm) may need one for every other page: `sysctl -w \
                  vm.max_map_count=1048576`";
    let value = count.map_or(Value::Null, |count| json!(count));
    advise("mappings", value, "mappings", count.is_none_or(|count| count >= 65_530), ("", advice))
}

fn process_handles() -> Limit {
    let works = rustix::process::pidfd_open(
        rustix::process::getpid(),
        rustix::process::PidfdFlags::empty(),
    );
    let advice = "`farside run` and ranks under other launchers hear of deaths by pidfd_open: \
                  Linux 5.3, and no filter that forbids it";
    advise("process handles", json!(works.is_ok()), "", works.is_ok(), ("", advice))
}

fn userfault() -> Limit {
    let tried = farside_pager::try_userfault();
    let note = tried.map_or_else(without_userfault, |()| String::new());
    Limit { name: "userfaultfd", value: json!(tried.is_ok()), unit: "", enough: None, note }
}

/// What shared pages do without userfaultfd, and why.
fn without_userfault(error: farside_pager::Error) -> String {
    let why = std::io::Error::from_raw_os_error(error.errno);
    let cure = if error.errno == rustix::io::Errno::INVAL.raw_os_error() {
        "this kernel's cannot watch shared memory, Linux 6.4 can"
    } else {
        "to allow it: `sysctl -w vm.unprivileged_userfaultfd=1`"
    };
    format!(
        "shared pages (dsm) are protected by mprotect and SIGSEGV instead, because {} fails: \
         {why}; {cure}",
        error.call
    )
}

/// Ranks of preloaded MPI programs let each other in, which is enough up to scope 1.
fn cross_memory() -> Limit {
    let scope = number("/proc/sys/kernel/yama/ptrace_scope").unwrap_or(0);
    let status = read("/proc/self/status").unwrap_or_default();
    let is_filtered = status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]));
    let note = match (scope, is_filtered) {
        (2.., _) => {
            "windows that an MPI program makes over its own memory are reached through a thread of \
             the target, which takes longer: `sysctl -w kernel.yama.ptrace_scope=1`"
        }
        (_, true) => {
            "this container filters system calls: if process_vm_readv is among them, windows that \
             an MPI program makes over its own memory are reached through a thread of the target"
        }
        (1, _) => "libfabric's shm provider copies once less with kernel.yama.ptrace_scope=0",
        _ => "",
    };
    Limit {
        name: "cross-memory calls",
        value: json!(scope < 2),
        unit: "",
        enough: None,
        note: note.to_owned(),
    }
}
