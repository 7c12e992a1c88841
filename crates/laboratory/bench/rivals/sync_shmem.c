/* All puts complete and all ranks met, in OpenSHMEM: one call does both. */
#define _POSIX_C_SOURCE 200809L
#define COMPLETES_AS "sync"
#define COMPLETES_BY "barrier_all"
#include "sync.h"

#include "meet_shmem.h"

static double *maxima;      /* symmetric: everybody's values, for rank 0 */
static char *allocated;     /* symmetric: the region */

static void library_start(int *rank, int *ranks)
{
    shmem_init();
    *rank = shmem_my_pe();
    *ranks = shmem_n_pes();
    maxima = shmem_malloc((size_t)*ranks * BATCH_MAX * sizeof *maxima);
    if (maxima == NULL) {
        fprintf(stderr, "no symmetric memory\n");
        shmem_global_exit(1);
    }
}

static bool library_allocate(size_t bytes, char **region)
{
    *region = allocated = shmem_malloc(bytes);
    if (allocated != NULL)
        memset(allocated, 0, bytes);
    shmem_barrier_all();
    return allocated != NULL;
}

static void library_barrier(void)
{
    shmem_sync_all();
}

static void library_max(double *values, int count)
{
    size_t bytes = (size_t)count * sizeof *values;
    shmem_putmem(maxima + shmem_my_pe() * BATCH_MAX, values, bytes, 0);
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        for (int pe = 0; pe < shmem_n_pes(); pe++)
            for (int i = 0; i < count; i++)
                if (maxima[pe * BATCH_MAX + i] > values[i])
                    values[i] = maxima[pe * BATCH_MAX + i];
    shmem_barrier_all();
}

static void library_put_all(size_t offset, const char *local, size_t bytes)
{
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        if (pe != shmem_my_pe())
            shmem_putmem(allocated + offset, local, bytes, pe);
}

static void library_complete(void)
{
    shmem_barrier_all();
}

static void library_finish(void)
{
    if (allocated != NULL)
        shmem_free(allocated);
    shmem_free(maxima);
    shmem_finalize();
}
