/* The calls of generated programs by number: transfers and atomics of every type, each through the
 * default context or another. */
#ifndef GENERATED_CALLS_H
#define GENERATED_CALLS_H

#include "generated.h"
#include "types.h"

enum transfer {
    PUT, PUT_NBI, PUTMEM, PUTMEM_NBI, P, IPUT, PUT_SIZED, PUT_SIZED_NBI, IPUT_SIZED, PUT_TWICE,
    GET, GET_NBI, GETMEM, GETMEM_NBI, G, IGET, GET_SIZED, GET_SIZED_NBI, IGET_SIZED, TRANSFERS
};

/* A transfer: `far` is the place at the other PE, strides count elements. */
typedef struct {
    enum transfer kind;
    shmem_ctx_t ctx;
    /* Whether the call without a context is made; its context is the default one. */
    int is_plain;
    void *far, *near;
    ptrdiff_t far_stride, near_stride;
    size_t count;
    int pe;
} transfer;

#define CALL(function, ...)                                                                        \
    (t->is_plain ? shmem_##function(__VA_ARGS__) : shmem_ctx_##function(t->ctx, __VA_ARGS__))

#define TYPED(NAME, TYPE, CLASS)                                                                   \
    static void transfer_##NAME(const transfer *t)                                                 \
    {                                                                                              \
        TYPE *far = t->far, *near = t->near;                                                       \
        size_t size = t->count * sizeof(TYPE);                                                     \
        switch (t->kind) {                                                                         \
        case PUT: CALL(NAME##_put, far, near, t->count, t->pe); break;                             \
        case PUT_NBI: CALL(NAME##_put_nbi, far, near, t->count, t->pe); break;                     \
        case P: CALL(NAME##_p, far, *near, t->pe); break;                                          \
        case IPUT:                                                                                 \
            CALL(NAME##_iput, far, near, t->far_stride, t->near_stride, t->count, t->pe);          \
            break;                                                                                 \
        case GET: CALL(NAME##_get, near, far, t->count, t->pe); break;                             \
        case GET_NBI: CALL(NAME##_get_nbi, near, far, t->count, t->pe); break;                     \
        case G: *near = CALL(NAME##_g, far, t->pe); break;                                         \
        case IGET:                                                                                 \
            CALL(NAME##_iget, near, far, t->near_stride, t->far_stride, t->count, t->pe);          \
            break;                                                                                 \
        case PUTMEM: CALL(putmem, far, near, size, t->pe); break;                                  \
        case PUTMEM_NBI: CALL(putmem_nbi, far, near, size, t->pe); break;                          \
        case GETMEM: CALL(getmem, near, far, size, t->pe); break;                                  \
        default: CALL(getmem_nbi, near, far, size, t->pe); break;                                  \
        }                                                                                          \
    }
RMA_TYPES(TYPED)

#define SIZED(BITS)                                                                                \
    static void transfer_##BITS(const transfer *t)                                                 \
    {                                                                                              \
        void *far = t->far, *near = t->near;                                                       \
        switch (t->kind) {                                                                         \
        case PUT_SIZED: CALL(put##BITS, far, near, t->count, t->pe); break;                        \
        case PUT_SIZED_NBI: CALL(put##BITS##_nbi, far, near, t->count, t->pe); break;              \
        case IPUT_SIZED:                                                                           \
            CALL(iput##BITS, far, near, t->far_stride, t->near_stride, t->count, t->pe);           \
            break;                                                                                 \
        case GET_SIZED: CALL(get##BITS, near, far, t->count, t->pe); break;                        \
        case GET_SIZED_NBI: CALL(get##BITS##_nbi, near, far, t->count, t->pe); break;              \
        default:                                                                                   \
            CALL(iget##BITS, near, far, t->near_stride, t->far_stride, t->count, t->pe);           \
            break;                                                                                 \
        }                                                                                          \
    }
SIZED(8) SIZED(16) SIZED(32) SIZED(64) SIZED(128)

typedef struct {
    size_t size;
    void (*run)(const transfer *);
    const char *name;
} transfer_kind;

#define ROW(NAME, TYPE, CLASS) {sizeof(TYPE), transfer_##NAME, #NAME},
static const transfer_kind typed[] = {RMA_TYPES(ROW)};
static const transfer_kind sized[] = {{1, transfer_8, "8"}, {2, transfer_16, "16"},
                                      {4, transfer_32, "32"}, {8, transfer_64, "64"},
                                      {16, transfer_128, "128"}};
#define LENGTH(table) (sizeof(table) / sizeof *(table))

/* Atomics. The posted ones return nothing, and those of the last row do not block. */
enum atomic {
    SET, ADD, INC, AND, OR, XOR,
    FETCH, SWAP, COMPARE_SWAP, FETCH_ADD, FETCH_INC, FETCH_AND, FETCH_OR, FETCH_XOR,
    FETCH_NBI, SWAP_NBI, COMPARE_SWAP_NBI, FETCH_ADD_NBI, FETCH_INC_NBI, FETCH_AND_NBI,
    FETCH_OR_NBI, FETCH_XOR_NBI, ATOMICS
};

typedef struct {
    enum atomic kind;
    shmem_ctx_t ctx;
    int is_plain;
    void *cell;
    uint64_t operand, expected;
    /* Where the old value goes, at once or after a quiet. */
    uint64_t *old;
    int pe;
} atomic;

#if HAS_TEAMS
#define NBI(NAME, TYPE)                                                                            \
    case FETCH_NBI: CALL(NAME##_atomic_fetch_nbi, old, cell, t->pe); break;                        \
    case SWAP_NBI: CALL(NAME##_atomic_swap_nbi, old, cell, value, t->pe); break;
#define NBI_INTEGER(NAME)                                                                          \
    case COMPARE_SWAP_NBI:                                                                         \
        CALL(NAME##_atomic_compare_swap_nbi, old, cell, expected, value, t->pe);                   \
        break;                                                                                     \
    case FETCH_ADD_NBI: CALL(NAME##_atomic_fetch_add_nbi, old, cell, value, t->pe); break;         \
    case FETCH_INC_NBI: CALL(NAME##_atomic_fetch_inc_nbi, old, cell, t->pe); break;
#define NBI_BITS(NAME)                                                                             \
    case FETCH_AND_NBI: CALL(NAME##_atomic_fetch_and_nbi, old, cell, value, t->pe); break;         \
    case FETCH_OR_NBI: CALL(NAME##_atomic_fetch_or_nbi, old, cell, value, t->pe); break;           \
    case FETCH_XOR_NBI: CALL(NAME##_atomic_fetch_xor_nbi, old, cell, value, t->pe); break;
#else
#define NBI(NAME, TYPE)
#define NBI_INTEGER(NAME)
#define NBI_BITS(NAME)
#endif

#define OF_ALL(NAME, TYPE)                                                                         \
    case SET: CALL(NAME##_atomic_set, cell, value, t->pe); break;                                  \
    case FETCH: *old = CALL(NAME##_atomic_fetch, cell, t->pe); break;                              \
    case SWAP: *old = CALL(NAME##_atomic_swap, cell, value, t->pe); break;                         \
    NBI(NAME, TYPE)
#define OF_INTEGERS(NAME)                                                                          \
    case ADD: CALL(NAME##_atomic_add, cell, value, t->pe); break;                                  \
    case INC: CALL(NAME##_atomic_inc, cell, t->pe); break;                                         \
    case COMPARE_SWAP:                                                                             \
        *old = CALL(NAME##_atomic_compare_swap, cell, expected, value, t->pe);                     \
        break;                                                                                     \
    case FETCH_ADD: *old = CALL(NAME##_atomic_fetch_add, cell, value, t->pe); break;               \
    case FETCH_INC: *old = CALL(NAME##_atomic_fetch_inc, cell, t->pe); break;                      \
    NBI_INTEGER(NAME)
#define OF_BITS(NAME)                                                                              \
    case AND: CALL(NAME##_atomic_and, cell, value, t->pe); break;                                  \
    case OR: CALL(NAME##_atomic_or, cell, value, t->pe); break;                                    \
    case XOR: CALL(NAME##_atomic_xor, cell, value, t->pe); break;                                  \
    case FETCH_AND: *old = CALL(NAME##_atomic_fetch_and, cell, value, t->pe); break;               \
    case FETCH_OR: *old = CALL(NAME##_atomic_fetch_or, cell, value, t->pe); break;                 \
    case FETCH_XOR: *old = CALL(NAME##_atomic_fetch_xor, cell, value, t->pe); break;               \
    NBI_BITS(NAME)

/* Operands travel as the bits of their type. */
#define ATOMIC(NAME, TYPE, CALLS)                                                                  \
    static void atomic_##NAME(const atomic *t)                                                     \
    {                                                                                              \
        TYPE *cell = t->cell, *old = (TYPE *)t->old, value, expected;                              \
        memcpy(&value, &t->operand, sizeof value);                                                 \
        memcpy(&expected, &t->expected, sizeof expected);                                          \
        (void)expected;                                                                            \
        switch (t->kind) {                                                                         \
            CALLS                                                                                  \
        default: check_fail(__FILE__, __LINE__, "no such atomic of " #NAME);                       \
        }                                                                                          \
    }

#define ATOMIC_REAL(NAME, TYPE) ATOMIC(NAME, TYPE, OF_ALL(NAME, TYPE))
#define ATOMIC_INTEGER(NAME, TYPE) ATOMIC(NAME, TYPE, OF_ALL(NAME, TYPE) OF_INTEGERS(NAME))
#define ATOMIC_BITS(NAME, TYPE, CLASS)                                                             \
    ATOMIC(NAME, TYPE, OF_ALL(NAME, TYPE) OF_INTEGERS(NAME) OF_BITS(NAME))
ATOMIC_REAL(float, float)
ATOMIC_REAL(double, double)
ATOMIC_INTEGER(int, int)
ATOMIC_INTEGER(long, long)
ATOMIC_INTEGER(longlong, long long)
#if HAS_TEAMS
ATOMIC_INTEGER(size, size_t)
ATOMIC_INTEGER(ptrdiff, ptrdiff_t)
#define BITS_TYPES(X) BITWISE_AMO_TYPES(X)
#else
#define BITS_TYPES(X)                                                                              \
    X(uint, unsigned int, INT) X(ulong, unsigned long, INT) X(ulonglong, unsigned long long, INT)
#endif
BITS_TYPES(ATOMIC_BITS)

/* What a type has: the first has no sums, the second no bits. */
enum abilities { REALS, INTEGERS, BITS };

typedef struct {
    size_t size;
    void (*run)(const atomic *);
    enum abilities has;
    const char *name;
} atomic_kind;

#define BITS_ROW(NAME, TYPE, CLASS) {sizeof(TYPE), atomic_##NAME, BITS, #NAME},
static const atomic_kind atomics[] = {
    {sizeof(float), atomic_float, REALS, "float"},
    {sizeof(double), atomic_double, REALS, "double"},
    {sizeof(int), atomic_int, INTEGERS, "int"},
    {sizeof(long), atomic_long, INTEGERS, "long"},
    {sizeof(long long), atomic_longlong, INTEGERS, "longlong"},
#if HAS_TEAMS
    {sizeof(size_t), atomic_size, INTEGERS, "size"},
    {sizeof(ptrdiff_t), atomic_ptrdiff, INTEGERS, "ptrdiff"},
#endif
    BITS_TYPES(BITS_ROW)
};

static inline enum atomic blocking(enum atomic kind)
{
    return kind >= FETCH_NBI ? kind - FETCH_NBI + FETCH : kind;
}

static inline int is_posted(enum atomic kind)
{
    return kind < FETCH;
}

/* What an atomic makes of a word of some bytes. */
static inline uint64_t applied(enum atomic kind, uint64_t word, uint64_t operand,
                               uint64_t expected, size_t size)
{
    uint64_t mask = size == 8 ? UINT64_MAX : UINT32_MAX;
    switch (blocking(kind)) {
    case SET: case SWAP: word = operand; break;
    case ADD: case FETCH_ADD: word += operand; break;
    case INC: case FETCH_INC: word++; break;
    case AND: case FETCH_AND: word &= operand; break;
    case OR: case FETCH_OR: word |= operand; break;
    case XOR: case FETCH_XOR: word ^= operand; break;
    case COMPARE_SWAP: word = (word & mask) == (expected & mask) ? operand : word; break;
    default: break;
    }
    return word & mask;
}

#endif
