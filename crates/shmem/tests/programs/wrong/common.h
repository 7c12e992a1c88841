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

#endif
