/* Set-up that is counted, levels of threads below SHMEM_THREAD_MULTIPLE, contexts that only some
 * PEs make, and collectives of no team. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 50 };

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static long turns[MAX_PES];

/* Any thread may call, if no two do at once. */
static void *serialized(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&one_at_a_time);
        long *mine = &turns[me];
        shmem_long_p(mine, shmem_long_g(mine, (me + 1) % pes) + 1, (me + 1) % pes);
        shmem_quiet();
        pthread_mutex_unlock(&one_at_a_time);
    }
    return unused;
}

static void threads_in_turns(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, serialized, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    shmem_barrier_all();
    CHECK_EQ(turns[(me + pes - 1) % pes], THREADS * ROUNDS);
    shmem_barrier_all();
}

/* Making a context is no collective: PEs with odd numbers have one more. */
static void of_some(void)
{
    static long words[MAX_PES];
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
    if (me % 2)
        CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    shmem_ctx_long_p(ctx, &words[me], 7 + me, (me + 1) % pes);
    shmem_ctx_quiet(ctx);
    CHECK_EQ(shmem_ctx_long_g(ctx, &words[me], (me + 1) % pes), 7 + me);
    if (me % 2)
        shmem_ctx_destroy(ctx);
    shmem_barrier_all();
}

/* The library is there until the last of as many calls of finalize as of init. */
static void counted(void)
{
    int provided = -1, level = -1;
    shmem_init();
    CHECK_EQ(shmem_init_thread(SHMEM_THREAD_SINGLE, &provided), 0);
    shmem_query_thread(&level);
    CHECK_EQ(provided, level);
    CHECK_EQ(level, SHMEM_THREAD_SERIALIZED);
    shmem_finalize();
    shmem_finalize();
    CHECK_EQ(shmem_my_pe(), me);
    CHECK_EQ(shmem_n_pes(), pes);
    shmem_long_p(&turns[me], -1, me);
    shmem_quiet();
    CHECK_EQ(turns[me], -1);
}

/* A collective of no team does nothing, and says so. */
static void of_no_team(void)
{
    static long from = 1, into = 2;
    CHECK(shmem_team_sync(SHMEM_TEAM_INVALID) != 0);
    CHECK(shmem_long_broadcast(SHMEM_TEAM_INVALID, &into, &from, 1, 0) != 0);
    CHECK(shmem_long_collect(SHMEM_TEAM_INVALID, &into, &from, 1) != 0);
    CHECK(shmem_long_fcollect(SHMEM_TEAM_INVALID, &into, &from, 1) != 0);
    CHECK(shmem_long_alltoall(SHMEM_TEAM_INVALID, &into, &from, 1) != 0);
    CHECK(shmem_long_sum_reduce(SHMEM_TEAM_INVALID, &into, &from, 1) != 0);
    CHECK_EQ(into, 2);
}

int main(void)
{
    int provided = -1;
    CHECK_EQ(shmem_init_thread(SHMEM_THREAD_SERIALIZED, &provided), 0);
    check_numbers();
    CHECK(provided >= SHMEM_THREAD_SERIALIZED);
    threads_in_turns();
    of_some();
    of_no_team();
    counted();
    return check_end("levels");
}
