/* Atomics, by type, with and without a context, and those of before 1.4. */

#include "border.h"

#include "atomic.h"

/* Moves of values. */
#define MOVES(name, type, base, more) \
    FETCH(name##_atomic_fetch, type) \
    POST(name##_atomic_set, type, SWAP) \
    UPDATE(name##_atomic_swap, type, SWAP) \
    CTX_FETCH(name##_atomic_fetch, type) \
    CTX_POST(name##_atomic_set, type, SWAP) \
    CTX_UPDATE(name##_atomic_swap, type, SWAP) \
    UPDATE_NBI(name##_atomic_swap_nbi, type, SWAP) \
    SHMEM(void, name##_atomic_fetch_nbi, (type *fetch, const type *source, int pe)) \
    { \
        farside_shmem_atomic_nbi(SHMEM_CTX_DEFAULT, fetch, source, sizeof(type), \
            FARSIDE_SHMEM_FETCH, 0, 0, pe, CALL(name##_atomic_fetch_nbi)); \
    } \
    SHMEM(void, ctx_##name##_atomic_fetch_nbi, \
        (shmem_ctx_t ctx, type *fetch, const type *source, int pe)) \
    { \
        farside_shmem_atomic_nbi(ctx, fetch, source, sizeof(type), FARSIDE_SHMEM_FETCH, 0, 0, pe, \
            CALL(ctx_##name##_atomic_fetch_nbi)); \
    }
AMO_EXTENDED_TYPES(MOVES, )

/* Comparisons and sums. */
#define ARITHMETIC(name, type, base, more) \
    COMPARE_SWAP(name##_atomic_compare_swap, type) \
    CTX_COMPARE_SWAP(name##_atomic_compare_swap, type) \
    COMPARE_SWAP_NBI(name##_atomic_compare_swap_nbi, type) \
    FETCH_INC(name##_atomic_fetch_inc, type) \
    CTX_FETCH_INC(name##_atomic_fetch_inc, type) \
    FETCH_INC_NBI(name##_atomic_fetch_inc_nbi, type) \
    INC(name##_atomic_inc, type) \
    CTX_INC(name##_atomic_inc, type) \
    UPDATE(name##_atomic_fetch_add, type, ADD) \
    CTX_UPDATE(name##_atomic_fetch_add, type, ADD) \
    UPDATE_NBI(name##_atomic_fetch_add_nbi, type, ADD) \
    POST(name##_atomic_add, type, ADD) \
    CTX_POST(name##_atomic_add, type, ADD)
AMO_TYPES(ARITHMETIC, )

/* Bitwise operations. */
#define BITWISE(name, type, base, more) \
    UPDATE(name##_atomic_fetch_and, type, AND) \
    CTX_UPDATE(name##_atomic_fetch_and, type, AND) \
    UPDATE_NBI(name##_atomic_fetch_and_nbi, type, AND) \
    POST(name##_atomic_and, type, AND) \
    CTX_POST(name##_atomic_and, type, AND) \
    UPDATE(name##_atomic_fetch_or, type, OR) \
    CTX_UPDATE(name##_atomic_fetch_or, type, OR) \
    UPDATE_NBI(name##_atomic_fetch_or_nbi, type, OR) \
    POST(name##_atomic_or, type, OR) \
    CTX_POST(name##_atomic_or, type, OR) \
    UPDATE(name##_atomic_fetch_xor, type, XOR) \
    CTX_UPDATE(name##_atomic_fetch_xor, type, XOR) \
    UPDATE_NBI(name##_atomic_fetch_xor_nbi, type, XOR) \
    POST(name##_atomic_xor, type, XOR) \
    CTX_POST(name##_atomic_xor, type, XOR)
AMO_BITWISE_TYPES(BITWISE, )

/* Names of before 1.4. */
#define OLD_MOVES(name, type, base, more) \
    FETCH(name##_fetch, type) \
    POST(name##_set, type, SWAP) \
    UPDATE(name##_swap, type, SWAP)
OLD_AMO_EXTENDED_TYPES(OLD_MOVES, )

#define OLD_ARITHMETIC(name, type, base, more) \
    COMPARE_SWAP(name##_cswap, type) \
    FETCH_INC(name##_finc, type) \
    INC(name##_inc, type) \
    UPDATE(name##_fadd, type, ADD) \
    POST(name##_add, type, ADD)
OLD_AMO_TYPES(OLD_ARITHMETIC, )

UPDATE(swap, long, SWAP)
