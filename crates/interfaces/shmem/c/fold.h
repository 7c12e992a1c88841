/* The folds of reductions: into[i] = into[i] op from[i], for each fundamental type. Integers wrap
 * around: they are computed in an unsigned type that is at least as wide as int, so that nothing
 * overflows. */
#ifndef FARSIDE_SHMEM_FOLD_H
#define FARSIDE_SHMEM_FOLD_H

#include <stddef.h>

#define FOLD(name, type, op, result) \
    static void fold_##name##_##op(void *into, const void *from, size_t nelems) \
    { \
        type *a = into; \
        const type *b = from; \
        for (size_t i = 0; i < nelems; i++) { \
            a[i] = (type) (result); \
        } \
    }

#define BITWISE_FOLDS(name, type) \
    FOLD(name, type, and, a[i] & b[i]) \
    FOLD(name, type, or, a[i] | b[i]) \
    FOLD(name, type, xor, a[i] ^ b[i])

#define ORDERED_FOLDS(name, type) \
    FOLD(name, type, max, b[i] > a[i] ? b[i] : a[i]) \
    FOLD(name, type, min, b[i] < a[i] ? b[i] : a[i])

#define ARITHMETIC_FOLDS(name, type, wide) \
    FOLD(name, type, sum, (wide) a[i] + (wide) b[i]) \
    FOLD(name, type, prod, (wide) a[i] * (wide) b[i])

#define INTEGER_FOLDS(name, type, wide) \
    BITWISE_FOLDS(name, type) \
    ORDERED_FOLDS(name, type) \
    ARITHMETIC_FOLDS(name, type, wide)

#define FLOAT_FOLDS(name, type) \
    ORDERED_FOLDS(name, type) \
    ARITHMETIC_FOLDS(name, type, type)

#endif
