/* Definitions of atomics: each macro defines one function or, for the non-blocking ones, the two
 * with and without a context. `name` is without prefix, `op` is what the core calls the
 * operation. */
#ifndef FARSIDE_SHMEM_ATOMIC_H
#define FARSIDE_SHMEM_ATOMIC_H

#include "border.h"

#define FETCH_BODY(ctx, type, call) \
    { \
        uint64_t word = \
            farside_shmem_atomic(ctx, source, sizeof(type), FARSIDE_SHMEM_FETCH, 0, 0, pe, call); \
        FROM_WORD(type, word); \
    }
#define FETCH(name, type) \
    SHMEM(type, name, (const type *source, int pe)) \
    FETCH_BODY(SHMEM_CTX_DEFAULT, type, CALL(name))
#define CTX_FETCH(name, type) \
    SHMEM(type, ctx_##name, (shmem_ctx_t ctx, const type *source, int pe)) \
    FETCH_BODY(ctx, type, CALL(ctx_##name))

/* Updates that return what the word held. */
#define UPDATE_BODY(ctx, type, op, call) \
    { \
        TO_WORD(operand, value); \
        uint64_t word = farside_shmem_atomic(ctx, dest, sizeof(type), FARSIDE_SHMEM_##op, \
            operand, 0, pe, call); \
        FROM_WORD(type, word); \
    }
#define UPDATE(name, type, op) \
    SHMEM(type, name, (type *dest, type value, int pe)) \
    UPDATE_BODY(SHMEM_CTX_DEFAULT, type, op, CALL(name))
#define CTX_UPDATE(name, type, op) \
    SHMEM(type, ctx_##name, (shmem_ctx_t ctx, type *dest, type value, int pe)) \
    UPDATE_BODY(ctx, type, op, CALL(ctx_##name))

#define UPDATE_NBI_BODY(ctx, type, op, call) \
    { \
        TO_WORD(operand, value); \
        farside_shmem_atomic_nbi(ctx, fetch, dest, sizeof(type), FARSIDE_SHMEM_##op, operand, 0, \
            pe, call); \
    }
#define UPDATE_NBI(name, type, op) \
    SHMEM(void, name, (type *fetch, type *dest, type value, int pe)) \
    UPDATE_NBI_BODY(SHMEM_CTX_DEFAULT, type, op, CALL(name)) \
    SHMEM(void, ctx_##name, (shmem_ctx_t ctx, type *fetch, type *dest, type value, int pe)) \
    UPDATE_NBI_BODY(ctx, type, op, CALL(ctx_##name))

/* Updates without a result. */
#define POST_BODY(ctx, type, op, call) \
    { \
        TO_WORD(operand, value); \
        farside_shmem_atomic_post(ctx, dest, sizeof(type), FARSIDE_SHMEM_##op, operand, pe, call); \
    }
#define POST(name, type, op) \
    SHMEM(void, name, (type *dest, type value, int pe)) \
    POST_BODY(SHMEM_CTX_DEFAULT, type, op, CALL(name))
#define CTX_POST(name, type, op) \
    SHMEM(void, ctx_##name, (shmem_ctx_t ctx, type *dest, type value, int pe)) \
    POST_BODY(ctx, type, op, CALL(ctx_##name))

/* Increments. */
#define INC(name, type) \
    SHMEM(void, name, (type *dest, int pe)) \
    { \
        farside_shmem_atomic_post(SHMEM_CTX_DEFAULT, dest, sizeof(type), FARSIDE_SHMEM_ADD, 1, pe, \
            CALL(name)); \
    }
#define CTX_INC(name, type) \
    SHMEM(void, ctx_##name, (shmem_ctx_t ctx, type *dest, int pe)) \
    { \
        farside_shmem_atomic_post(ctx, dest, sizeof(type), FARSIDE_SHMEM_ADD, 1, pe, \
            CALL(ctx_##name)); \
    }
#define FETCH_INC_BODY(ctx, type, call) \
    { \
        uint64_t word = \
            farside_shmem_atomic(ctx, dest, sizeof(type), FARSIDE_SHMEM_ADD, 1, 0, pe, call); \
        FROM_WORD(type, word); \
    }
#define FETCH_INC(name, type) \
    SHMEM(type, name, (type *dest, int pe)) \
    FETCH_INC_BODY(SHMEM_CTX_DEFAULT, type, CALL(name))
#define CTX_FETCH_INC(name, type) \
    SHMEM(type, ctx_##name, (shmem_ctx_t ctx, type *dest, int pe)) \
    FETCH_INC_BODY(ctx, type, CALL(ctx_##name))
#define FETCH_INC_NBI(name, type) \
    SHMEM(void, name, (type *fetch, type *dest, int pe)) \
    { \
        farside_shmem_atomic_nbi(SHMEM_CTX_DEFAULT, fetch, dest, sizeof(type), FARSIDE_SHMEM_ADD, \
            1, 0, pe, CALL(name)); \
    } \
    SHMEM(void, ctx_##name, (shmem_ctx_t ctx, type *fetch, type *dest, int pe)) \
    { \
        farside_shmem_atomic_nbi(ctx, fetch, dest, sizeof(type), FARSIDE_SHMEM_ADD, 1, 0, pe, \
            CALL(ctx_##name)); \
    }

/* Compare-and-swap. */
#define COMPARE_SWAP_BODY(ctx, type, call) \
    { \
        TO_WORD(operand, value); \
        TO_WORD(compare, cond); \
        uint64_t word = farside_shmem_atomic(ctx, dest, sizeof(type), FARSIDE_SHMEM_COMPARE_SWAP, \
            operand, compare, pe, call); \
        FROM_WORD(type, word); \
    }
#define COMPARE_SWAP(name, type) \
    SHMEM(type, name, (type *dest, type cond, type value, int pe)) \
    COMPARE_SWAP_BODY(SHMEM_CTX_DEFAULT, type, CALL(name))
#define CTX_COMPARE_SWAP(name, type) \
    SHMEM(type, ctx_##name, (shmem_ctx_t ctx, type *dest, type cond, type value, int pe)) \
    COMPARE_SWAP_BODY(ctx, type, CALL(ctx_##name))

#define COMPARE_SWAP_NBI_BODY(ctx, type, call) \
    { \
        TO_WORD(operand, value); \
        TO_WORD(compare, cond); \
        farside_shmem_atomic_nbi(ctx, fetch, dest, sizeof(type), FARSIDE_SHMEM_COMPARE_SWAP, \
            operand, compare, pe, call); \
    }
#define COMPARE_SWAP_NBI(name, type) \
    SHMEM(void, name, (type *fetch, type *dest, type cond, type value, int pe)) \
    COMPARE_SWAP_NBI_BODY(SHMEM_CTX_DEFAULT, type, CALL(name)) \
    SHMEM(void, ctx_##name, \
        (shmem_ctx_t ctx, type *fetch, type *dest, type cond, type value, int pe)) \
    COMPARE_SWAP_NBI_BODY(ctx, type, CALL(ctx_##name))

#endif
