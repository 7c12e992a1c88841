/* Waiting for and testing words of one's own memory, by type. */

#include "border.h"

/* How the core calls the words of each fundamental type. */
enum {
    WORD_short = FARSIDE_SHMEM_I16,
    WORD_int = FARSIDE_SHMEM_I32,
    WORD_long = FARSIDE_SHMEM_I64,
    WORD_longlong = FARSIDE_SHMEM_I64,
    WORD_ushort = FARSIDE_SHMEM_U16,
    WORD_uint = FARSIDE_SHMEM_U32,
    WORD_ulong = FARSIDE_SHMEM_U64,
    WORD_ulonglong = FARSIDE_SHMEM_U64
};

/* One word. A signed value is extended by its sign. */
#define ONE_WORD(name, type, base, more) \
    SHMEM(void, name##_wait_until, (type *ivar, int cmp, type cmp_value)) \
    { \
        farside_shmem_wait(ivar, WORD_##base, cmp, (uint64_t) cmp_value, CALL(name##_wait_until)); \
    } \
    SHMEM(int, name##_test, (type *ivar, int cmp, type cmp_value)) \
    { \
        return farside_shmem_test(ivar, WORD_##base, cmp, (uint64_t) cmp_value, \
            CALL(name##_test)); \
    }
WAIT_TYPES(ONE_WORD, )

/* Several words, with one value for all or, in the vector forms, one for each: `value` is the last
 * parameter, `values` where the core finds it. */
#define ALL_OR_ANY(returns, name, type, base, core, value, values, is_vector) \
    SHMEM(returns, name, (type *ivars, size_t nelems, const int *status, int cmp, value)) \
    { \
        const struct farside_shmem_question question = \
            {ivars, WORD_##base, nelems, status, cmp, values, is_vector}; \
        return farside_shmem_##core(&question, CALL(name)); \
    }

#define SOME(name, type, base, core, value, values, is_vector) \
    SHMEM(size_t, name, \
        (type *ivars, size_t nelems, size_t *indices, const int *status, int cmp, value)) \
    { \
        const struct farside_shmem_question question = \
            {ivars, WORD_##base, nelems, status, cmp, values, is_vector}; \
        return farside_shmem_##core(&question, indices, CALL(name)); \
    }

#define WAIT_ALL(name, type, base, value, values, is_vector) \
    SHMEM(void, name, (type *ivars, size_t nelems, const int *status, int cmp, value)) \
    { \
        const struct farside_shmem_question question = \
            {ivars, WORD_##base, nelems, status, cmp, values, is_vector}; \
        farside_shmem_wait_all(&question, CALL(name)); \
    }

#define WORDS(name, type, base, mark, value, values, is_vector) \
    WAIT_ALL(name##_wait_until_all##mark, type, base, value, values, is_vector) \
    ALL_OR_ANY(size_t, name##_wait_until_any##mark, type, base, wait_any, value, values, \
        is_vector) \
    SOME(name##_wait_until_some##mark, type, base, wait_some, value, values, is_vector) \
    ALL_OR_ANY(int, name##_test_all##mark, type, base, test_all, value, values, is_vector) \
    ALL_OR_ANY(size_t, name##_test_any##mark, type, base, test_any, value, values, is_vector) \
    SOME(name##_test_some##mark, type, base, test_some, value, values, is_vector)

#define SCALAR_WORDS(name, type, base, more) \
    WORDS(name, type, base, , type cmp_value, &cmp_value, 0)
WAIT_TYPES(SCALAR_WORDS, )

#define VECTOR_WORDS(name, type, base, more) \
    WORDS(name, type, base, _vector, const type *cmp_values, cmp_values, 1)
WAIT_TYPES(VECTOR_WORDS, )

/* Signals. Every value is at least 0: the wait of a fetch returns at once, with what the word
 * holds. */

SHMEM(uint64_t, signal_fetch, (const uint64_t *sig_addr))
{
    return farside_shmem_wait(sig_addr, FARSIDE_SHMEM_U64, SHMEM_CMP_GE, 0, CALL(signal_fetch));
}

SHMEM(uint64_t, signal_wait_until, (uint64_t *sig_addr, int cmp, uint64_t cmp_value))
{
    return farside_shmem_wait(sig_addr, FARSIDE_SHMEM_U64, cmp, cmp_value,
        CALL(signal_wait_until));
}

/* Names of before 1.4. */

SHMEM(void, wait_until, (long *ivar, int cmp, long cmp_value))
{
    farside_shmem_wait(ivar, WORD_long, cmp, (uint64_t) cmp_value, CALL(wait_until));
}

SHMEM(void, wait, (long *ivar, long cmp_value))
{
    farside_shmem_wait(ivar, WORD_long, SHMEM_CMP_NE, (uint64_t) cmp_value, CALL(wait));
}

#define OLD_WAIT(name, type, base, more) \
    SHMEM(void, name##_wait, (type *ivar, type cmp_value)) \
    { \
        farside_shmem_wait(ivar, WORD_##base, SHMEM_CMP_NE, (uint64_t) cmp_value, \
            CALL(name##_wait)); \
    }
OLD_INTEGER_TYPES(OLD_WAIT, )
