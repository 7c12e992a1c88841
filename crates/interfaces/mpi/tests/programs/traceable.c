/* When the library lets other processes trace this one: only for a window over memory that the job
 * has not given out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

static int allowed;

/* In the place of the system's, which MPI itself may call, too. */
int prctl(int option, ...)
{
    Dl_info caller;
    if (option == PR_SET_PTRACER && dladdr(__builtin_return_address(0), &caller) != 0
        && strstr(caller.dli_fname, "farside") != NULL)
        allowed++;
    va_list rest;
    va_start(rest, option);
    unsigned long a = va_arg(rest, unsigned long), b = va_arg(rest, unsigned long),
                  c = va_arg(rest, unsigned long), d = va_arg(rest, unsigned long);
    va_end(rest);
    int (*next)(int, ...) = (int (*)(int, ...))dlsym(RTLD_NEXT, "prctl");
    return next(option, a, b, c, d);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("after MPI_Init: %d\n", allowed);

    long *given;
    MPI_Win win;
    MPI_Win_allocate(sizeof *given, sizeof *given, MPI_INFO_NULL, MPI_COMM_WORLD, &given, &win);
    MPI_Win_free(&win);
    printf("after MPI_Win_allocate: %d\n", allowed);

    /* The memory of the last rank alone. */
    long own = rank, found = -1;
    int is_last = rank == size - 1;
    MPI_Win_create(is_last ? &own : NULL, is_last ? sizeof own : 0, sizeof own, MPI_INFO_NULL,
                   MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Get(&found, 1, MPI_LONG, size - 1, 0, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    printf("after MPI_Win_create of %s: %d\n", is_last ? "memory" : "nothing", allowed);
    if (found != size - 1)
        printf("%ld was found\n", found);
    MPI_Win_free(&win);
    MPI_Finalize();
    return found == size - 1 ? 0 : 1;
}
