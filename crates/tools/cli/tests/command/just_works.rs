//! Jobs where other runtimes need settings: small `/dev/shm`, no privileges, containers, more ranks
//! than processors. `docs/it-just-works.md` names these tests.

use std::process::Command;

use crate::support::{FARSIDE, Scratch, farside_after};

fn greets(shell: &str, options: &[&str], ranks: usize) {
    let count = ranks.to_string();
    let arguments = ["app", "hello", "-n", &count].into_iter().chain(options.iter().copied());
    let finished = farside_after(shell, arguments).run().ends_with(0);
    let greetings = finished.stdout().matches("in the memory of rank").count();
    assert_eq!(greetings, ranks, "{}", finished.stdout());
}

/// Shell code that goes on inside of new namespaces, as a container would be.
fn inside(namespaces: &str, prepare: &str) -> String {
    format!("exec unshare {namespaces} sh -c '{prepare}; exec \"$0\" \"$@\"' \"$0\" \"$@\"")
}

#[test]
fn a_small_dev_shm_is_enough() {
    let mount = "mount -t tmpfs -o size=1m none /dev/shm";
    // Each rank of the count has more shared memory than that.
    let shell = inside("--mount", mount);
    farside_after(&shell, ["app", "lu", "-n", "2", "--", "--size", "512", "--block", "64"])
        .run()
        .ends_with(0);
    greets(&shell, &["--nodes", "2"], 4);
}

#[test]
fn no_privileges_are_needed() {
    let scratch = Scratch::for_other_users();
    let program = scratch.file("farside");
    std::fs::copy(FARSIDE, &program).unwrap();
    let open = Command::new("chmod").args(["-R", "a+rX", &scratch.file("")]).status().unwrap();
    assert!(open.success());
    let nobody = "--reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --no-new-privs";
    for options in [&[][..], &["--nodes", "2"]] {
        let shell = format!("cd /; exec setpriv {nobody} {program} \"$@\"");
        greets(&shell, options, 4);
    }
}

/// A filter such as containers have: it refuses to look into other processes' memory. With `NARROW`
/// it is a kernel that has userfaultfd, and cannot watch shared memory with it; with `OLD` one that
/// finds that out when the first page is mapped, as Linux 6.1 does.
const FILTER: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef OLD
#define NARROW
#define REFUSED UFFDIO_CONTINUE
#define HOW EINVAL
#else
#define REFUSED UFFDIO_API
#define HOW EPERM
#endif
#define NO(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), \
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | HOW)
int main(int count, char **arguments) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef NARROW
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        NO(REFUSED),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#else
        NO(SYS_ptrace), NO(SYS_process_vm_readv), NO(SYS_process_vm_writev),
        NO(SYS_perf_event_open), NO(SYS_userfaultfd), NO(SYS_mbind), NO(SYS_kcmp),
#endif
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 99;
    execv(arguments[1], arguments + 1);
    return 98;
}
"#;

/// Shell code that goes on behind the filter.
fn filtered(scratch: &Scratch, definition: &str) -> String {
    let (source, filter) = (scratch.file("filter.c"), scratch.file(definition));
    std::fs::write(&source, FILTER).unwrap();
    let strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", definition];
    let compiled = Command::new("cc").args(strict).args(["-o", &filter, &source]).status();
    assert!(compiled.unwrap().success());
    format!("exec {filter} \"$0\" \"$@\"")
}

#[test]
fn ptrace_may_be_forbidden() {
    let scratch = Scratch::new();
    let shell = filtered(&scratch, "-DWIDE");
    greets(&shell, &[], 4);
    greets(&shell, &["--nodes", "2"], 4);
}

/// Shared pages do without userfaultfd, and `info` says so: where it is forbidden, and where it
/// cannot watch shared memory.
#[test]
fn userfaultfd_may_be_forbidden() {
    let scratch = Scratch::new();
    let shells = [
        "exec \"$0\" \"$@\"".to_owned(),
        filtered(&scratch, "-DWIDE"),
        filtered(&scratch, "-DNARROW"),
        filtered(&scratch, "-DOLD"),
    ];
    for (at, shell) in shells.iter().enumerate() {
        let info = farside_after(shell, ["info", "--json"]).run().ends_with(0).stdout();
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        let limits = info["limits"].as_array().unwrap();
        let limit = limits.iter().find(|limit| limit["limit"] == "userfaultfd").unwrap();
        let has_userfault = limit["value"].as_bool().unwrap();
        assert!(at == 0 || !has_userfault, "{limit}");
        assert_eq!(limit.to_string().contains("SIGSEGV"), !has_userfault, "{limit}");
        let app = |options: &[&str]| {
            let small = ["app", "jacobi", "-n", "2", "--nodes", "2", "--", "--size", "64x64"];
            farside_after(shell, small.iter().chain(options)).run()
        };
        let chosen = if has_userfault { "access userfault" } else { "access protect" };
        let stdout = app(&[]).ends_with(0).stdout();
        assert!(stdout.contains(chosen), "{chosen}: {stdout}");
        // The program compares its result with that of one rank.
        let sor = ["app", "sor", "-n", "2", "--nodes", "2", "--", "--iterations", "3"];
        farside_after(shell, sor).run().ends_with(0);
        if !has_userfault {
            let calls = ["", "because userfaultfd", "because greeting", "because mapping a page"];
            assert!(limit.to_string().contains(calls[at]), "{limit}");
            app(&["--access", "userfault"]).fails_with(&["userfaultfd"]);
        }
    }
}

#[test]
fn more_ranks_than_processors_are_fine() {
    greets("exec taskset -c 0 \"$0\" \"$@\"", &[], 32);
    let count = ["app", "count", "-n", "32", "--", "50", "default", "d-mcs", "rma-mcs"];
    farside_after("exec taskset -c 0 \"$0\" \"$@\"", count).run().ends_with(0);
}

#[test]
fn a_container_is_fine() {
    let namespaces = "--user --map-root-user --pid --fork --mount-proc --net --ipc --uts";
    let shell = inside(namespaces, "ip link set lo up");
    greets(&shell, &[], 4);
    greets(&shell, &["--nodes", "2"], 4);
}
