/* How the typed interface is written: each function is defined once, as pshmem_NAME, and
 * shmem_NAME is a weak alias of it, which a tool or a program may define instead. */
#ifndef FARSIDE_SHMEM_BORDER_H
#define FARSIDE_SHMEM_BORDER_H

/* Their names would expand in definitions. */
#define FARSIDE_SHMEM_NO_GENERIC

#include <string.h>

#include <pshmem.h>

#include "core.h"
#include "types.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values travel in a word's low bytes");
_Static_assert(sizeof(long) == 8 && sizeof(long long) == 8, "int64_t is handled as long");
_Static_assert(sizeof(short) == 2 && sizeof(int) == 4, "int16_t and int32_t are short and int");
_Static_assert(sizeof(size_t) == 8 && sizeof(ptrdiff_t) == 8, "size_t is handled as long");
_Static_assert(sizeof(void *) == 8, "handles are words");

/* Begins a definition: of NAME with the strong name pNAME. */
#define BOTH_NAMES(returns, name, parameters) \
    returns name parameters __attribute__((weak, alias("p" #name))); \
    returns p##name parameters

/* The same, where `name` lacks the prefix. */
#define SHMEM(returns, name, parameters) BOTH_NAMES(returns, shmem_##name, parameters)

/* The name that messages give to a function. In a job that is checked for races it is noted from
 * where the program has called it; in all others that is one look at a variable. */
#define CALL(name) farside_shmem_called("shmem_" #name, __builtin_return_address(0))

extern int farside_shmem_wants_callers __attribute__((visibility("hidden")));

static inline const char *farside_shmem_called(const char *call, void *address)
{
    if (__builtin_expect(farside_shmem_wants_callers, 0)) {
        farside_shmem_note_caller(call, address);
    }
    return call;
}

/* The bytes of some elements. More than there can be is more than any object has. */
static inline size_t total(size_t element, size_t nelems)
{
    size_t bytes;
    return __builtin_mul_overflow(element, nelems, &bytes) ? SIZE_MAX : bytes;
}

/* The low bytes of a word that holds a value, and the value that a word holds. */
#define TO_WORD(word, value) \
    uint64_t word = 0; \
    memcpy(&word, &(value), sizeof(value))
#define FROM_WORD(type, word) \
    type value_of_word; \
    memcpy(&value_of_word, &(word), sizeof(value_of_word)); \
    return value_of_word

/* Sizes of elements: bits and bytes. */
#define SIZES(X, more) \
    X(8, 1, more) \
    X(16, 2, more) \
    X(32, 4, more) \
    X(64, 8, more) \
    X(128, 16, more)

/* Groups of collectives. */
#define TEAM_GROUP(handle) \
    const struct farside_shmem_group group = {handle, 0, 0, 0, NULL}
#define ACTIVE_SET_GROUP() \
    const struct farside_shmem_group group = \
        {SHMEM_TEAM_INVALID, PE_start, logPE_stride, PE_size, pSync}

#endif
