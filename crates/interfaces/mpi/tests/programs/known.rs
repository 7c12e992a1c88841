//! The cases that fail: for a fault of the library that is not mended yet, and of an MPI alone.

use super::Mpi::{self, Mpich, OpenMpi};

/// Cases that are left out, and why.
pub(crate) struct Known {
    pub(crate) program: &'static str,
    /// Their names; none for the whole program.
    pub(crate) cases: &'static [&'static str],
    /// The MPI under which they fail, if not under both.
    pub(crate) under: Option<Mpi>,
    /// The variables with which they fail, if not with all.
    pub(crate) variables: Option<&'static [&'static str]>,
    pub(crate) why: &'static str,
}

/// The cases that show a fault of the library which is not mended yet.
pub(crate) const KNOWN_FAILURES: [Known; 0] = [];

/// The cases that an MPI fails without the library.
pub(crate) const FAILURES_OF_MPI: [Known; 9] = [
    Known {
        program: "windows.c",
        cases: &["allocate_very_little", "allocate_with_odd_units", "create_over_unaligned_memory"],
        under: Some(Mpich),
        variables: None,
        why: "what is at an odd address, or behind it, is taken for what is at an even one",
    },
    Known {
        program: "operations.c",
        cases: &["extremes_of_integers"],
        under: None,
        variables: None,
        why: "MPI_MIN of MPI_UNSIGNED_LONG compares as signed, in MPI_Reduce_local, too",
    },
    Known {
        program: "fortran90.f90",
        cases: &[],
        under: Some(Mpich),
        variables: None,
        why: "MPI_Rget with a datatype is not complete after MPI_Wait",
    },
    Known {
        program: "shared.c",
        cases: &["shared_apart"],
        under: Some(OpenMpi),
        variables: None,
        why: "MPI_Win_shared_query returns the size of a page",
    },
    Known {
        program: "operations.c",
        cases: &[
            "accumulate_in_created",
            "get_accumulate_in_created",
            "fetch_and_op_in_created",
            "raccumulate_in_created",
            "rget_accumulate_in_created",
        ],
        under: Some(OpenMpi),
        variables: None,
        why: "MPI_MINLOC of MPI_SHORT_INT ends the job",
    },
    Known {
        program: "attributes.c",
        cases: &["windows_in_callbacks"],
        under: Some(OpenMpi),
        variables: None,
        why: "the memory of a window is gone when the callbacks of its attributes are called",
    },
    Known {
        program: "datatypes.c",
        cases: &["accumulates_shorter_than_the_target"],
        under: Some(Mpich),
        variables: None,
        why: "bytes from behind the origin are combined, too",
    },
    Known {
        program: "windows.c",
        cases: &["memory_with_an_alignment"],
        under: None,
        variables: None,
        why: "the hint for the alignment is not followed",
    },
    Known {
        program: "errors.c",
        cases: &[],
        under: None,
        variables: None,
        why: "which mistakes are found is left to the MPI",
    },
];
