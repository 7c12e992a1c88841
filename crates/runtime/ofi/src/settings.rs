//! The settings of the fabric: a provider, and which operations it executes itself.

use farside_fabric::{Error, Result};

/// What executes atomics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atomics {
    /// The node's agent, with its processor: coherent with near atomics, and it wakes waiting
    /// ranks.
    Agent,
    /// The provider, where its atomics are coherent with those of processors.
    Native,
    /// The provider, near ones too: its atomics are not coherent with those of processors.
    Apart,
}

const NAMES: [(&str, Atomics); 3] =
    [("agent", Atomics::Agent), ("native", Atomics::Native), ("apart", Atomics::Apart)];

/// The settings: written `PROVIDER/atomics=WHO/rma=BYTES`, each part of which may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The provider, instead of the best there is.
    pub provider: Option<String>,
    /// What executes atomics, instead of what suits the provider.
    pub atomics: Option<Atomics>,
    /// The length from which on contiguous transfers are direct, instead of what suits the
    /// provider.
    pub rma_from: Option<u64>,
}

impl std::str::FromStr for Settings {
    type Err = Error;

    fn from_str(text: &str) -> Result<Settings> {
        let bad = |part: &str| {
            Error::InvalidSetting(format!(
                "{text:?}: {part:?} is not a setting; expected \
                 PROVIDER/atomics=agent|native|apart/rma=BYTES, any of them"
            ))
        };
        let mut parts = text.split('/');
        let provider = parts.next().filter(|name| !name.is_empty()).map(str::to_owned);
        let mut settings = Settings { provider, ..Settings::default() };
        for part in parts {
            match part.split_once('=') {
                Some(("atomics", who)) => {
                    let found = NAMES.iter().find(|(name, _)| *name == who);
                    settings.atomics = Some(found.ok_or_else(|| bad(part))?.1);
                }
                Some(("rma", bytes)) => {
                    settings.rma_from = Some(bytes.parse().map_err(|_| bad(part))?)
                }
                _ => return Err(bad(part)),
            }
        }
        Ok(settings)
    }
}

impl std::fmt::Display for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.provider.as_deref().unwrap_or_default())?;
        if let Some((name, _)) = NAMES.iter().find(|(_, who)| Some(*who) == self.atomics) {
            write!(f, "/atomics={name}")?;
        }
        if let Some(bytes) = self.rma_from {
            write!(f, "/rma={bytes}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_written() {
        for text in [
            "",
            "tcp;ofi_rxm",
            "/atomics=native",
            "udp;ofi_rxd/atomics=agent/rma=0",
            "shm/rma=4096",
        ] {
            let settings: Settings = text.parse().unwrap();
            assert_eq!(settings.to_string(), text);
        }
        for bad in ["tcp/atomics=gpu", "tcp/rma=many", "tcp/x", "tcp/"] {
            assert!(bad.parse::<Settings>().is_err(), "{bad}");
        }
    }
}
