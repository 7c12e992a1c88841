/* All puts complete and all ranks met, in MPI: a flush of all targets, then a barrier. */
#define _POSIX_C_SOURCE 200809L
#define COMPLETES_AS "allfence_barrier"
#define COMPLETES_BY "flush_all"
#include "sync.h"

#include "meet_mpi.h"

static MPI_Win window = MPI_WIN_NULL;

static bool library_allocate(size_t bytes, char **region)
{
    /* Errors in here are fatal by MPI's default, so there is none to return. */
    MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, region, &window);
    memset(*region, 0, bytes);
    /* Nobody ever locks exclusively, so no lock has to be acquired. */
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    return true;
}

static void library_max(double *values, int count)
{
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void library_put_all(size_t offset, const char *local, size_t bytes)
{
    int my_rank, all_ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &all_ranks);
    for (int r = 0; r < all_ranks; r++)
        if (r != my_rank)
            MPI_Put(local, (int)bytes, MPI_BYTE, r, (MPI_Aint)offset, (int)bytes, MPI_BYTE, window);
}

static void library_complete(void)
{
    MPI_Win_flush_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void library_finish(void)
{
    if (window != MPI_WIN_NULL) {
        MPI_Win_unlock_all(window);
        MPI_Win_free(&window);
    }
    MPI_Finalize();
}
