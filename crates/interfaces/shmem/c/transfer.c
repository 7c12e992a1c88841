/* Transfers: put and get by type, by size and in bytes, with and without a context or a signal. */

#include "border.h"

/* Copies of elements. `op` names the core's function and is the function's name; `mark` is what the
 * standard appends to it. */
#define COPY_DEFINITIONS(infix, type, bytes, op, mark) \
    SHMEM(void, infix##mark, (type *dest, const type *source, size_t nelems, int pe)) \
    { \
        farside_shmem_##op##mark(SHMEM_CTX_DEFAULT, dest, source, total(bytes, nelems), pe, \
            CALL(infix##mark)); \
    } \
    SHMEM(void, ctx_##infix##mark, \
        (shmem_ctx_t ctx, type *dest, const type *source, size_t nelems, int pe)) \
    { \
        farside_shmem_##op##mark(ctx, dest, source, total(bytes, nelems), pe, \
            CALL(ctx_##infix##mark)); \
    }

#define TYPED_COPY(name, type, base, op) \
    COPY_DEFINITIONS(name##_##op, type, sizeof(type), op, ) \
    COPY_DEFINITIONS(name##_##op, type, sizeof(type), op, _nbi)
RMA_TYPES(TYPED_COPY, put)
RMA_TYPES(TYPED_COPY, get)

#define SIZED_COPY(bits, bytes, op) \
    COPY_DEFINITIONS(op##bits, void, (size_t) bytes, op, ) \
    COPY_DEFINITIONS(op##bits, void, (size_t) bytes, op, _nbi)
SIZES(SIZED_COPY, put)
SIZES(SIZED_COPY, get)

COPY_DEFINITIONS(putmem, void, (size_t) 1, put, )
COPY_DEFINITIONS(putmem, void, (size_t) 1, put, _nbi)
COPY_DEFINITIONS(getmem, void, (size_t) 1, get, )
COPY_DEFINITIONS(getmem, void, (size_t) 1, get, _nbi)

/* Strided copies. */
#define STRIDED_DEFINITIONS(infix, type, bytes, op) \
    SHMEM(void, infix, (type *dest, const type *source, ptrdiff_t dst, ptrdiff_t sst, \
        size_t nelems, int pe)) \
    { \
        farside_shmem_##op(SHMEM_CTX_DEFAULT, dest, source, dst, sst, nelems, bytes, pe, \
            CALL(infix)); \
    } \
    SHMEM(void, ctx_##infix, (shmem_ctx_t ctx, type *dest, const type *source, ptrdiff_t dst, \
        ptrdiff_t sst, size_t nelems, int pe)) \
    { \
        farside_shmem_##op(ctx, dest, source, dst, sst, nelems, bytes, pe, CALL(ctx_##infix)); \
    }

#define TYPED_STRIDED(name, type, base, op) \
    STRIDED_DEFINITIONS(name##_##op, type, sizeof(type), op)
RMA_TYPES(TYPED_STRIDED, iput)
RMA_TYPES(TYPED_STRIDED, iget)

#define SIZED_STRIDED(bits, bytes, op) STRIDED_DEFINITIONS(op##bits, void, bytes, op)
SIZES(SIZED_STRIDED, iput)
SIZES(SIZED_STRIDED, iget)

/* Single values. */
#define VALUE_DEFINITIONS(name, type, base, more) \
    SHMEM(void, name##_p, (type *dest, type value, int pe)) \
    { \
        TO_WORD(word, value); \
        farside_shmem_put_value(SHMEM_CTX_DEFAULT, dest, word, sizeof(type), pe, CALL(name##_p)); \
    } \
    SHMEM(void, ctx_##name##_p, (shmem_ctx_t ctx, type *dest, type value, int pe)) \
    { \
        TO_WORD(word, value); \
        farside_shmem_put_value(ctx, dest, word, sizeof(type), pe, CALL(ctx_##name##_p)); \
    } \
    SHMEM(type, name##_g, (const type *source, int pe)) \
    { \
        uint64_t word = farside_shmem_get_value(SHMEM_CTX_DEFAULT, source, sizeof(type), pe, \
            CALL(name##_g)); \
        FROM_WORD(type, word); \
    } \
    SHMEM(type, ctx_##name##_g, (shmem_ctx_t ctx, const type *source, int pe)) \
    { \
        uint64_t word = \
            farside_shmem_get_value(ctx, source, sizeof(type), pe, CALL(ctx_##name##_g)); \
        FROM_WORD(type, word); \
    }
WORD_TYPES(VALUE_DEFINITIONS, )

/* A long double has no room in a word. */

SHMEM(void, longdouble_p, (long double *dest, long double value, int pe))
{
    farside_shmem_put(SHMEM_CTX_DEFAULT, dest, &value, sizeof(value), pe, CALL(longdouble_p));
}

SHMEM(void, ctx_longdouble_p, (shmem_ctx_t ctx, long double *dest, long double value, int pe))
{
    farside_shmem_put(ctx, dest, &value, sizeof(value), pe, CALL(ctx_longdouble_p));
}

SHMEM(long double, longdouble_g, (const long double *source, int pe))
{
    long double value = 0;
    farside_shmem_get(SHMEM_CTX_DEFAULT, &value, source, sizeof(value), pe, CALL(longdouble_g));
    return value;
}

SHMEM(long double, ctx_longdouble_g, (shmem_ctx_t ctx, const long double *source, int pe))
{
    long double value = 0;
    farside_shmem_get(ctx, &value, source, sizeof(value), pe, CALL(ctx_longdouble_g));
    return value;
}

/* Copies with a signal. */
#define SIGNAL_DEFINITIONS(infix, type, bytes, mark) \
    SHMEM(void, infix##_signal##mark, (type *dest, const type *source, size_t nelems, \
        uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)) \
    { \
        farside_shmem_put_signal##mark(SHMEM_CTX_DEFAULT, dest, source, total(bytes, nelems), \
            sig_addr, signal, sig_op, pe, CALL(infix##_signal##mark)); \
    } \
    SHMEM(void, ctx_##infix##_signal##mark, (shmem_ctx_t ctx, type *dest, const type *source, \
        size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)) \
    { \
        farside_shmem_put_signal##mark(ctx, dest, source, total(bytes, nelems), sig_addr, signal, \
            sig_op, pe, CALL(ctx_##infix##_signal##mark)); \
    }

#define TYPED_SIGNAL(name, type, base, mark) \
    SIGNAL_DEFINITIONS(name##_put, type, sizeof(type), mark)
RMA_TYPES(TYPED_SIGNAL, )
RMA_TYPES(TYPED_SIGNAL, _nbi)

#define SIZED_SIGNAL(bits, bytes, mark) SIGNAL_DEFINITIONS(put##bits, void, (size_t) bytes, mark)
SIZES(SIZED_SIGNAL, )
SIZES(SIZED_SIGNAL, _nbi)

SIGNAL_DEFINITIONS(putmem, void, (size_t) 1, )
SIGNAL_DEFINITIONS(putmem, void, (size_t) 1, _nbi)
