//! The table of OpenSHMEM's functions: families, and the types or sizes that each ranges over.

use super::types::{
    AMO, AMO_BITWISE, AMO_EXTENDED, List, OLD_AMO, OLD_AMO_EXTENDED, OLD_ARITHMETIC, OLD_INTEGER,
    OLD_ORDERED, REDUCE_ARITHMETIC, REDUCE_BITS, REDUCE_BITWISE, REDUCE_ORDERED, RMA, WAIT,
    WAIT_SHORT,
};

/// What a family ranges over.
pub(super) enum Over {
    /// Nothing: one function, named as the family.
    One,
    /// Nothing: one function of before 1.2, without the library's prefix.
    Unprefixed,
    /// Element types: the type's name stands before the family's.
    Types(&'static List),
    /// Sizes in bits: the size stands for `#` in the family's name.
    Sizes(&'static [&'static str]),
}

/// Functions that differ in the type or size of an element alone.
pub(super) struct Family {
    pub(super) returns: &'static str,
    pub(super) name: &'static str,
    /// The parameters, with `T` for the type of an element.
    pub(super) parameters: &'static str,
    pub(super) over: Over,
    /// Each function has a second form, whose first argument is a context.
    pub(super) has_context_form: bool,
    /// The types that the type-generic name accepts.
    pub(super) generic: Option<&'static List>,
    /// What the header says of this family.
    pub(super) note: &'static str,
}

/// A group of families under one heading of the header.
pub(super) struct Section {
    pub(super) text: &'static str,
    pub(super) families: &'static [Family],
}

impl Family {
    const fn new(
        over: Over,
        returns: &'static str,
        name: &'static str,
        parameters: &'static str,
    ) -> Self {
        let (has_context_form, generic, note) = (false, None, "");
        Self { returns, name, parameters, over, has_context_form, generic, note }
    }

    const fn context(mut self) -> Self {
        self.has_context_form = true;
        self
    }

    const fn generic(mut self, types: &'static List) -> Self {
        self.generic = Some(types);
        self
    }

    const fn note(mut self, note: &'static str) -> Self {
        self.note = note;
        self
    }
}

const fn one(returns: &'static str, name: &'static str, parameters: &'static str) -> Family {
    Family::new(Over::One, returns, name, parameters)
}

const fn unprefixed(returns: &'static str, name: &'static str, parameters: &'static str) -> Family {
    Family::new(Over::Unprefixed, returns, name, parameters)
}

const fn sized(name: &'static str, parameters: &'static str) -> Family {
    Family::new(Over::Sizes(&["8", "16", "32", "64", "128"]), "void", name, parameters).context()
}

/// A collective over an active set.
const fn old_sized(name: &'static str, parameters: &'static str) -> Family {
    Family::new(Over::Sizes(&["32", "64"]), "void", name, parameters)
}

const fn typed(
    types: &'static List,
    returns: &'static str,
    name: &'static str,
    parameters: &'static str,
) -> Family {
    Family::new(Over::Types(types), returns, name, parameters)
}

/// A family with type-generic names, with and without a context.
const fn ranged(
    types: &'static List,
    returns: &'static str,
    name: &'static str,
    parameters: &'static str,
) -> Family {
    typed(types, returns, name, parameters).context().generic(types)
}

const fn team(name: &'static str, parameters: &'static str) -> Family {
    typed(&RMA, "int", name, parameters).generic(&RMA)
}

const fn reduce(types: &'static List, generic: &'static List, name: &'static str) -> Family {
    typed(types, "int", name, REDUCE).generic(generic)
}

const fn to_all(types: &'static List, name: &'static str) -> Family {
    const PARAMETERS: &str = "T *dest, const T *source, int nreduce, int PE_start, \
        int logPE_stride, int PE_size, T *pWrk, long *pSync";
    typed(types, "void", name, PARAMETERS)
}

/// A family that asks about several words.
const fn words(returns: &'static str, name: &'static str, parameters: &'static str) -> Family {
    typed(&AMO, returns, name, parameters).generic(&WAIT)
}

/// The same of the types that the standard does not list.
const fn shorts(returns: &'static str, name: &'static str, parameters: &'static str) -> Family {
    typed(&WAIT_SHORT, returns, name, parameters)
}

const COPY: &str = "T *dest, const T *source, size_t nelems, int pe";
const COPY_BYTES: &str = "void *dest, const void *source, size_t nelems, int pe";
const STRIDED: &str =
    "T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe";
const STRIDED_BYTES: &str =
    "void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe";
const BLOCKS: &str = "T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, \
    size_t nblocks, int pe";
const BLOCKS_BYTES: &str = "void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
    size_t bsize, size_t nblocks, int pe";
const SIGNALED: &str = "T *dest, const T *source, size_t nelems, uint64_t *sig_addr, \
    uint64_t signal, int sig_op, int pe";
const SIGNALED_BYTES: &str = "void *dest, const void *source, size_t nelems, uint64_t *sig_addr, \
    uint64_t signal, int sig_op, int pe";
const UPDATE: &str = "T *dest, T value, int pe";
const UPDATE_NBI: &str = "T *fetch, T *dest, T value, int pe";
const TEAM: &str = "shmem_team_t team, T *dest, const T *source, size_t nelems";
const TEAM_BYTES: &str = "shmem_team_t team, void *dest, const void *source, size_t nelems";
const REDUCE: &str = "shmem_team_t team, T *dest, const T *source, size_t nreduce";
const SET: &str = "void *dest, const void *source, size_t nelems, int PE_start, \
    int logPE_stride, int PE_size, long *pSync";
const ONE_WORD: &str = "T *ivar, int cmp, T cmp_value";
const WORDS: &str = "T *ivars, size_t nelems, const int *status, int cmp, T cmp_value";
const SOME: &str =
    "T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, T cmp_value";
const WORDS_VECTOR: &str =
    "T *ivars, size_t nelems, const int *status, int cmp, const T *cmp_values";
const SOME_VECTOR: &str =
    "T *ivars, size_t nelems, size_t *indices, const int *status, int cmp, const T *cmp_values";

/// The whole interface, in the order of the standard.
pub(super) const SECTIONS: &[Section] = &[
    SETUP,
    MEMORY,
    TEAMS,
    CONTEXTS,
    TRANSFERS,
    NONBLOCKING_TRANSFERS,
    ATOMICS,
    OLD_ATOMICS,
    NONBLOCKING_ATOMICS,
    SIGNALS,
    BARRIERS,
    COLLECTIVES,
    REDUCTIONS,
    WAITING,
    ORDER,
    LOCKS,
    CACHE,
    PROFILING,
    LATER,
    BEYOND,
];

const SETUP: Section = Section {
    text: "Set-up and queries. The first call of a program is shmem_init or shmem_init_thread, \
        the last shmem_finalize; shmem_global_exit ends all PEs at once.",
    families: &[
        one("void", "init", "void"),
        one("int", "init_thread", "int requested, int *provided"),
        one("void", "query_thread", "int *provided"),
        one("void", "finalize", "void"),
        one("FARSIDE_SHMEM_NORETURN void", "global_exit", "int status"),
        one("int", "my_pe", "void"),
        one("int", "n_pes", "void"),
        one("int", "pe_accessible", "int pe"),
        one("int", "addr_accessible", "const void *addr, int pe"),
        one("void *", "ptr", "const void *dest, int pe"),
        one("void", "info_get_version", "int *major, int *minor"),
        one("void", "info_get_name", "char *name"),
        unprefixed("void", "start_pes", "int npes")
            .note("Deprecated since 1.2: shmem_init, shmem_my_pe and shmem_n_pes."),
        unprefixed("int", "_my_pe", "void"),
        unprefixed("int", "_num_pes", "void"),
    ],
};

const MEMORY: Section = Section {
    text: "The symmetric heap. All PEs make the same calls in the same order; what is allocated \
        can be named by any PE when the call has returned.",
    families: &[
        one("void *", "malloc", "size_t size"),
        one("void *", "calloc", "size_t count, size_t size"),
        one("void *", "align", "size_t alignment, size_t size"),
        one("void *", "malloc_with_hints", "size_t size, long hints"),
        one("void *", "realloc", "void *ptr, size_t size"),
        one("void", "free", "void *ptr"),
        unprefixed("void *", "shmalloc", "size_t size")
            .note("Deprecated since 1.2: the same names after shmem_."),
        unprefixed("void", "shfree", "void *ptr"),
        unprefixed("void *", "shrealloc", "void *ptr, size_t size"),
        unprefixed("void *", "shmemalign", "size_t alignment, size_t size"),
    ],
};

const TEAMS: Section = Section {
    text: "Teams: ordered sets of PEs. A team is split by all members of its parent; a PE that \
        is not in the new team gets SHMEM_TEAM_INVALID.",
    families: &[
        one("int", "team_my_pe", "shmem_team_t team"),
        one("int", "team_n_pes", "shmem_team_t team"),
        one(
            "int",
            "team_get_config",
            "shmem_team_t team, long config_mask, shmem_team_config_t *config",
        ),
        one(
            "int",
            "team_translate_pe",
            "shmem_team_t src_team, int src_pe, shmem_team_t dest_team",
        ),
        one(
            "int",
            "team_split_strided",
            "shmem_team_t parent_team, int start, int stride, int size, \
                const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team",
        ),
        one(
            "int",
            "team_split_2d",
            "shmem_team_t parent_team, int xrange, const shmem_team_config_t *xaxis_config, \
                long xaxis_mask, shmem_team_t *xaxis_team, \
                const shmem_team_config_t *yaxis_config, long yaxis_mask, \
                shmem_team_t *yaxis_team",
        ),
        one("void", "team_destroy", "shmem_team_t team"),
    ],
};

const CONTEXTS: Section = Section {
    text: "Contexts: each completes and orders its own operations. PEs are numbered as in the \
        context's team.",
    families: &[
        one("int", "ctx_create", "long options, shmem_ctx_t *ctx"),
        one("int", "team_create_ctx", "shmem_team_t team, long options, shmem_ctx_t *ctx"),
        one("void", "ctx_destroy", "shmem_ctx_t ctx"),
        one("int", "ctx_get_team", "shmem_ctx_t ctx, shmem_team_t *team"),
    ],
};

const TRANSFERS: Section = Section {
    text: "Transfers. A put returns when the source may be changed, a get when the data are \
        there. nelems counts elements, of the type or of so many bits; mem counts bytes. Strides \
        count elements.",
    families: &[
        ranged(&RMA, "void", "put", COPY),
        sized("put#", COPY_BYTES),
        one("void", "putmem", COPY_BYTES).context(),
        ranged(&RMA, "void", "p", UPDATE),
        ranged(&RMA, "void", "iput", STRIDED),
        sized("iput#", STRIDED_BYTES),
        ranged(&RMA, "void", "get", COPY),
        sized("get#", COPY_BYTES),
        one("void", "getmem", COPY_BYTES).context(),
        ranged(&RMA, "T", "g", "const T *source, int pe"),
        ranged(&RMA, "void", "iget", STRIDED),
        sized("iget#", STRIDED_BYTES),
    ],
};

const NONBLOCKING_TRANSFERS: Section = Section {
    text: "Transfers that are complete after the next quiet of their context; until then the \
        memory of both sides stays as it is.",
    families: &[
        ranged(&RMA, "void", "put_nbi", COPY),
        sized("put#_nbi", COPY_BYTES),
        one("void", "putmem_nbi", COPY_BYTES).context(),
        ranged(&RMA, "void", "get_nbi", COPY),
        sized("get#_nbi", COPY_BYTES),
        one("void", "getmem_nbi", COPY_BYTES).context(),
    ],
};

const ATOMICS: Section = Section {
    text: "Atomics. Those with a result return what the word held before; the others are \
        complete after the next quiet. Sums wrap around.",
    families: &[
        ranged(&AMO_EXTENDED, "T", "atomic_fetch", "const T *source, int pe"),
        ranged(&AMO_EXTENDED, "void", "atomic_set", UPDATE),
        ranged(&AMO, "T", "atomic_compare_swap", "T *dest, T cond, T value, int pe"),
        ranged(&AMO_EXTENDED, "T", "atomic_swap", UPDATE),
        ranged(&AMO, "T", "atomic_fetch_inc", "T *dest, int pe"),
        ranged(&AMO, "void", "atomic_inc", "T *dest, int pe"),
        ranged(&AMO, "T", "atomic_fetch_add", UPDATE),
        ranged(&AMO, "void", "atomic_add", UPDATE),
        ranged(&AMO_BITWISE, "T", "atomic_fetch_and", UPDATE),
        ranged(&AMO_BITWISE, "void", "atomic_and", UPDATE),
        ranged(&AMO_BITWISE, "T", "atomic_fetch_or", UPDATE),
        ranged(&AMO_BITWISE, "void", "atomic_or", UPDATE),
        ranged(&AMO_BITWISE, "T", "atomic_fetch_xor", UPDATE),
        ranged(&AMO_BITWISE, "void", "atomic_xor", UPDATE),
    ],
};

/// An atomic by its old name.
const fn old(
    types: &'static List,
    returns: &'static str,
    name: &'static str,
    parameters: &'static str,
) -> Family {
    typed(types, returns, name, parameters).generic(types)
}

const OLD_ATOMICS: Section = Section {
    text: "Atomics by their old names, deprecated since 1.4: the same names after atomic_, where \
        cswap, finc and fadd are compare_swap, fetch_inc and fetch_add.",
    families: &[
        old(&OLD_AMO_EXTENDED, "T", "fetch", "const T *source, int pe").generic(&AMO_EXTENDED),
        old(&OLD_AMO_EXTENDED, "void", "set", UPDATE).generic(&AMO_EXTENDED),
        old(&OLD_AMO, "T", "cswap", "T *dest, T cond, T value, int pe").generic(&AMO),
        old(&OLD_AMO_EXTENDED, "T", "swap", UPDATE).generic(&AMO_EXTENDED),
        old(&OLD_AMO, "T", "finc", "T *dest, int pe").generic(&AMO),
        old(&OLD_AMO, "void", "inc", "T *dest, int pe").generic(&AMO),
        old(&OLD_AMO, "T", "fadd", UPDATE).generic(&AMO),
        old(&OLD_AMO, "void", "add", UPDATE).generic(&AMO),
        one("long", "swap", "long *dest, long value, int pe")
            .note("Of before 1.4, for long alone; in C11 and C++ the name is type-generic."),
    ],
};

const NONBLOCKING_ATOMICS: Section = Section {
    text: "Atomics whose result is in *fetch after the next quiet of their context.",
    families: &[
        ranged(&AMO_EXTENDED, "void", "atomic_fetch_nbi", "T *fetch, const T *source, int pe"),
        ranged(
            &AMO,
            "void",
            "atomic_compare_swap_nbi",
            "T *fetch, T *dest, T cond, T value, int pe",
        ),
        ranged(&AMO_EXTENDED, "void", "atomic_swap_nbi", UPDATE_NBI),
        ranged(&AMO, "void", "atomic_fetch_inc_nbi", "T *fetch, T *dest, int pe"),
        ranged(&AMO, "void", "atomic_fetch_add_nbi", UPDATE_NBI),
        ranged(&AMO_BITWISE, "void", "atomic_fetch_and_nbi", UPDATE_NBI),
        ranged(&AMO_BITWISE, "void", "atomic_fetch_or_nbi", UPDATE_NBI),
        ranged(&AMO_BITWISE, "void", "atomic_fetch_xor_nbi", UPDATE_NBI),
    ],
};

const SIGNALS: Section = Section {
    text: "Puts that update a word of the receiver when the data are there. sig_op is \
        SHMEM_SIGNAL_SET or SHMEM_SIGNAL_ADD.",
    families: &[
        ranged(&RMA, "void", "put_signal", SIGNALED),
        sized("put#_signal", SIGNALED_BYTES),
        one("void", "putmem_signal", SIGNALED_BYTES).context(),
        ranged(&RMA, "void", "put_signal_nbi", SIGNALED),
        sized("put#_signal_nbi", SIGNALED_BYTES),
        one("void", "putmem_signal_nbi", SIGNALED_BYTES).context(),
        one("uint64_t", "signal_fetch", "const uint64_t *sig_addr"),
    ],
};

const BARRIERS: Section = Section {
    text: "Synchronization of all PEs, a team or an active set. A barrier also completes the \
        default context's operations, a sync does not.",
    families: &[
        one("void", "barrier_all", "void"),
        one("void", "sync_all", "void"),
        one("int", "team_sync", "shmem_team_t team"),
        one("void", "barrier", "int PE_start, int logPE_stride, int PE_size, long *pSync")
            .note("Deprecated since 1.5: shmem_quiet and shmem_team_sync."),
        one("void", "sync", "int PE_start, int logPE_stride, int PE_size, long *pSync").note(
            "Deprecated since 1.5: shmem_team_sync. In C11 and C++, shmem_sync(team) is \
                shmem_team_sync.",
        ),
    ],
};

const COLLECTIVES: Section = Section {
    text: "Collectives that move data. Those of a team return 0 when this PE's part is done; \
        those of an active set are deprecated since 1.5.",
    families: &[
        team(
            "broadcast",
            "shmem_team_t team, T *dest, const T *source, size_t nelems, int PE_root",
        ),
        one(
            "int",
            "broadcastmem",
            "shmem_team_t team, void *dest, const void *source, size_t nelems, int PE_root",
        ),
        old_sized(
            "broadcast#",
            "void *dest, const void *source, size_t nelems, int PE_root, int PE_start, \
                int logPE_stride, int PE_size, long *pSync",
        ),
        team("collect", TEAM),
        one("int", "collectmem", TEAM_BYTES),
        old_sized("collect#", SET),
        team("fcollect", TEAM),
        one("int", "fcollectmem", TEAM_BYTES),
        old_sized("fcollect#", SET),
        team("alltoall", TEAM),
        one("int", "alltoallmem", TEAM_BYTES),
        old_sized("alltoall#", SET),
        team(
            "alltoalls",
            "shmem_team_t team, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, \
                size_t nelems",
        ),
        one(
            "int",
            "alltoallsmem",
            "shmem_team_t team, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
                size_t nelems",
        ),
        old_sized(
            "alltoalls#",
            "void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
                int PE_start, int logPE_stride, int PE_size, long *pSync",
        ),
    ],
};

const REDUCTIONS: Section = Section {
    text: "Reductions. Every member gets the result; dest may be source. Those of an active set \
        (to_all) are deprecated since 1.5.",
    families: &[
        reduce(&REDUCE_BITWISE, &REDUCE_BITS, "and_reduce"),
        to_all(&OLD_INTEGER, "and_to_all"),
        reduce(&REDUCE_BITWISE, &REDUCE_BITS, "or_reduce"),
        to_all(&OLD_INTEGER, "or_to_all"),
        reduce(&REDUCE_BITWISE, &REDUCE_BITS, "xor_reduce"),
        to_all(&OLD_INTEGER, "xor_to_all"),
        reduce(&REDUCE_ORDERED, &REDUCE_ORDERED, "max_reduce"),
        to_all(&OLD_ORDERED, "max_to_all"),
        reduce(&REDUCE_ORDERED, &REDUCE_ORDERED, "min_reduce"),
        to_all(&OLD_ORDERED, "min_to_all"),
        reduce(&REDUCE_ARITHMETIC, &REDUCE_ARITHMETIC, "sum_reduce"),
        to_all(&OLD_ARITHMETIC, "sum_to_all"),
        reduce(&REDUCE_ARITHMETIC, &REDUCE_ARITHMETIC, "prod_reduce"),
        to_all(&OLD_ARITHMETIC, "prod_to_all"),
    ],
};

const WAITING: Section = Section {
    text: "Waiting for and testing words of one's own memory that other PEs update. Where status \
        is not null, words whose status is not 0 are left out; any returns SIZE_MAX if there is \
        no word.",
    families: &[
        typed(&WAIT, "void", "wait_until", ONE_WORD)
            .generic(&WAIT)
            .note("short and unsigned short are deprecated since 1.5, here and in test."),
        words("void", "wait_until_all", WORDS),
        words("size_t", "wait_until_any", WORDS),
        words("size_t", "wait_until_some", SOME),
        words("void", "wait_until_all_vector", WORDS_VECTOR),
        words("size_t", "wait_until_any_vector", WORDS_VECTOR),
        words("size_t", "wait_until_some_vector", SOME_VECTOR),
        typed(&WAIT, "int", "test", ONE_WORD).generic(&WAIT),
        words("int", "test_all", WORDS),
        words("size_t", "test_any", WORDS),
        words("size_t", "test_some", SOME),
        words("int", "test_all_vector", WORDS_VECTOR),
        words("size_t", "test_any_vector", WORDS_VECTOR),
        words("size_t", "test_some_vector", SOME_VECTOR),
        one("uint64_t", "signal_wait_until", "uint64_t *sig_addr, int cmp, uint64_t cmp_value"),
        one("void", "wait_until", "long *ivar, int cmp, long cmp_value")
            .note("Deprecated since 1.4: shmem_long_wait_until, and SHMEM_CMP_NE for wait."),
        one("void", "wait", "long *ivar, long cmp_value"),
        typed(&OLD_INTEGER, "void", "wait", "T *ivar, T cmp_value"),
    ],
};

const ORDER: Section = Section {
    text: "Order. A fence orders a context's operations on each PE; a quiet completes them.",
    families: &[
        one("void", "fence", "void"),
        one("void", "ctx_fence", "shmem_ctx_t ctx"),
        one("void", "quiet", "void"),
        one("void", "ctx_quiet", "shmem_ctx_t ctx"),
    ],
};

const LOCKS: Section = Section {
    text: "Locks: symmetric words that begin as 0. shmem_test_lock returns 0 if it took the lock.",
    families: &[
        one("void", "set_lock", "long *lock"),
        one("int", "test_lock", "long *lock"),
        one("void", "clear_lock", "long *lock"),
    ],
};

const CACHE: Section = Section {
    text: "Control of caches, deprecated since 1.3 and no longer in 1.5. They do nothing.",
    families: &[
        one("void", "clear_cache_inv", "void"),
        one("void", "set_cache_inv", "void"),
        one("void", "clear_cache_line_inv", "void *dest"),
        one("void", "set_cache_line_inv", "void *dest"),
        one("void", "udcflush", "void"),
        one("void", "udcflush_line", "void *dest"),
    ],
};

const PROFILING: Section = Section {
    text: "For profiling tools, which define it in their own way; it does nothing here.",
    families: &[one("void", "pcontrol", "int level, ...")],
};

const LATER: Section = Section {
    text: "Of version 1.6. Blocks are bsize elements each, dst and sst elements apart; a signal \
        without data is an atomic; a scan gives each member of a team the sum over those before \
        it, with its own value (in) or without (ex).",
    families: &[
        one("void", "query_initialized", "int *initialized"),
        one("void *", "team_ptr", "shmem_team_t team, const void *dest, int pe"),
        one(
            "void",
            "ctx_session_start",
            "shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t *config, \
                long config_mask",
        ),
        one("void", "ctx_session_stop", "shmem_ctx_t ctx"),
        ranged(&RMA, "void", "ibput", BLOCKS),
        sized("ibput#", BLOCKS_BYTES),
        ranged(&RMA, "void", "ibget", BLOCKS),
        sized("ibget#", BLOCKS_BYTES),
        one("void", "signal_add", "uint64_t *sig_addr, uint64_t signal, int pe").context(),
        one("void", "signal_set", "uint64_t *sig_addr, uint64_t signal, int pe").context(),
        one("void", "pe_quiet", "const int *target_pes, size_t npes").context(),
        typed(&REDUCE_ARITHMETIC, "int", "sum_inscan", TEAM).generic(&REDUCE_ARITHMETIC),
        typed(&REDUCE_ARITHMETIC, "int", "sum_exscan", TEAM).generic(&REDUCE_ARITHMETIC),
    ],
};

const BEYOND: Section = Section {
    text: "Beyond 1.5: types that its tables leave out and programs use.",
    families: &[
        shorts("void", "wait_until_all", WORDS),
        shorts("size_t", "wait_until_any", WORDS),
        shorts("size_t", "wait_until_some", SOME),
        shorts("void", "wait_until_all_vector", WORDS_VECTOR),
        shorts("size_t", "wait_until_any_vector", WORDS_VECTOR),
        shorts("size_t", "wait_until_some_vector", SOME_VECTOR),
        shorts("int", "test_all", WORDS),
        shorts("size_t", "test_any", WORDS),
        shorts("size_t", "test_some", SOME),
        shorts("int", "test_all_vector", WORDS_VECTOR),
        shorts("size_t", "test_any_vector", WORDS_VECTOR),
        shorts("size_t", "test_some_vector", SOME_VECTOR),
        typed(&OLD_INTEGER, "int", "and_reduce", REDUCE),
        typed(&OLD_INTEGER, "int", "or_reduce", REDUCE),
        typed(&OLD_INTEGER, "int", "xor_reduce", REDUCE),
    ],
};
