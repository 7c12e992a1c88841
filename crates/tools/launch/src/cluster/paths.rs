//! Paths of this host by the names that users know them by: `/home` may be a link here to where
//! only this host has it.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the current directory.
pub(super) fn directory() -> std::io::Result<PathBuf> {
    Ok(directory_named(std::env::var_os("PWD"), std::env::current_dir()?))
}

/// Returns the path of the running program.
pub(super) fn program() -> std::io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let named = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let is_path = named.components().count() > 1;
    let found = match directory() {
        Ok(here) if is_path => vec![here.join(named)],
        _ => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).map(|folder| folder.join(&named)).collect()
        }
    };
    let is_own = |path: &PathBuf| path.is_absolute() && is_same(path, &own);
    Ok(found.into_iter().find(is_own).unwrap_or(own))
}

/// The directory by the name that a shell has given it, if that is what it is.
fn directory_named(name: Option<OsString>, here: PathBuf) -> PathBuf {
    let named = name.map(PathBuf::from).filter(|named| named.is_absolute());
    named.filter(|named| is_same(named, &here)).unwrap_or(here)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_the_name_that_the_shell_gave_it() {
        let scratch = tempfile::tempdir().unwrap();
        let scratch = scratch.path().canonicalize().unwrap();
        let (real, link, other) =
            (scratch.join("real"), scratch.join("link"), scratch.join("other"));
        std::fs::create_dir(&real).unwrap();
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let named = |name: &Path| directory_named(Some(name.into()), real.clone());
        assert_eq!(named(&link), link);
        for wrong in [other, scratch.join("none"), "link".into()] {
            assert_eq!(named(&wrong), real, "{}", wrong.display());
        }
        assert_eq!(directory_named(None, real.clone()), real);
    }
}
