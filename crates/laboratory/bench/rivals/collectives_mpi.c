/* Collectives, and a wavefront by messages, in MPI. */
#define _POSIX_C_SOURCE 200809L
#include "collectives.h"

#include "meet_mpi.h"

static MPI_Win window = MPI_WIN_NULL;

static bool library_allocate(struct exchange *e)
{
    e->give = malloc(e->words * 8);
    e->numbers = malloc(e->words * 8);
    if (e->kind == ALL_TO_ALL_PUTS) {
        MPI_Win_allocate((MPI_Aint)(e->words * 8), 8, MPI_INFO_NULL, MPI_COMM_WORLD, &e->take,
                         &window);
        /* Nobody ever locks exclusively, so no lock has to be acquired. */
        MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    } else {
        e->take = malloc(e->words * 8);
    }
    return e->give != NULL && e->take != NULL && e->numbers != NULL;
}

static double library_max(double value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
}

/* Every rank begins with its neighbour, so that not all go to one. */
static void put_to_all(struct exchange *e, int part)
{
    for (int further = 1; further <= e->ranks; further++) {
        int to = (e->rank + further) % e->ranks;
        MPI_Put(e->give + (size_t)to * (size_t)part, part, MPI_UINT64_T, to,
                (MPI_Aint)e->rank * part, part, MPI_UINT64_T, window);
    }
    MPI_Win_flush_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window);
}

static void library_call(struct exchange *e, int root)
{
    int words = (int)e->words, part = words / e->ranks;
    switch (e->kind) {
    case BROADCAST:
        MPI_Bcast(e->rank == root ? e->give : e->take, words, MPI_UINT64_T, root, MPI_COMM_WORLD);
        break;
    case REDUCE:
        /* Not in place: MPICH 4.0 crashes in that. */
        MPI_Reduce(e->numbers, e->take, words, MPI_DOUBLE, MPI_MAX, root, MPI_COMM_WORLD);
        break;
    case ALL_REDUCE:
        MPI_Allreduce(MPI_IN_PLACE, e->numbers, words, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        break;
    case ALL_GATHER:
        MPI_Allgather(e->give, part, MPI_UINT64_T, e->take, part, MPI_UINT64_T, MPI_COMM_WORLD);
        break;
    case ALL_TO_ALL:
        MPI_Alltoall(e->give, part, MPI_UINT64_T, e->take, part, MPI_UINT64_T, MPI_COMM_WORLD);
        break;
    default:
        put_to_all(e, part);
    }
}

static void library_send(int to, int row, double value)
{
    MPI_Send(&value, 1, MPI_DOUBLE, to, row, MPI_COMM_WORLD);
}

static double library_receive(int from, int row)
{
    double value;
    MPI_Recv(&value, 1, MPI_DOUBLE, from, row, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return value;
}

static void library_finish(void)
{
    if (window != MPI_WIN_NULL) {
        MPI_Win_unlock_all(window);
        MPI_Win_free(&window);
    }
    MPI_Finalize();
}
