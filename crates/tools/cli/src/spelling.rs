//! Options as other launchers spell them.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};

/// Writes `-np`, as the launchers of MPI have it, as `--np` among the options of a job: clap would
/// read it as `-n p`. `words` is the whole command line, and `farside` defines it.
///
/// Where the program begins is found as clap finds it. What follows is the program's, and stays.
pub(crate) fn with_np(
    mut words: Vec<OsString>,
    farside: impl FnOnce() -> Command,
) -> Vec<OsString> {
    // The definition is long, and ranks of built-in programs start here, too.
    if !words.iter().any(|word| word == "-np") {
        return words;
    }
    let farside = farside();
    let takes_np = |command: &&Command| command.get_arguments().any(|option| is(option, "np"));
    let command = words.get(1).and_then(|name| farside.find_subcommand(name)).filter(takes_np);
    let Some(command) = command else { return words };
    // The last one is the program with its arguments, or the arguments of a built-in one.
    let mut names = command.get_positionals().count() - 1;
    let mut at = 2;
    while let Some(word) = words.get_mut(at) {
        if word == "-np" {
            *word = "--np".into();
        }
        match has_value(command, word) {
            Some(Value::InNextWord) => at += 2,
            Some(Value::NotInNextWord) => at += 1,
            None if !word.as_encoded_bytes().starts_with(b"-") && names > 0 => {
                (names, at) = (names - 1, at + 1);
            }
            None => break,
        }
    }
    words
}

/// Where the value of an option is.
enum Value {
    InNextWord,
    NotInNextWord,
}

/// Returns where the value of the option that a word is can be found; `None` if it is none.
fn has_value(command: &Command, word: &OsStr) -> Option<Value> {
    let word = word.to_str()?;
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or(long);
        let option = command.get_arguments().find(|option| is(option, name))?;
        let is_next = takes_value(option) && !long.contains('=');
        return Some(if is_next { Value::InNextWord } else { Value::NotInNextWord });
    }
    // Letters stand together up to the first that has a value: what follows it, or the next word.
    let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty())?;
    for (at, letter) in letters.char_indices() {
        let is_it = |option: &&Arg| option.get_short() == Some(letter);
        let option = command.get_arguments().find(is_it)?;
        if takes_value(option) {
            let is_last = at + letter.len_utf8() == letters.len();
            return Some(if is_last { Value::InNextWord } else { Value::NotInNextWord });
        }
    }
    Some(Value::NotInNextWord)
}

fn is(option: &Arg, long: &str) -> bool {
    option.get_long() == Some(long)
        || option.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
}

fn takes_value(option: &Arg) -> bool {
    option.get_action().takes_values() && !option.is_require_equals_set()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn spelled(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words = with_np(words, crate::Arguments::command);
        words.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn np_is_ranks_before_the_program_alone() {
        for (line, expected) in [
            ("farside run -np 4 a", "farside run --np 4 a"),
            ("farside run -l --races -np 4 a -np 5", "farside run -l --races --np 4 a -np 5"),
            ("farside run -lnp 4 a -np 5", "farside run -lnp 4 a -np 5"),
            (
                "farside run --timeout=3 -np 4 -- a -np 5",
                "farside run --timeout=3 --np 4 -- a -np 5",
            ),
            ("farside run --rsh -np -n 4 a -np", "farside run --rsh -np -n 4 a -np"),
            ("farside run -n 4 a -np 5", "farside run -n 4 a -np 5"),
            ("farside app sor -np 4 -- -np", "farside app sor --np 4 -- -np"),
            ("farside app -np 4 sor x -np", "farside app --np 4 sor x -np"),
            ("farside app sor --np 4 --size 3 -np", "farside app sor --np 4 --size 3 -np"),
            ("farside preload mpirun -np 4 a", "farside preload mpirun -np 4 a"),
            ("farside", "farside"),
        ] {
            assert_eq!(spelled(line), expected);
        }
    }
}
