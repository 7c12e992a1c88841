//! One call of one rank fails, each in turn, in programs of other languages.
//!
//! Such a program does the same twice, and every rank writes a line about it: `rank 3: A | B`, in
//! which A and B are `fine` or the first error of that time.

pub use farside_job::faults::VARIABLE;
use farside_job::faults::{SAID, TEXT};

/// What came of a program.
pub struct Outcome {
    /// Zero, or what has failed; 128 and more if it was a signal.
    pub status: i32,
    /// What all ranks have written.
    pub output: String,
}

/// The calls that fail, by number: the first 64 and most of the later ones.
fn points() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(0), |&at| Some(at + 1 + at / 64))
}

/// Runs a program once for each call of the kinds that its first or last rank makes, which `run` is
/// given as the value of [`VARIABLE`]. Afterwards the same works, or all ranks have an error, or
/// the program has ended with one; no rank waits for ever or is killed.
pub fn leave_nothing_behind(
    name: &str,
    (ranks, kinds): (u32, &[&str]),
    run: impl Fn(&str) -> Outcome,
) {
    if std::env::var_os("FARSIDE_LONG").is_none() {
        println!("SKIPPED: {name}: FARSIDE_LONG=1 lets each call fail");
        return;
    }
    let fine = run("operation:1000000000@0");
    let works = vec![("fine", "fine"); ranks as usize];
    assert_eq!(lines(&fine.output), works, "{name}, without a fault: {}", fine.output);
    let (mut count, mut problems) = (0, Vec::new());
    for kind in kinds {
        let before = count;
        for rank in [0, ranks - 1] {
            for at in points() {
                let fault = format!("{kind}:{at}@{rank}");
                let ended = run(&fault);
                if !ended.output.contains(SAID) {
                    break;
                }
                count += 1;
                if let Some(why) = judge(ranks, &ended) {
                    problems.push(format!("{name}, {fault}: {why}: {}", ended.output));
                }
            }
        }
        assert!(count > before, "{name} has no {kind} that could fail");
    }
    println!("{name}: {count} points, {} left something behind", problems.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The shell's command that runs a program with its arguments, in which the last of so many ranks
/// may have so few files open: the call of the system that needs one more fails, each in turn.
pub fn with_few_files(ranks: u32, files: u32) -> String {
    let last = ranks - 1;
    let limit = format!("if [ \"$FARSIDE_RANK\" = {last} ]; then ulimit -n {files}; fi");
    format!("exec 2>&1; {limit}; exec \"$0\" \"$@\"")
}

/// Runs a program with ever more files for one rank, until it works: before, it ends with an error
/// that says why.
pub fn too_few_files_are_errors(name: &str, ranks: u32, run: impl Fn(u32) -> Outcome) {
    let (mut count, mut problems) = (0, Vec::new());
    // The shell and the loader need those below; no program needs this many.
    for files in 5..100 {
        let ended = run(files);
        let lines = lines(&ended.output);
        if ended.status == 0 && lines == vec![("fine", "fine"); ranks as usize] {
            break;
        }
        count += 1;
        // The second is what the loader calls it.
        let whys = ["too many open files", "error 24"];
        let said = ended.output.to_lowercase();
        let says_why = whys.iter().any(|why| said.contains(why));
        let in_order = ended.status < 128 && !ended.output.contains("hangs") && says_why;
        if !in_order {
            problems.push(format!("{name}, {files} files: {}: {}", ended.status, ended.output));
        }
    }
    println!("{name}: {count} limits, {} without an error that says why", problems.len());
    assert!(count > 0 && problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns what the ranks say of both times.
fn lines(output: &str) -> Vec<(&str, &str)> {
    let said = output.lines().filter(|line| line.starts_with("rank "));
    said.filter_map(|line| line.split_once(": ")?.1.rsplit_once(" | ")).collect()
}

/// Returns what is wrong, if anything is.
fn judge(ranks: u32, ended: &Outcome) -> Option<&'static str> {
    let lines = lines(&ended.output);
    // The others end because of it, and say so.
    let whys = [TEXT, "its own error says why"];
    let says_why = |line: &str| whys.iter().any(|why| line.contains(why)) && !line.contains(SAID);
    if ended.status >= 128 || ended.output.contains("panicked") {
        return Some("crashes");
    }
    if ended.output.contains("hangs") {
        return Some("hangs");
    }
    if ended.status != 0 {
        let is_said = ended.output.lines().any(says_why);
        return (!is_said).then_some("ends without a reason");
    }
    if lines.len() != ranks as usize {
        return Some("not all ranks have come to the end");
    }
    let works = lines.iter().all(|&(_, again)| again == "fine");
    // How many operations a wait takes differs: some calls fail only when the same is done again.
    let is_late = lines.iter().all(|&(first, _)| first == "fine")
        && lines.iter().any(|&(_, again)| again.contains(TEXT));
    if is_late {
        return None;
    }
    let all_know = lines.iter().all(|&said| said != ("fine", "fine"));
    (!works && !all_know).then_some("works no more, and not all ranks know")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: i32, output: &str) -> Option<&'static str> {
        judge(2, &Outcome { status, output: output.into() })
    }

    #[test]
    fn what_works_again_or_is_known_to_all_is_in_order() {
        assert_eq!(verdict(0, "rank 0: bad | fine\nrank 1: fine | fine\n"), None);
        assert_eq!(verdict(0, "rank 0: bad | bad\nrank 1: fine | bad\n"), None);
        assert_eq!(verdict(1, &format!("error: rank 1: {TEXT}\n")), None);
        let late = format!("rank 0: fine | {TEXT}\nrank 1: fine | fine\n");
        assert_eq!(verdict(0, &late), None);
    }

    #[test]
    fn what_is_left_behind_is_told() {
        assert!(verdict(0, "rank 0: fine | fine\nrank 1: bad | bad\n").is_some());
        assert!(verdict(0, "rank 0: fine | lost\nrank 1: fine | fine\n").is_some());
        assert!(verdict(0, "rank 0: fine | fine\n").is_some());
        assert!(verdict(1, &format!("{SAID}: Allocation 1 of rank 0\n")).is_some());
        assert!(verdict(139, "").is_some());
        assert!(verdict(3, "rank 1 hangs\n").is_some());
    }
}
