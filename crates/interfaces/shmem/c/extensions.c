/* What shmemx.h declares: extensions that programs of other libraries use. */

#define _POSIX_C_SOURCE 200809L

#include <time.h>

#include "border.h"

#include <pshmemx.h>

BOTH_NAMES(double, shmemx_wtime, (void))
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}
