//! How a program of the command ends: what it says of an error, and with which status.

use std::io::Write as _;
use std::process::ExitCode;

use farside_fabric::ErrorClass;

/// A command line that makes no sense.
#[derive(Debug)]
pub struct Misuse(pub String);

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// Returns whether the command line is to blame for an error, or a variable that stands for an
/// option.
pub fn is_misuse(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let job = match cause.downcast_ref() {
            Some(farside_launch::Error::Job(error)) => Some(error),
            _ => cause.downcast_ref::<farside_fabric::Error>(),
        };
        let of_settings = [ErrorClass::Setting, ErrorClass::Argument, ErrorClass::Limit];
        cause.is::<Misuse>() || job.is_some_and(|error| of_settings.contains(&error.class()))
    })
}

/// Says what went wrong, if anything did, and returns the exit status: 2 for a wrong command line,
/// and that of a broken pipe if nobody reads the output any more, as after `farside info | head`.
///
/// All that the command prints comes here as a bare error if it cannot be printed; errors of other
/// files say which, and `is_closed` knows those of programs that print by themselves.
pub fn conclude(
    result: anyhow::Result<ExitCode>,
    is_misuse: &dyn Fn(&anyhow::Error) -> bool,
    is_closed: &dyn Fn(&farside_fabric::Error) -> bool,
) -> ExitCode {
    result.unwrap_or_else(|error| {
        let bare = error.downcast_ref::<std::io::Error>().filter(|_| error.chain().len() == 1);
        let is_broken = bare.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe);
        if is_broken || error.chain().any(|cause| cause.downcast_ref().is_some_and(is_closed)) {
            // What becomes of commands that do not look: a check that has failed must not end well
            // because of it.
            return ExitCode::from(128 + 13);
        }
        complain(&format!("{error:#}"));
        if is_misuse(&error) { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}

/// Says on standard error what is wrong. If nobody listens there, the status says it alone.
pub fn complain(what: &str) {
    let _ = writeln!(std::io::stderr(), "farside: {what}");
}
