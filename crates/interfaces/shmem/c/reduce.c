/* Reductions, of teams and of active sets. */

#if defined(__GNUC__) && !defined(__clang__)
/* Loops of unknown length are vectorized at this level. */
#pragma GCC optimize("O3")
#endif

#include "border.h"

#include "fold.h"

ORDERED_FOLDS(char, char)
ARITHMETIC_FOLDS(char, char, unsigned int)
INTEGER_FOLDS(schar, signed char, unsigned int)
INTEGER_FOLDS(short, short, unsigned int)
INTEGER_FOLDS(int, int, unsigned int)
INTEGER_FOLDS(long, long, unsigned long)
INTEGER_FOLDS(longlong, long long, unsigned long long)
INTEGER_FOLDS(uchar, unsigned char, unsigned int)
INTEGER_FOLDS(ushort, unsigned short, unsigned int)
INTEGER_FOLDS(uint, unsigned int, unsigned int)
INTEGER_FOLDS(ulong, unsigned long, unsigned long)
INTEGER_FOLDS(ulonglong, unsigned long long, unsigned long long)
FLOAT_FOLDS(float, float)
FLOAT_FOLDS(double, double)
FLOAT_FOLDS(longdouble, long double)
ARITHMETIC_FOLDS(complexf, float _Complex, float _Complex)
ARITHMETIC_FOLDS(complexd, double _Complex, double _Complex)

/* Of a team. */

#define REDUCE(name, type, base, op) \
    SHMEM(int, name##_##op##_reduce, \
        (shmem_team_t team, type *dest, const type *source, size_t nreduce)) \
    { \
        TEAM_GROUP(team); \
        return farside_shmem_reduce(&group, dest, source, nreduce, sizeof(type), \
            fold_##base##_##op, CALL(name##_##op##_reduce)); \
    }

/* The signed types by their C names are beyond the standard. */
#define BITWISE_REDUCTIONS(op) \
    REDUCE_BITWISE_TYPES(REDUCE, op) \
    OLD_INTEGER_TYPES(REDUCE, op)
BITWISE_REDUCTIONS(and)
BITWISE_REDUCTIONS(or)
BITWISE_REDUCTIONS(xor)

REDUCE_ORDERED_TYPES(REDUCE, max)
REDUCE_ORDERED_TYPES(REDUCE, min)
REDUCE_ARITHMETIC_TYPES(REDUCE, sum)
REDUCE_ARITHMETIC_TYPES(REDUCE, prod)

/* Prefix sums: a member's own value is in them or not. */

enum { scan_in = 1, scan_ex = 0 };

#define SCAN(name, type, base, kind) \
    SHMEM(int, name##_sum_##kind##scan, \
        (shmem_team_t team, type *dest, const type *source, size_t nelems)) \
    { \
        TEAM_GROUP(team); \
        return farside_shmem_scan(&group, dest, source, nelems, sizeof(type), fold_##base##_sum, \
            scan_##kind, CALL(name##_sum_##kind##scan)); \
    }
REDUCE_ARITHMETIC_TYPES(SCAN, in)
REDUCE_ARITHMETIC_TYPES(SCAN, ex)

/* Of an active set. The work array is not needed. */

#define TO_ALL(name, type, base, op) \
    SHMEM(void, name##_##op##_to_all, (type *dest, const type *source, int nreduce, \
        int PE_start, int logPE_stride, int PE_size, type *pWrk, long *pSync)) \
    { \
        (void) pWrk; \
        ACTIVE_SET_GROUP(); \
        if (nreduce > 0) { \
            farside_shmem_reduce(&group, dest, source, (size_t) nreduce, sizeof(type), \
                fold_##base##_##op, CALL(name##_##op##_to_all)); \
        } \
    }

OLD_INTEGER_TYPES(TO_ALL, and)
OLD_INTEGER_TYPES(TO_ALL, or)
OLD_INTEGER_TYPES(TO_ALL, xor)
OLD_ORDERED_TYPES(TO_ALL, max)
OLD_ORDERED_TYPES(TO_ALL, min)
OLD_ARITHMETIC_TYPES(TO_ALL, sum)
OLD_ARITHMETIC_TYPES(TO_ALL, prod)
