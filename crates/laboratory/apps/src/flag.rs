//! Options of programs: how they are read, and how a help and an error list them.

use farside::{Error, Result};

/// An option of a program.
pub(crate) struct Flag {
    /// Its name.
    pub(crate) name: &'static str,
    /// What stands behind it; empty if nothing does.
    pub(crate) value: &'static str,
    /// What it says.
    pub(crate) about: &'static str,
}

impl Flag {
    pub(crate) const fn new(name: &'static str, value: &'static str, about: &'static str) -> Flag {
        Flag { name, value, about }
    }

    /// What a help says of options, one a line.
    pub(crate) fn help(flags: &[Flag]) -> String {
        let line = |flag: &Flag| {
            format!("  {:24} {}\n", format!("{} {}", flag.name, flag.value), flag.about)
        };
        flags.iter().map(line).collect()
    }

    /// Reads the arguments of a program, and passes on each option with its value, which is empty
    /// if it takes none.
    pub(crate) fn read(
        program: &str,
        flags: &[Flag],
        arguments: &[String],
        mut set: impl FnMut(&str, &str) -> Result<()>,
    ) -> Result<()> {
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            let flag = flags.iter().find(|known| known.name == name).ok_or_else(|| {
                let names = flags.iter().map(|flag| flag.name).collect::<Vec<_>>().join(", ");
                let what = format!("{program} has no option {name}; there are: {names}");
                Error::InvalidArgument(what)
            })?;
            let value = match flag.value {
                "" => Some(""),
                _ => value.or_else(|| words.next().map(String::as_str)),
            };
            let lacking = || Error::InvalidArgument(format!("{name} needs a value"));
            set(name, value.ok_or_else(lacking)?)?;
        }
        Ok(())
    }
}
