/* What the wrong programs have in common: they start, make one error, and say so if they get past
 * it. A harness checks that the job ends with a status other than 0 and that each word of the line
 * `expect` stands in the messages on standard error. */
#ifndef COMMON_H
#define COMMON_H

#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The error went unnoticed. Status 0, so that the harness sees it. */
static inline int unnoticed(void)
{
    printf("the error went unnoticed\n");
    fflush(stdout);
    shmem_global_exit(0);
    return 0;
}

/* Ends the last PE by a signal, once PE 0 has come this far, out of all calls that both make. */
static inline void last_dies(void)
{
    static long came;
    int last = shmem_n_pes() - 1;
    if (shmem_my_pe() == 0)
        shmem_long_atomic_set(&came, 1, last);
    if (shmem_my_pe() == last) {
        shmem_long_wait_until(&came, SHMEM_CMP_EQ, 1);
        abort();
    }
}

#endif
