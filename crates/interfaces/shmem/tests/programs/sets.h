/* Active sets: the triplets that programs try, and pSync arrays that alternate. */
#ifndef SETS_H
#define SETS_H

#include "check.h"

typedef struct {
    int start, log_stride, size;
} active_set;

/* This PE's index in a set, or -1. */
static inline int index_in(active_set set)
{
    for (int i = 0; i < set.size; i++)
        if (set.start + (i ? i << set.log_stride : 0) == me)
            return i;
    return -1;
}

enum { SETS = 7 };

/* All PEs; every second one from 0 and from 1; every fourth; the upper half; and sets of one PE
 * whose stride is beyond all numbers. */
static inline active_set set_of(int i)
{
    switch (i) {
    case 0:
        return (active_set){0, 0, pes};
    case 1:
        return (active_set){0, 1, (pes + 1) / 2};
    case 2:
        return (active_set){1 % pes, 1, pes > 1 ? pes / 2 : 1};
    case 3:
        return (active_set){0, 2, (pes + 3) / 4};
    case 4:
        return (active_set){pes / 2, 0, pes - pes / 2};
    case 5:
        return (active_set){pes - 1, 13, 1};
    default:
        return (active_set){me, 63, 1};
    }
}

/* Two pSync arrays for each set, to be used in turns. */
typedef long sync_arrays[SETS][2][SHMEM_SYNC_SIZE];

static inline void sync_reset(sync_arrays arrays)
{
    for (int i = 0; i < SETS; i++)
        for (int k = 0; k < SHMEM_SYNC_SIZE; k++)
            arrays[i][0][k] = arrays[i][1][k] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
}

/* That a call left its pSync as it found it. */
static inline void sync_check(const char *call, const long *array, int size)
{
    for (int i = 0; i < size; i++)
        CHECK_AT(call, 0, i, *(volatile const long *)&array[i], SHMEM_SYNC_VALUE);
}

#endif
