/* Latency of OpenSHMEM operations.
 * Those which return before they are complete at the target are followed by
 * shmem_quiet; a get and the fetching atomics are complete on return. */
#define _POSIX_C_SOURCE 200809L
#define LIBRARY_HAS_ACCUMULATE 0
/* shmem_iput moves single elements: every other word of the same span as rows
 * of 64 bytes at a distance of 128 would have, so equally many bytes. */
#define STRIDED_ROW 8
#define STRIDED_UNIT 8
#include "ops.h"

#include "meet_shmem.h"

static char *allocated;     /* symmetric: the region, or NULL */

static void library_start(int *rank, int *ranks)
{
    shmem_init();
    *rank = shmem_my_pe();
    *ranks = shmem_n_pes();
}

static bool library_allocate(size_t bytes, char **base)
{
    *base = allocated = shmem_align(CELL_BYTES, bytes);
    return allocated != NULL;
}

static void library_barrier(void)
{
    shmem_barrier_all();
}

static void library_settle(void)
{
    /* Every use of the region is followed by a barrier, which does it. */
}

static void library_run(enum kind kind, size_t bytes, long n)
{
    /* The 64-bit names of the atomics are missing in Open MPI 4.1. */
    _Static_assert(sizeof(unsigned long) == 8, "64-bit atomics");
    unsigned long *cell = (unsigned long *)(region + cell_offset);
    const ptrdiff_t stride = bytes < 64 ? 1 : 2;
    /* Keeps the results of the fetching atomics alive. */
    static volatile uint64_t old;

    switch (kind) {
    case PUT:
        for (long i = 0; i < n; i++) {
            shmem_putmem(region, local, bytes, 1);
            shmem_quiet();
        }
        break;
    case GET:
        for (long i = 0; i < n; i++)
            shmem_getmem(local, region, bytes, 1);
        break;
    case PUT_STRIDED:
        for (long i = 0; i < n; i++) {
            shmem_iput64(region, local, stride, stride, bytes / 8, 1);
            shmem_quiet();
        }
        break;
    case FETCH_ADD:
        for (long i = 0; i < n; i++)
            old = shmem_ulong_atomic_fetch_add(cell, 1, 1);
        done += (uint64_t)n;
        break;
    case SWAP:
        for (long i = 0; i < n; i++)
            old = shmem_ulong_atomic_swap(cell, ++done, 1);
        break;
    case COMPARE_SWAP:
        for (long i = 0; i < n; i++, done++)
            old = shmem_ulong_atomic_compare_swap(cell, done, done + 1, 1);
        break;
    case SIGNAL:
        for (long i = 0; i < n; i++) {
            shmem_ulong_atomic_set(cell, ++done, 1);
            shmem_quiet();
        }
        break;
    case RATE:
        for (long i = 0; i < n; i++) {
            for (int j = 0; j < RATE_BATCH; j++)
                shmem_putmem(region, local, bytes, 1);
            shmem_quiet();
        }
        break;
    case BARRIER:
        for (long i = 0; i < n; i++)
            shmem_barrier_all();
        break;
    case ACCUMULATE:        /* OpenSHMEM has none */
    case GET_ACCUMULATE:
    case KINDS:
        break;
    }
    (void)old;
}

static void library_finish(void)
{
    if (allocated != NULL)
        shmem_free(allocated);
    shmem_finalize();
}
