/* Latency of MPI-3 one-sided operations in a passive-target epoch.
 * An operation is the call and a flush of the target, so that it is complete
 * at the target when it is counted. */
#define _POSIX_C_SOURCE 200809L
#define LIBRARY_HAS_ACCUMULATE 1
#define STRIDED_ROW 64  /* bytes in a row; the distance is twice that */
#define STRIDED_UNIT 1
#include "ops.h"

#include "meet_mpi.h"

static MPI_Win window = MPI_WIN_NULL;

static bool library_allocate(size_t bytes, char **base)
{
    /* Errors in here are fatal by MPI's default, so there is none to return. */
    MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, base, &window);
    /* Nobody ever locks exclusively, so no lock has to be acquired. */
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    return true;
}

static void library_settle(void)
{
    MPI_Win_sync(window);
}

/* Puts `bytes` as rows at both sides by one call. */
static void run_strided(size_t bytes, long n)
{
    MPI_Datatype rows;
    if (bytes < STRIDED_ROW)
        MPI_Type_vector(1, (int)bytes, (int)bytes, MPI_BYTE, &rows);
    else
        MPI_Type_vector((int)(bytes / STRIDED_ROW), STRIDED_ROW, 2 * STRIDED_ROW,
                        MPI_BYTE, &rows);
    MPI_Type_commit(&rows);
    for (long i = 0; i < n; i++) {
        MPI_Put(local, 1, rows, 1, 0, 1, rows, window);
        MPI_Win_flush(1, window);
    }
    MPI_Type_free(&rows);
}

static void library_run(enum kind kind, size_t bytes, long n)
{
    const int length = (int)bytes;
    const MPI_Aint cell = (MPI_Aint)cell_offset;
    uint64_t one = 1, next, old;

    switch (kind) {
    case PUT:
        for (long i = 0; i < n; i++) {
            MPI_Put(local, length, MPI_BYTE, 1, 0, length, MPI_BYTE, window);
            MPI_Win_flush(1, window);
        }
        break;
    case GET:
        for (long i = 0; i < n; i++) {
            MPI_Get(local, length, MPI_BYTE, 1, 0, length, MPI_BYTE, window);
            MPI_Win_flush(1, window);
        }
        break;
    case ACCUMULATE:
        for (long i = 0; i < n; i++) {
            MPI_Accumulate(local, length / 8, MPI_DOUBLE, 1, 0, length / 8, MPI_DOUBLE,
                           MPI_SUM, window);
            MPI_Win_flush(1, window);
        }
        done += (uint64_t)n;
        break;
    case GET_ACCUMULATE:
        for (long i = 0; i < n; i++) {
            MPI_Get_accumulate(local, length / 8, MPI_DOUBLE, fetched, length / 8, MPI_DOUBLE,
                               1, 0, length / 8, MPI_DOUBLE, MPI_SUM, window);
            MPI_Win_flush(1, window);
        }
        done += (uint64_t)n;
        break;
    case PUT_STRIDED:
        run_strided(bytes, n);
        break;
    case FETCH_ADD:
        for (long i = 0; i < n; i++) {
            MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, 1, cell, MPI_SUM, window);
            MPI_Win_flush(1, window);
        }
        done += (uint64_t)n;
        break;
    case SWAP:
        for (long i = 0; i < n; i++) {
            next = ++done;
            MPI_Fetch_and_op(&next, &old, MPI_UINT64_T, 1, cell, MPI_REPLACE, window);
            MPI_Win_flush(1, window);
        }
        break;
    case COMPARE_SWAP:
        for (long i = 0; i < n; i++) {
            uint64_t expected = done;
            next = ++done;
            MPI_Compare_and_swap(&next, &expected, &old, MPI_UINT64_T, 1, cell, window);
            MPI_Win_flush(1, window);
        }
        break;
    case SIGNAL:
        for (long i = 0; i < n; i++) {
            next = ++done;
            MPI_Accumulate(&next, 1, MPI_UINT64_T, 1, cell, 1, MPI_UINT64_T, MPI_REPLACE,
                           window);
            MPI_Win_flush(1, window);
        }
        break;
    case RATE:
        for (long i = 0; i < n; i++) {
            for (int j = 0; j < RATE_BATCH; j++)
                MPI_Put(local, length, MPI_BYTE, 1, 0, length, MPI_BYTE, window);
            MPI_Win_flush(1, window);
        }
        break;
    case BARRIER:
        for (long i = 0; i < n; i++)
            MPI_Barrier(MPI_COMM_WORLD);
        break;
    case KINDS:
        break;
    }
}

static void library_finish(void)
{
    if (window != MPI_WIN_NULL) {
        MPI_Win_unlock_all(window);
        MPI_Win_free(&window);
    }
    MPI_Finalize();
}
