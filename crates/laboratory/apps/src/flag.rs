//! Options of programs, as a help and an error list them.

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

    /// The names of options, for the error about an unknown one.
    pub(crate) fn names(flags: &[Flag]) -> String {
        flags.iter().map(|flag| flag.name).collect::<Vec<_>>().join(", ")
    }
}
