/* Jobs and windows that begin and end, in MPI. */
#define _POSIX_C_SOURCE 200809L
#include "start.h"

#include <mpi.h>

static void library_start(int *rank)
{
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
}

static long library_share(int root, long value)
{
    MPI_Bcast(&value, 1, MPI_LONG, root, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    return value;
}

static bool library_window(size_t bytes)
{
    MPI_Win window;
    void *memory;
    /* Errors in here are fatal by MPI's default, so there is none to return. */
    MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_free(&window);
    return true;
}

static void library_finish(void)
{
    MPI_Finalize();
}
