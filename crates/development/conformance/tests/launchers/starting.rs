//! Starts that cannot come to an end: they say so, name who is missing, and end.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

use super::support::{DEADLINE, Launcher, Marked, PROGRAM, command, run, wanted};

/// What a rank does in these tests, if it can start.
const TEST: &str = "tickets_are_unique";
/// Longer than any test: who ends before it has found out that there is nobody to wait for.
const NEVER: (&str, &str) = ("FARSIDE_START_TIMEOUT", "100000");

/// A PMIx library of one process that is stuck in the call that `FAKE_PMIX_STUCK` names.
const FAKE_PMIX: &str = r#"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct value { uint16_t kind; union { uint32_t number; char *string; uint64_t whole[3]; } data; };
static struct { char *key, *text; } kept[100];
static int count;
static void maybe_stuck(const char *call) {
    const char *stuck = getenv("FAKE_PMIX_STUCK");
    while (stuck && !strcmp(stuck, call)) pause();
}
int PMIx_Init(void *me, void *info, size_t n) {
    memset(me, 0, 260); maybe_stuck("PMIx_Init"); return 0;
}
int PMIx_Put(uint8_t scope, const char *key, struct value *value) {
    maybe_stuck("PMIx_Put");
    kept[count].key = strdup(key);
    kept[count++].text = strdup(value->data.string);
    return 0;
}
int PMIx_Commit(void) { maybe_stuck("PMIx_Commit"); return 0; }
int PMIx_Fence(void *procs, size_t n, void *info, size_t m) { maybe_stuck("PMIx_Fence"); return 0; }
int PMIx_Get(void *proc, const char *key, void *info, size_t n, struct value **value) {
    maybe_stuck("PMIx_Get");
    *value = calloc(1, sizeof **value);
    if (!strcmp(key, "pmix.job.size")) { (*value)->kind = 14; (*value)->data.number = 1; return 0; }
    for (int i = 0; i < count; i++)
        if (!strcmp(key, kept[i].key)) {
            (*value)->kind = 3; (*value)->data.string = strdup(kept[i].text); return 0;
        }
    return -46;
}
int PMIx_Finalize(void *info, size_t n) { maybe_stuck("PMIx_Finalize"); return 0; }
const char *PMIx_Error_string(int status) { return "NOT FOUND"; }
const char *PMIx_Get_version(void) { return "fake"; }
"#;

/// Compiles that library; none if there is no compiler, which is said aloud.
fn fake_pmix() -> Option<PathBuf> {
    if !wanted(&["gcc"]) {
        return None;
    }
    let library = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("libfakepmix-{}.so", std::process::id()));
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-w", "-x", "c", "-o"])
        .arg(&library)
        .arg("-")
        .stdin(Stdio::piped());
    let mut child = gcc.spawn().expect("the compiler starts");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(FAKE_PMIX.as_bytes())
        .expect("the compiler reads");
    assert!(child.wait().expect("it ends").success(), "the library compiles");
    Some(library)
}

#[test]
fn a_pmix_library_that_never_answers_is_given_up() {
    let Some(library) = fake_pmix() else { return };
    let started = |stuck: &str| {
        let variables =
            [("PMIX_NAMESPACE", "fake"), ("PMIX_RANK", "0"), ("FARSIDE_START_TIMEOUT", "1")];
        let mut job = command(PROGRAM);
        job.arg(TEST)
            .envs(variables)
            .env("FARSIDE_PMIX_LIBRARY", &library)
            .env("FAKE_PMIX_STUCK", stuck);
        run(&mut job)
    };
    assert!(started("").status.success(), "a library that answers: {:?}", started(""));
    for call in ["PMIx_Init", "PMIx_Get", "PMIx_Put", "PMIx_Commit", "PMIx_Fence", "PMIx_Finalize"]
    {
        let ran = started(call);
        assert!(!ran.status.success(), "{call}: {ran:?}");
        for word in [call, "1 s", "FARSIDE_START_TIMEOUT"] {
            assert!(ran.output.contains(word), "{call}: no {word:?} in {ran:?}");
        }
    }
    let _ = std::fs::remove_file(library);
}

/// A rank of a job of `size` whose launcher, this process, speaks PMI-1 and lets nobody out of a
/// barrier.
fn rank_of(marked: &Marked, rank: u32, size: u32, program: &[&str]) -> Child {
    let (mine, theirs) = UnixStream::pair().expect("a pair of sockets");
    let mut job = command(program[0]);
    job.args(&program[1..])
        .env("PMI_FD", "0")
        .env("PMI_RANK", rank.to_string())
        .env("PMI_SIZE", size.to_string());
    job.env("PMI_JOBID", &marked.0).env("MPI_LOCALNRANKS", size.to_string()).env(NEVER.0, NEVER.1);
    job.process_group(0).stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = marked.put_on(&mut job).spawn().expect("the program starts");
    std::thread::spawn(move || {
        let answer = |question: &str| match question.split_whitespace().next()? {
            "cmd=init" => Some("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"),
            "cmd=get_maxes" => Some("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
            "cmd=get_my_kvsname" => Some("cmd=my_kvsname kvsname=space\n"),
            "cmd=put" => Some("cmd=put_result rc=0 msg=success\n"),
            _ => None,
        };
        // The rank may end at any time.
        for question in BufReader::new(&mine).lines().map_while(Result::ok) {
            let _ = answer(&question).map(|answer| (&mine).write_all(answer.as_bytes()));
        }
    });
    child
}

/// Reads what a rank says until it has said these words, or ends; all that it has said.
fn listen(child: &mut Child, until: &'static str) -> String {
    let mut stderr = child.stderr.take().expect("a pipe");
    let (sender, heard) = channel();
    std::thread::spawn(move || {
        let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = stderr.read(&mut buffer) {
            said.extend_from_slice(&buffer[..count]);
            // Up to the end of that line.
            let text = String::from_utf8_lossy(&said);
            if text.split_once(until).is_some_and(|(_, rest)| rest.contains('\n')) {
                break;
            }
        }
        // Nobody listens any more only after a failure.
        let _ = sender.send(String::from_utf8_lossy(&said).into_owned());
    });
    heard
        .recv_timeout(DEADLINE)
        .unwrap_or_else(|_| panic!("the rank says nothing of {until:?}, and does not end"))
}

#[test]
fn a_start_that_takes_long_says_what_it_waits_for() {
    let marked = Marked::new();
    let mut children: Vec<Child> =
        (0..2).map(|rank| rank_of(&marked, rank, 2, &[PROGRAM, TEST])).collect();
    // One of them speaks for all of this machine: whoever waits longest.
    let (sender, heard) = channel();
    std::thread::scope(|threads| {
        for child in &mut children {
            let sender = sender.clone();
            threads.spawn(move || sender.send(listen(child, "100000 s")));
        }
        let said = heard.recv_timeout(DEADLINE).expect("one of them speaks");
        drop(marked);
        for word in ["all 2 ranks", "FARSIDE_START_TIMEOUT", "100000 s"] {
            assert!(said.contains(word), "no {word:?} in {said:?}");
        }
    });
    children.iter_mut().for_each(|child| drop(child.wait()));
}

#[test]
fn a_start_without_one_of_its_ranks_ends_and_names_it() {
    let marked = Marked::new();
    let mut dead = rank_of(&marked, 1, 3, &["sh", "-c", "kill -9 $$"]);
    dead.wait().expect("it ends");
    let mut others = [0, 2].map(|rank| rank_of(&marked, rank, 3, &[PROGRAM, TEST]));
    for child in &mut others {
        let said = listen(child, "cannot join the job: rank");
        assert!(says_rank_1_is_gone(&said), "{said}");
        assert!(!child.wait().expect("it ends").success());
    }
}

/// Whether rank 1 is named, alone or with another that has given up because of it since.
fn says_rank_1_is_gone(said: &str) -> bool {
    ["rank 1 is gone", "ranks 0, 1 are gone", "ranks 1, 2 are gone"]
        .iter()
        .any(|name| said.contains(name))
}

/// A job of three ranks one of which does not live to join. The launcher hears of no failure, or it
/// would end the others. Under Hydra the first rank that gives up may end the whole job before it
/// or the other can say so: Hydra's proxy ends when a rank has closed its channel.
fn without_one(launcher: Launcher, options: &[&str]) {
    let script = format!(
        "rank=$PMI_RANK$PMIX_RANK; [ $rank = 1 ] && {{ sh -c 'kill -9 $$'; exit 0; }}; \
         {PROGRAM} {TEST} || echo rank $rank has failed"
    );
    let mut job = launcher.command(3, options);
    let ran = run(job.args(["sh", "-c", &script]).env(NEVER.0, NEVER.1));
    assert!(says_rank_1_is_gone(&ran.output), "{launcher:?}: nobody is named in {ran:?}");
    let failed = ["rank 0 has failed", "rank 2 has failed"];
    let said = failed.iter().filter(|word| ran.output.contains(**word)).count();
    if matches!(launcher, Launcher::Hydra) {
        assert!(said > 0 || !ran.status.success(), "{launcher:?}: the job has not failed: {ran:?}");
    } else {
        assert_eq!(said, 2, "{launcher:?}: {ran:?}");
    }
}

#[test]
fn a_rank_that_is_killed_before_it_joins_is_named_under_hydra() {
    if wanted(Launcher::Hydra.programs()) {
        without_one(Launcher::Hydra, &[]);
    }
}

#[test]
fn a_rank_that_is_killed_before_it_joins_is_named_under_open_mpi() {
    if wanted(Launcher::OpenMpi.programs()) {
        without_one(Launcher::OpenMpi, &["--enable-recovery"]);
    }
}
