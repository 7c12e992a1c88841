//! Which files are of farside itself.

/// Whether a file is one of farside's own, whose accesses are those of protocols.
pub(crate) fn is_inside(file: &str) -> bool {
    is_beside(file, file!())
}

/// Whether a file is of one of farside's crates, which stand beside the one that has this file,
/// `own`. Programs may have folders of the same names elsewhere.
fn is_beside(file: &str, own: &str) -> bool {
    const CRATES: [&str; 13] = [
        "farside",
        "fabric",
        "rma",
        "sync",
        "epoch",
        "containers",
        "dsm",
        "capi",
        "shmem",
        "mpi",
        "python",
        "interop",
        "job",
    ];
    // In the sources of the project, crates stand in the folders of their layers.
    const LAYERS: [&str; 2] = ["runtime/", "interfaces/"];
    let own = own.strip_suffix("/src/inside.rs").unwrap_or(own);
    let (above, own) = own.split_at(own.rfind('/').map_or(0, |slash| slash + 1));
    let beside = match above.strip_suffix("tools/").filter(|_| own == "races") {
        Some(root) => file
            .strip_prefix(root)
            .and_then(|file| LAYERS.iter().find_map(|layer| file.strip_prefix(layer))),
        None => file.strip_prefix(above),
    };
    let Some((folder, rest)) = beside.and_then(|file| file.split_once('/')) else {
        return false;
    };
    let name = match folder.strip_prefix("farside-") {
        _ if own == "races" => folder,
        // Elsewhere they are called `farside-NAME-VERSION`, or `farside-VERSION`.
        Some(name) if !name.starts_with(|first: char| first.is_ascii_digit()) => {
            name.split('-').next().unwrap_or(name)
        }
        Some(_) => "farside",
        None => folder,
    };
    rest.starts_with("src/") && CRATES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::is_beside;

    #[test]
    fn programs_may_have_folders_of_farsides_names() {
        let registry = "/home/me/.cargo/registry/src/index.crates.io-6f17d22bba15001f";
        let layouts = [
            ("crates/tools/races", "crates/runtime/rma", "crates/runtime/farside"),
            (
                "/git/farside/crates/tools/races",
                "/git/farside/crates/interfaces/capi",
                "/git/farside/crates/runtime/farside",
            ),
            ("vendor/farside-races", "vendor/farside-rma", "vendor/farside"),
            (
                &format!("{registry}/farside-races-0.1.0"),
                &format!("{registry}/farside-rma-0.1.3"),
                &format!("{registry}/farside-0.1.0"),
            ),
        ];
        for (own, crate_of_ours, facade) in layouts {
            let own = format!("{own}/src/inside.rs");
            for folder in [crate_of_ours, facade] {
                assert!(is_beside(&format!("{folder}/src/team/mod.rs"), &own), "{folder} of {own}");
                assert!(!is_beside(&format!("{folder}/examples/a.rs"), &own), "{folder} of {own}");
            }
            for theirs in [
                "apps/hello-farside/src/main.rs",
                "farside-mpi-port/src/main.rs",
                "src/main.rs",
                "/home/me/crates/runtime/job/src/main.rs",
                "my-job/crates/runtime/job/src/main.rs",
                "crates/job/src/main.rs",
                &format!("{registry}/job-0.1.0/src/lib.rs"),
            ] {
                assert!(!is_beside(theirs, &own), "{theirs} beside {own}");
            }
            let is_ours = own.starts_with("crates/");
            assert_eq!(is_beside("crates/runtime/job/src/main.rs", &own), is_ours, "beside {own}");
        }
    }
}
