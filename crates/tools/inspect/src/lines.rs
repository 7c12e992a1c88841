//! Lines of programs whose ranks know addresses only, such as programs in C.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use farside_fabric::record::Place;

/// Knows the lines that were looked for.
#[derive(Default)]
pub(crate) struct Lines {
    known: Mutex<HashMap<String, String>>,
}

impl Lines {
    /// Returns a place in the program of `process` as a person wants to read it: `halo.c:31`.
    pub(crate) fn name(&self, process: u32, place: &Place) -> String {
        let name = place.to_string();
        let Some((program, address)) = address(place) else { return name };
        // The file is of that user's choice, and `addr2line` was not made for files of strangers.
        if !is_own(process) {
            return name;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .entry(name.clone())
            .or_insert_with(|| line_of(&whole_path(process, program), address).unwrap_or(name))
            .clone()
    }
}

/// Returns whether a process belongs to this user.
fn is_own(process: u32) -> bool {
    let owner = std::fs::metadata(format!("/proc/{process}")).map(|meta| meta.uid());
    owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw())
}

/// The file of a program, and the address in it.
fn address(place: &Place) -> Option<(&str, &str)> {
    let (program, address) = place.file.rsplit_once('+')?;
    (place.line == 0 && address.starts_with("0x")).then_some((program, address))
}

/// The path of a file that is mapped by `process`, of which a record has only the last bytes if it
/// is long.
fn whole_path(process: u32, end: &str) -> String {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let paths = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    paths.into_iter().find(|path| path.ends_with(end)).unwrap_or(end).to_owned()
}

/// Returns the file and line of an address in a program, as `addr2line` knows it; `None` if it is
/// not installed, or does not know.
pub fn line_of(program: &str, address: &str) -> Option<String> {
    let output = Command::new("addr2line").args(["-s", "-e", program, address]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.split(" (").next()?;
    (!line.is_empty() && !line.starts_with("??")).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Stdio;

    use super::*;

    fn place(file: &str, line: u32) -> Place {
        Place { file: file.to_owned().into(), line }
    }

    #[test]
    fn addresses_are_told_from_files() {
        assert_eq!(address(&place("/bin/halo+0x11f9", 0)), Some(("/bin/halo", "0x11f9")));
        assert_eq!(address(&place("src/main.rs", 12)), None);
        assert_eq!(address(&place("odd+name.rs", 0)), None);
        assert_eq!(address(&Place::default()), None);
    }

    #[test]
    fn what_nobody_knows_stays_an_address() {
        let (lines, unknown) = (Lines::default(), place("/does/not/exist+0x12", 0));
        assert_eq!(lines.name(std::process::id(), &unknown), "/does/not/exist+0x12");
        assert_eq!(lines.name(std::process::id(), &place("src/main.rs", 12)), "src/main.rs:12");
    }

    #[test]
    fn files_of_strangers_are_not_looked_into() {
        assert!(is_own(std::process::id()));
        assert!(!is_own(u32::MAX), "nobody's");
        if !rustix::process::geteuid().is_root() {
            return;
        }
        // Of another user, until standard input ends.
        let mut stranger = Command::new("cat");
        stranger.stdin(Stdio::piped()).stdout(Stdio::null()).uid(12345);
        let mut stranger = stranger.spawn().unwrap();
        let is_taken_for_own = is_own(stranger.id());
        drop(stranger.stdin.take());
        assert!(stranger.wait().unwrap().success() && !is_taken_for_own);
    }

    #[test]
    fn the_end_of_a_path_is_enough() {
        let program = std::env::current_exe().unwrap();
        let program = program.to_str().unwrap();
        assert_eq!(whole_path(std::process::id(), &program[program.len() / 2..]), program);
    }
}
