/* How ranks begin, meet and tell each other something, in MPI. */
#ifndef MEET_MPI_H
#define MEET_MPI_H

#include <mpi.h>

static void library_start(int *rank, int *ranks)
{
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, ranks);
}

static void library_barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static long library_share(int root, long value)
{
    MPI_Bcast(&value, 1, MPI_LONG, root, MPI_COMM_WORLD);
    return value;
}

#endif
