/* Collectives, and a wavefront by puts, in OpenSHMEM 1.4. */
#define _POSIX_C_SOURCE 200809L
#include "collectives.h"

#include "meet_shmem.h"

enum {
    ROTATING = 16,  /* collectives between two barriers, each with a work array of its own */
    SYNC_WORDS = SHMEM_REDUCE_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE
        + SHMEM_ALLTOALL_SYNC_SIZE,
};

static long sync_arrays[ROTATING][SYNC_WORDS];
static double *work[2];             /* of reductions; nobody leaves one before all have come */
static double handed[SIDE + 1];     /* one value for each row */
static long come[SIDE + 1];         /* of which sweep it is */
static double largest, own_value;
static double small_work[SHMEM_REDUCE_MIN_WRKDATA_SIZE + 1];
static long small_sync[SHMEM_REDUCE_SYNC_SIZE];
static long receives[SIDE + 1], sends[SIDE + 1];

static void library_start(int *rank, int *ranks)
{
    shmem_init();
    *rank = shmem_my_pe();
    *ranks = shmem_n_pes();
    for (int i = 0; i < ROTATING; i++)
        for (int j = 0; j < SYNC_WORDS; j++)
            sync_arrays[i][j] = SHMEM_SYNC_VALUE;
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        small_sync[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
}

static bool library_allocate(struct exchange *e)
{
    size_t room = e->words / 2 + 1;
    if (room < SHMEM_REDUCE_MIN_WRKDATA_SIZE)
        room = SHMEM_REDUCE_MIN_WRKDATA_SIZE;
    e->give = shmem_malloc(e->words * 8);
    e->take = shmem_malloc(e->words * 8);
    e->numbers = shmem_malloc(e->words * 8);
    work[0] = shmem_malloc(room * 8);
    work[1] = shmem_malloc(room * 8);
    return e->give != NULL && e->take != NULL && e->numbers != NULL && work[0] != NULL
        && work[1] != NULL;
}

static void library_barrier(void)
{
    shmem_barrier_all();
}

static double library_max(double value)
{
    own_value = value;
    shmem_double_max_to_all(&largest, &own_value, 1, 0, 0, shmem_n_pes(), small_work, small_sync);
    shmem_barrier_all();
    return largest;
}

/* Every PE begins with its neighbour, so that not all go to one. */
static void put_to_all(struct exchange *e, size_t part)
{
    for (int further = 1; further <= e->ranks; further++) {
        int to = (e->rank + further) % e->ranks;
        shmem_put64(e->take + (size_t)e->rank * part, e->give + (size_t)to * part, part, to);
    }
    shmem_barrier_all();
}

static void library_call(struct exchange *e, int root)
{
    size_t part = e->words / (size_t)e->ranks;
    long turn = (e->calls - 1) % ROTATING, *sync = sync_arrays[turn];
    switch (e->kind) {
    case BROADCAST:
        shmem_broadcast64(e->take, e->give, e->words, root, 0, 0, e->ranks, sync);
        break;
    case ALL_REDUCE:
        shmem_double_max_to_all(e->numbers, e->numbers, (int)e->words, 0, 0, e->ranks,
                                work[turn % 2], sync);
        break;
    case ALL_GATHER:
        shmem_fcollect64(e->take, e->give, part, 0, 0, e->ranks, sync);
        break;
    case ALL_TO_ALL:
        shmem_alltoall64(e->take, e->give, part, 0, 0, e->ranks, sync);
        break;
    default:
        put_to_all(e, part);
        return;
    }
    if (turn == ROTATING - 1)
        shmem_barrier_all();
}

static void library_send(int to, int row, double value)
{
    shmem_double_p(&handed[row], value, to);
    shmem_fence();
    shmem_long_p(&come[row], ++sends[row], to);
}

static double library_receive(int from, int row)
{
    (void)from;
    shmem_long_wait_until(&come[row], SHMEM_CMP_GE, ++receives[row]);
    return *(volatile double *)&handed[row];
}

static void library_finish(void)
{
    shmem_finalize();
}
