/* MPI's passive lock of a window: exclusive to write, shared to read. */
#define _POSIX_C_SOURCE 200809L
#define LOCK_NAME "win-lock"
#include "locks.h"

#include "meet_mpi.h"

enum { COUNTER = 0, TOUCHED = 128, BYTES = 256 };

static MPI_Win window = MPI_WIN_NULL;
static char *base;

static bool library_allocate(void)
{
    /* Errors in here are fatal by MPI's default, so there is none to return. */
    int rank;
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    memset(base, 0, BYTES);
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
    return true;
}

static void library_gather(const double *mine, double *all)
{
    MPI_Gather(mine, FIGURES, MPI_DOUBLE, all, FIGURES, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static void library_lock(bool writes)
{
    MPI_Win_lock(writes ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, 0, 0, window);
}

static void library_unlock(bool writes)
{
    (void)writes;
    MPI_Win_unlock(0, window);
}

static void library_touch(bool writes)
{
    /* It is complete when the lock is given back. */
    static long word = 1;
    if (writes)
        MPI_Put(&word, 1, MPI_LONG, 0, TOUCHED, 1, MPI_LONG, window);
    else
        MPI_Get(&word, 1, MPI_LONG, 0, TOUCHED, 1, MPI_LONG, window);
}

static void library_increment(bool writes)
{
    static long value;
    MPI_Get(&value, 1, MPI_LONG, 0, COUNTER, 1, MPI_LONG, window);
    MPI_Win_flush(0, window);
    if (writes) {
        value++;
        MPI_Put(&value, 1, MPI_LONG, 0, COUNTER, 1, MPI_LONG, window);
    }
}

static long library_counter(void)
{
    long value;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Get(&value, 1, MPI_LONG, 0, COUNTER, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
    return value;
}

static void library_finish(void)
{
    if (window != MPI_WIN_NULL)
        MPI_Win_free(&window);
    MPI_Finalize();
}
