/* How PEs meet and tell each other something, in OpenSHMEM. */
#ifndef MEET_SHMEM_H
#define MEET_SHMEM_H

#include <shmem.h>

static long box;  /* symmetric: what library_share passes on */

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

#endif
