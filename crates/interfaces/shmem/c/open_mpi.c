/* Names that programs compiled with the headers of Open MPI import beyond the standard's: its
 * variables for handles, bitwise atomics of signed types, names without a prefix, and shmemx_ names
 * for integers with a width. Our own headers do not declare them. */

#include "border.h"

#include "atomic.h"

/* The handles are these variables there; those of teams since version 5. */
extern shmem_ctx_t oshmem_ctx_default;
extern shmem_team_t oshmem_team_world;
extern shmem_team_t oshmem_team_shared;
shmem_ctx_t oshmem_ctx_default = SHMEM_CTX_DEFAULT;
shmem_team_t oshmem_team_world = SHMEM_TEAM_WORLD;
shmem_team_t oshmem_team_shared = SHMEM_TEAM_SHARED;

#define SIGNED_BITWISE(name, type, base, more) \
    UPDATE(name##_atomic_fetch_and, type, AND) \
    CTX_UPDATE(name##_atomic_fetch_and, type, AND) \
    POST(name##_atomic_and, type, AND) \
    CTX_POST(name##_atomic_and, type, AND) \
    UPDATE(name##_atomic_fetch_or, type, OR) \
    CTX_UPDATE(name##_atomic_fetch_or, type, OR) \
    POST(name##_atomic_or, type, OR) \
    CTX_POST(name##_atomic_or, type, OR) \
    UPDATE(name##_atomic_fetch_xor, type, XOR) \
    CTX_UPDATE(name##_atomic_fetch_xor, type, XOR) \
    POST(name##_atomic_xor, type, XOR) \
    CTX_POST(name##_atomic_xor, type, XOR)
OLD_AMO_TYPES(SIGNED_BITWISE, )

/* Names without a prefix. Programs have variables of these names, which come first. */

__attribute__((weak)) int my_pe(void)
{
    return farside_shmem_my_pe("my_pe");
}

__attribute__((weak)) int num_pes(void)
{
    return farside_shmem_n_pes("num_pes");
}

__attribute__((weak, noreturn)) void globalexit(int status)
{
    farside_shmem_global_exit(status, "globalexit");
}

/* Names of extensions, each of which is a function of the standard. */

#define SHMEMX(returns, name, parameters) BOTH_NAMES(returns, shmemx_##name, parameters)

SHMEMX(void *, malloc_with_hint, (size_t size, long hint))
{
    return pshmem_malloc_with_hints(size, hint);
}

/* Sends a block to each PE, whose counter goes up by one when the block is there. */
SHMEMX(void, alltoall_global_nb, (void *dest, const void *source, size_t size, long *counter))
{
    const char *call = "shmemx_alltoall_global_nb";
    size_t me = (size_t) farside_shmem_my_pe(call);
    int pes = farside_shmem_n_pes(call);
    for (int pe = 0; pe < pes; pe++) {
        farside_shmem_put_signal_nbi(SHMEM_CTX_DEFAULT, (char *) dest + me * size,
            (const char *) source + (size_t) pe * size, size, (uint64_t *) counter, 1,
            SHMEM_SIGNAL_ADD, pe, call);
    }
}

#define VALUES(name, type) \
    SHMEMX(void, name##_p, (type *dest, type value, int pe)) \
    { \
        pshmem_##name##_p(dest, value, pe); \
    } \
    SHMEMX(type, name##_g, (const type *source, int pe)) \
    { \
        return pshmem_##name##_g(source, pe); \
    }
VALUES(int16, int16_t)
VALUES(int32, int32_t)
VALUES(int64, int64_t)

#define FETCHING(name, type, old, new) \
    SHMEMX(type, name##_##old, (type *dest, type value, int pe)) \
    { \
        return pshmem_##name##_##new(dest, value, pe); \
    }

#define POSTING(name, type, old, new) \
    SHMEMX(void, name##_##old, (type *dest, type value, int pe)) \
    { \
        pshmem_##name##_##new(dest, value, pe); \
    }

#define BITS(name, type) \
    FETCHING(name, type, atomic_fetch_and, atomic_fetch_and) \
    FETCHING(name, type, atomic_fetch_or, atomic_fetch_or) \
    FETCHING(name, type, atomic_fetch_xor, atomic_fetch_xor) \
    POSTING(name, type, atomic_and, atomic_and) \
    POSTING(name, type, atomic_or, atomic_or) \
    POSTING(name, type, atomic_xor, atomic_xor)
BITS(int32, int32_t)
BITS(int64, int64_t)
BITS(uint32, uint32_t)
BITS(uint64, uint64_t)

#define WORDS(name, type) \
    FETCHING(name, type, swap, atomic_swap) \
    FETCHING(name, type, fadd, atomic_fetch_add) \
    POSTING(name, type, set, atomic_set) \
    POSTING(name, type, add, atomic_add) \
    SHMEMX(type, name##_cswap, (type *dest, type cond, type value, int pe)) \
    { \
        return pshmem_##name##_atomic_compare_swap(dest, cond, value, pe); \
    } \
    SHMEMX(type, name##_fetch, (const type *source, int pe)) \
    { \
        return pshmem_##name##_atomic_fetch(source, pe); \
    } \
    SHMEMX(type, name##_finc, (type *dest, int pe)) \
    { \
        return pshmem_##name##_atomic_fetch_inc(dest, pe); \
    } \
    SHMEMX(void, name##_inc, (type *dest, int pe)) \
    { \
        pshmem_##name##_atomic_inc(dest, pe); \
    } \
    SHMEMX(void, name##_wait, (type *ivar, type cmp_value)) \
    { \
        pshmem_##name##_wait_until(ivar, SHMEM_CMP_NE, cmp_value); \
    } \
    SHMEMX(void, name##_wait_until, (type *ivar, int cmp, type cmp_value)) \
    { \
        pshmem_##name##_wait_until(ivar, cmp, cmp_value); \
    }
WORDS(int32, int32_t)
WORDS(int64, int64_t)

#define TO_ALL(name, type, base, op) \
    SHMEMX(void, name##_##op##_to_all, (type *dest, const type *source, int nreduce, \
        int PE_start, int logPE_stride, int PE_size, type *pWrk, long *pSync)) \
    { \
        pshmem_##base##_##op##_to_all(dest, source, nreduce, PE_start, logPE_stride, PE_size, \
            pWrk, pSync); \
    }

#define REDUCTIONS(name, type, base) \
    TO_ALL(name, type, base, and) \
    TO_ALL(name, type, base, or) \
    TO_ALL(name, type, base, xor) \
    TO_ALL(name, type, base, max) \
    TO_ALL(name, type, base, min) \
    TO_ALL(name, type, base, sum) \
    TO_ALL(name, type, base, prod)
REDUCTIONS(int16, int16_t, short)
REDUCTIONS(int32, int32_t, int)
REDUCTIONS(int64, int64_t, long)
