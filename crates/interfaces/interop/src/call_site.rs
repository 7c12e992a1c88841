//! Where a program in another language has called the library that this is linked into, with its
//! line: for messages, since looking a line up takes as long as reading debug information does.

use std::backtrace::Backtrace;
use std::fmt;

use farside::fabric::{Place, PlaceFinder};

use crate::caller;

/// Finds the places of a program in C.
pub const PLACES: PlaceFinder = PlaceFinder { quickly: caller::place, exactly: CallSite::place };

/// A call of this library by the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSite {
    function: String,
    /// The file, line and column; `None` if the program was compiled without `-g`.
    line: Option<String>,
}

impl CallSite {
    /// Finds the call of this library that the calling thread is in. `address` is what it returns
    /// to, if that is known; else the stack tells.
    pub fn find(address: Option<usize>) -> Option<CallSite> {
        let trace = format!("{:#}", Backtrace::force_capture());
        let frames = frames(&trace);
        let frame = match address.or_else(caller::address) {
            Some(address) => frames.into_iter().find(|frame| frame.address == address)?,
            None => first_of_the_program(frames)?,
        };
        let here = std::env::current_dir().ok();
        let here = here.and_then(|here| Some(format!("{}/", here.to_str()?)));
        let line = frame.line.map(|line| match here.and_then(|here| line.strip_prefix(&here)) {
            Some(below) => format!("./{below}"),
            None => line.to_owned(),
        });
        Some(CallSite { function: frame.function.to_owned(), line })
    }

    /// Returns the place of the call, as errors name it.
    pub fn place() -> Option<Place> {
        let site = CallSite::find(None);
        let line = site.as_ref().and_then(|site| file_and_line(site.line.as_ref()?));
        line.map(|(file, line)| Place { file: file.to_owned().into(), line }).or_else(caller::place)
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some(line) => write!(f, "{line} ({})", self.function),
            None => write!(f, "{}", self.function),
        }
    }
}

/// Splits `FILE:LINE` or `FILE:LINE:COLUMN`.
fn file_and_line(text: &str) -> Option<(&str, u32)> {
    let (front, last) = text.rsplit_once(':')?;
    let last = last.parse().ok()?;
    match front.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) {
        Some(with_column) => Some(with_column),
        None => Some((front, last)),
    }
}

/// A frame of the stack, or a function that was inlined into one.
#[derive(Debug, Clone, Copy)]
struct Frame<'t> {
    address: usize,
    function: &'t str,
    line: Option<&'t str>,
}

/// Reads a trace as the standard library prints it in full.
fn frames(trace: &str) -> Vec<Frame<'_>> {
    let mut frames: Vec<Frame<'_>> = Vec::new();
    for text in trace.lines().map(str::trim_start) {
        if let Some(line) = text.strip_prefix("at ") {
            if let Some(last) = frames.last_mut() {
                last.line = Some(line);
            }
        } else if let Some(frame) = frame(text) {
            frames.push(frame);
        }
    }
    frames
}

/// Reads `NUMBER: 0xADDRESS - FUNCTION`.
fn frame(text: &str) -> Option<Frame<'_>> {
    let (number, rest) = text.split_once(':')?;
    number.parse::<u32>().ok()?;
    let (address, function) = rest.trim_start().split_once(" - ")?;
    let address = usize::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
    Some(Frame { address, function, line: None })
}

/// Returns the first frame behind the functions that the library exports, which is part of the
/// program's own file: names tell them apart. `None` if the compiler has left none of them.
fn first_of_the_program(frames: Vec<Frame<'_>>) -> Option<Frame<'_>> {
    let is_exported = |frame: &Frame<'_>| {
        let is_of_c = !frame.function.contains(':');
        let starts = ["farside_", "shmem_", "pshmem_"];
        is_of_c && starts.iter().any(|start| frame.function.starts_with(start))
    };
    let mut frames = frames.into_iter().skip_while(|frame| !is_exported(frame));
    frames.find(|frame| !is_exported(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "   0:     0x7f01 - <std[e2]::backtrace::Backtrace>::create
             at /rustc/1/library/std/src/backtrace.rs:331:13
   1:     0x7f02 - farside_interop::call_site::CallSite::find
             at /src/crates/overlay/src/call_site.rs:26:40
   2:     0x7f02 - put_slowly
             at /src/crates/shmem/src/transfer.rs:12:9
   3:     0x7f03 - farside_shmem_put
   4:     0x7f04 - pshmem_long_put
   5:     0x5501 - exchange
             at /home/me/halo.c:41:9
   6:     0x5501 - main
             at /home/me/halo.c:80:5";

    #[test]
    fn a_frame_is_found_by_its_address_or_behind_those_of_the_library() {
        let frames = frames(TRACE);
        let found = frames.iter().find(|frame| frame.address == 0x5501).unwrap();
        assert_eq!((found.function, found.line), ("exchange", Some("/home/me/halo.c:41:9")));
        let first = first_of_the_program(frames).unwrap();
        assert_eq!((first.function, first.line), ("exchange", Some("/home/me/halo.c:41:9")));
        assert!(super::frames("disabled backtrace").is_empty());
    }

    #[test]
    fn a_site_is_written_with_its_line_if_it_has_one() {
        let (function, line) = ("main".to_owned(), Some("./halo.c:41:9".to_owned()));
        let site = CallSite { function, line };
        assert_eq!(site.to_string(), "./halo.c:41:9 (main)");
        assert_eq!(CallSite { line: None, ..site }.to_string(), "main");
    }

    #[test]
    fn columns_are_left_out_of_places() {
        assert_eq!(file_and_line("halo.c:41:9"), Some(("halo.c", 41)));
        assert_eq!(file_and_line("halo.c:41"), Some(("halo.c", 41)));
        assert_eq!(file_and_line("halo.c"), None);
    }
}
