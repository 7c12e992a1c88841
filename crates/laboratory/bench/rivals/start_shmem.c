/* Jobs and symmetric memory that begin and end, in OpenSHMEM. */
#define _POSIX_C_SOURCE 200809L
#include "start.h"

#include <shmem.h>

static long box;            /* symmetric: what library_share passes on */

static void library_start(int *rank)
{
    shmem_init();
    *rank = shmem_my_pe();
}

static long library_share(int root, long value)
{
    if (shmem_my_pe() == root)
        for (int pe = 0; pe < shmem_n_pes(); pe++)
            shmem_long_p(&box, value, pe);
    shmem_barrier_all();
    value = box;
    shmem_barrier_all();  /* all have read it before somebody writes the next */
    return value;
}

static bool library_window(size_t bytes)
{
    void *memory = shmem_malloc(bytes);
    shmem_free(memory);
    return memory != NULL;
}

static void library_finish(void)
{
    shmem_finalize();
}
