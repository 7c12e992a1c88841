//! Profiles by their names, or from files, which have every number that a run needs.

use std::path::Path;

use farside_fabric::{Error, Result};

use crate::profile::Profile;
use crate::timed;

impl Profile {
    /// One that comes with farside, by its name; or one of your own, by the path of its file, which
    /// ends in `.toml`.
    ///
    /// ```
    /// use farside_sim::Profile;
    ///
    /// assert!(Profile::load("aries-xc30")?.machine.contains("Aries"));
    /// let error = Profile::load("aries").unwrap_err().to_string();
    /// assert!(error.contains("aries-xc30"), "{error}");
    /// # Ok::<(), farside_fabric::Error>(())
    /// ```
    pub fn load(name: &str) -> Result<Profile> {
        if let Some(text) = Profile::text(name) {
            return Profile::parse(text);
        }
        if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
            let text = std::fs::read_to_string(name).map_err(|error| {
                Error::InvalidSetting(format!("the profile {name} cannot be read: {error}"))
            })?;
            let read =
                Profile::parse(&text).and_then(|profile| timed::check(&profile).map(|()| profile));
            // The error of a text does not name the file.
            return read.map_err(|error| match error {
                Error::InvalidSetting(why) => Error::InvalidSetting(format!("{name}: {why}")),
                other => other,
            });
        }
        let known = Profile::names().collect::<Vec<_>>().join(", ");
        Err(Error::InvalidSetting(format!(
            "there is no profile {name:?}: there are {known}, or give a file that ends in .toml"
        )))
    }
}
