//! The environment variables of the specification.

use std::env;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    /// SHMEM_SYMMETRIC_SIZE: the bytes of the symmetric heap. Without it the heap grows.
    pub(crate) heap_bytes: Option<u64>,
    /// SHMEM_DEBUG: whether to check that all PEs allocate alike.
    pub(crate) debug: bool,
    /// SHMEM_VERSION: whether PE 0 prints the version when it starts.
    pub(crate) version: bool,
    /// SHMEM_INFO: whether PE 0 prints the variables that there are.
    pub(crate) info: bool,
}

pub(crate) const HELP: &str = "\
SHMEM_SYMMETRIC_SIZE  bytes of the symmetric heap of each PE, such as 512M or 1.5G; without it
                      the heap grows as it is used
SHMEM_DEBUG           check that all PEs allocate alike
SHMEM_VERSION         print the version at the start
SHMEM_INFO            print this list at the start";

impl Environment {
    pub(crate) fn read() -> Result<Environment, String> {
        Environment::from(|name| env::var(name).ok())
    }

    fn from(get: impl Fn(&str) -> Option<String>) -> Result<Environment, String> {
        // Programs of before 1.2 know them under the other name.
        let get =
            |name: &str| get(&format!("SHMEM_{name}")).or_else(|| get(&format!("SMA_{name}")));
        // A variable that is set says yes, unless it says no.
        let is_set = |name: &str| {
            get(name).is_some_and(|value| !matches!(value.trim(), "" | "0" | "n" | "no" | "off"))
        };
        let heap_bytes = match get("SYMMETRIC_SIZE").filter(|_| is_set("SYMMETRIC_SIZE")) {
            None => None,
            Some(text) => Some(bytes(&text).ok_or_else(|| {
                format!(
                    "SHMEM_SYMMETRIC_SIZE is {text:?}: it is a number of bytes, with a letter k, \
                     m, g or t if you like, such as 512M or 1.5G"
                )
            })?),
        };
        let (debug, version, info) = (is_set("DEBUG"), is_set("VERSION"), is_set("INFO"));
        Ok(Environment { heap_bytes, debug, version, info })
    }
}

/// A number of bytes such as `1048576`, `512M`, `1.5g`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let letter = text.chars().last().filter(char::is_ascii_alphabetic);
    let digits = &text[..text.len() - letter.map_or(0, char::len_utf8)];
    let unit: f64 = match letter.map(|letter| letter.to_ascii_lowercase()) {
        None => 1.0,
        Some('k') => 1024.0,
        Some('m') => 1024.0 * 1024.0,
        Some('g') => 1024.0 * 1024.0 * 1024.0,
        Some('t') => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        Some(_) => return None,
    };
    let is_number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            && text.bytes().any(|byte| byte.is_ascii_digit())
    };
    let number: f64 = digits.trim().parse().ok().filter(|_| is_number(digits.trim()))?;
    let bytes = number * unit;
    (bytes >= 1.0 && bytes < 2f64.powi(56)).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_specification_has_them() {
        for (text, value) in [
            ("1048576", Some(1 << 20)),
            ("512M", Some(512 << 20)),
            (" 1.5g ", Some(3 << 29)),
            ("20.5k", Some(20992)),
            ("1T", Some(1 << 40)),
            ("", None),
            ("g", None),
            ("-1", None),
            ("1e9", None),
            ("0", None),
            ("12q", None),
            ("1.2.3", None),
            ("9999999t", None),
        ] {
            assert_eq!(bytes(text), value, "{text:?}");
        }
    }

    #[test]
    fn older_names_stand_in_and_a_bad_size_is_named() {
        let read = |pairs: &'static [(&str, &str)]| {
            Environment::from(|name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
            })
        };
        assert_eq!(read(&[("SMA_SYMMETRIC_SIZE", "1k")]).unwrap().heap_bytes, Some(1024));
        let both = read(&[("SMA_SYMMETRIC_SIZE", "1k"), ("SHMEM_SYMMETRIC_SIZE", "2k")]);
        assert_eq!(both.unwrap().heap_bytes, Some(2048));
        for unset in ["", "0", "off"].map(|value| vec![("SHMEM_SYMMETRIC_SIZE", value)]) {
            assert_eq!(read(unset.leak()).unwrap().heap_bytes, None);
        }
        assert!(read(&[("SHMEM_DEBUG", "1")]).unwrap().debug);
        assert!(!read(&[("SHMEM_DEBUG", "0")]).unwrap().debug);
        let error = read(&[("SHMEM_SYMMETRIC_SIZE", "lots")]).unwrap_err();
        assert!(error.contains("\"lots\"") && error.contains("512M"), "{error}");
    }
}
