/* Jobs and symmetric memory that begin and end, in OpenSHMEM. */
#define _POSIX_C_SOURCE 200809L
#include "start.h"

#include "meet_shmem.h"


static void library_start(int *rank)
{
    shmem_init();
    *rank = shmem_my_pe();
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
