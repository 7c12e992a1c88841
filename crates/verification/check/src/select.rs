//! Checks by name.

use std::fmt;

use crate::check::Check;

/// A name that no check has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The name.
    pub name: String,
    /// Names that are like it.
    pub close: Vec<&'static str>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no check {:?}", self.name)?;
        match &self.close[..] {
            [] => write!(f, "; `farside check --list` lists them all"),
            close => write!(f, "; there is {}", close.join(", ")),
        }
    }
}

impl std::error::Error for Unknown {}

/// The checks that the words name: a whole name means that one alone, another word all names that
/// begin with it, or that are as it says, where `*` stands for anything. All of them if there are
/// no words.
///
/// ```
/// use farside_check::{checks, select};
///
/// let names = |words: &[&str]| -> Vec<&str> {
///     select(checks(), words).unwrap().iter().map(|check| check.name).collect()
/// };
/// assert!(names(&["lock/"]).contains(&"lock/d-mcs"));
/// assert!(names(&["*/tick*"]).contains(&"lock/ticket"));
/// assert!(select(checks(), &["lock/d-msc"]).err().unwrap().to_string().contains("lock/d-mcs"));
/// ```
pub fn select(checks: Vec<Check>, words: &[&str]) -> Result<Vec<Check>, Unknown> {
    for &word in words {
        if !checks.iter().any(|check| matches(word, check.name)) {
            let mut close: Vec<(usize, &'static str)> =
                checks.iter().map(|check| (distance(word, check.name), check.name)).collect();
            close.sort_unstable();
            let near = |(distance, name): (usize, &'static str)| {
                (distance <= word.len() / 3 + 1).then_some(name)
            };
            let close = close.into_iter().filter_map(near).take(3).collect();
            return Err(Unknown { name: word.to_owned(), close });
        }
    }
    let names: Vec<&str> = checks.iter().map(|check| check.name).collect();
    let means = |word: &str, name: &str| {
        if names.contains(&word) { word == name } else { matches(word, name) }
    };
    let wanted =
        |check: &Check| words.is_empty() || words.iter().any(|word| means(word, check.name));
    Ok(checks.into_iter().filter(wanted).collect())
}

/// Returns whether a name begins with a word, or matches a word with stars.
fn matches(word: &str, name: &str) -> bool {
    if !word.contains('*') {
        return name.starts_with(word);
    }
    let parts: Vec<&str> = word.split('*').collect();
    let (first, last) = (parts[0], parts[parts.len() - 1]);
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    for part in &parts[1..parts.len() - 1] {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Returns the number of letters that have to be inserted, removed or changed to get from one word
/// to another, of which the end may be missing.
fn distance(word: &str, name: &str) -> usize {
    let name: Vec<char> = name.chars().collect();
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (at, letter) in word.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for column in 1..row.len() {
            let changed = diagonal + usize::from(name[column - 1] != letter);
            diagonal = row[column];
            row[column] = changed.min(row[column] + 1).min(row[column - 1] + 1);
        }
    }
    // A word may stand for the beginning of a name.
    row.into_iter().min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (word, name, is) in [
            ("lock", "lock/mcs", true),
            ("lock/mcs", "lock/mcs", true),
            ("mcs", "lock/mcs", false),
            ("*mcs", "lock/mcs", true),
            ("*mcs*", "lock/mcs-x", true),
            ("l*m*s", "lock/mcs", true),
            ("l*m*x", "lock/mcs", false),
            ("*", "lock/mcs", true),
            ("b*", "lock/mcs", false),
        ] {
            assert_eq!(matches(word, name), is, "{word} {name}");
        }
    }

    #[test]
    fn distances_count_letters() {
        assert_eq!(distance("lock/mcs", "lock/mcs"), 0);
        assert_eq!(distance("lok/mcs", "lock/mcs"), 1);
        assert_eq!(distance("loc", "lock/mcs"), 0);
        assert_eq!(distance("barrier", "lock/mcs"), 7);
    }
}
