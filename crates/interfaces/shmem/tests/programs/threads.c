/* SHMEM_THREAD_MULTIPLE: threads with contexts of their own, threads that share the default
 * context, waits and locks of one thread while others go on. */
#include "check.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, ROUNDS = 100 };

static uint64_t counter, slots[MAX_PES][THREADS][ROUNDS];
static uint64_t flags[THREADS], replies[THREADS];
static long guarded_lock, guarded_count;
static uint64_t issued[THREADS], checked;

typedef void *body(void *);

static void run(body *what)
{
    pthread_t threads[THREADS];
    static int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK_EQ(pthread_create(&threads[i], NULL, what, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* A private context each: puts, gets, atomics. */
static void *with_contexts(void *argument)
{
    int number = *(int *)argument, next = (me + 1) % pes;
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_ctx_create(number % 2 ? SHMEM_CTX_PRIVATE : 0, &ctx), 0);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t value = (uint64_t)me << 32 | (uint64_t)number << 16 | i;
        shmem_ctx_uint64_put_nbi(ctx, &slots[me][number][i], &value, 1, next);
        shmem_ctx_uint64_atomic_inc(ctx, &counter, pes - 1);
        shmem_ctx_quiet(ctx);
        CHECK_EQ(shmem_ctx_uint64_g(ctx, &slots[me][number][i], next), value);
    }
    shmem_ctx_destroy(ctx);
    return NULL;
}

/* The default context from all threads at once. */
static void *with_default(void *argument)
{
    int number = *(int *)argument, next = (me + 1) % pes;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t value = (uint64_t)me << 32 | (uint64_t)number << 16 | i;
        shmem_uint64_p(&slots[me][number][i], value, next);
        CHECK(shmem_uint64_atomic_fetch_add(&counter, 1, pes - 1) < THREADS * ROUNDS * MAX_PES);
        if (i % 10 == 9) {
            shmem_quiet();
            CHECK_EQ(shmem_uint64_g(&slots[me][number][i], next), value);
        }
    }
    return NULL;
}

static void check_slots(void)
{
    int previous = (me + pes - 1) % pes;
    for (int number = 0; number < THREADS; number++)
        for (uint64_t i = 0; i < ROUNDS; i++)
            CHECK_EQ(slots[previous][number][i],
                     (uint64_t)previous << 32 | (uint64_t)number << 16 | i);
    CHECK_EQ(counter, me == pes - 1 ? (uint64_t)(THREADS * ROUNDS * pes) : 0);
    memset(slots, 0, sizeof slots);
    counter = 0;
    shmem_barrier_all();
}

/* Each thread waits for its own flag; the last thread raises them, one after another, on the next
 * PE. If a wait stopped other threads, none would come. */
static void *with_waits(void *argument)
{
    int number = *(int *)argument, next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    for (uint64_t round = 1; round <= 20; round++) {
        if (number == THREADS - 1) {
            for (int i = 0; i < THREADS - 1; i++)
                shmem_uint64_atomic_set(&flags[i], round, next);
            for (int i = 0; i < THREADS - 1; i++)
                shmem_uint64_wait_until(&replies[i], SHMEM_CMP_EQ, round);
        } else {
            shmem_uint64_wait_until(&flags[number], SHMEM_CMP_EQ, round);
            shmem_uint64_atomic_set(&replies[number], round, previous);
        }
        check_count();
    }
    return NULL;
}

/* Thread 0 quiets the default context; the puts of the others before that are then complete. */
static void *with_one_quiet(void *argument)
{
    int number = *(int *)argument, next = (me + 1) % pes;
    for (uint64_t round = 1; round <= 20; round++) {
        if (number > 0) {
            for (int i = 0; i < ROUNDS; i++)
                shmem_uint64_p(&slots[me][number][i], round * 1000 + (uint64_t)i, next);
            __atomic_store_n(&issued[number], round, __ATOMIC_RELEASE);
            while (__atomic_load_n(&checked, __ATOMIC_ACQUIRE) != round)
                sched_yield();
        } else {
            for (int i = 1; i < THREADS; i++)
                while (__atomic_load_n(&issued[i], __ATOMIC_ACQUIRE) != round)
                    sched_yield();
            shmem_quiet();
            for (int i = 1; i < THREADS; i++)
                for (int k = 0; k < ROUNDS; k += 33)
                    CHECK_EQ(shmem_uint64_g(&slots[me][i][k], next), round * 1000 + (uint64_t)k);
            __atomic_store_n(&checked, round, __ATOMIC_RELEASE);
        }
    }
    return NULL;
}

/* One thread of each PE contends for a lock while the others transfer. */
static void *with_locks(void *argument)
{
    int number = *(int *)argument;
    if (number > 0)
        return with_default(argument);
    for (int i = 0; i < 30; i++) {
        shmem_set_lock(&guarded_lock);
        shmem_long_p(&guarded_count, shmem_long_g(&guarded_count, 0) + 1, 0);
        shmem_clear_lock(&guarded_lock);
    }
    return NULL;
}

/* Thread 0 makes the heap grow beside the traffic of thread 1 on the default context. Nothing is
 * written to the blocks, so that they take no memory. */
static int has_grown;

static void *with_growth(void *argument)
{
    int number = *(int *)argument, next = (me + 1) % pes;
    if (number == 0) {
        void *blocks[3];
        for (int i = 0; i < 3; i++) {
            blocks[i] = shmem_malloc((size_t)(70 << i) << 20);
            CHECK(blocks[i] != NULL);
            CHECK(shmem_addr_accessible(blocks[i], next));
        }
        for (int i = 0; i < 3; i++)
            shmem_free(blocks[i]);
        __atomic_store_n(&has_grown, 1, __ATOMIC_RELEASE);
        return NULL;
    }
    if (number > 1)
        return NULL;
    for (uint64_t i = 0; i < 50 || !__atomic_load_n(&has_grown, __ATOMIC_ACQUIRE); i++) {
        uint64_t value = i << 8 | (uint64_t)number, *slot = &slots[me][number][i % ROUNDS];
        shmem_uint64_p(slot, value, next);
        shmem_uint64_atomic_inc(&counter, next);
        shmem_quiet();
        CHECK_EQ(shmem_uint64_g(slot, next), value);
    }
    return NULL;
}

/* Thread i goes through collectives of team i; teams are independent. */
static shmem_team_t teams[THREADS];
static long sums[THREADS], terms[THREADS];

static void *with_teams(void *argument)
{
    int number = *(int *)argument;
    for (long round = 0; round < 20; round++) {
        CHECK_EQ(shmem_team_sync(teams[number]), 0);
        terms[number] = round * 10 + number + me;
        CHECK_EQ(shmem_long_sum_reduce(teams[number], &sums[number], &terms[number], 1), 0);
        CHECK_EQ(sums[number], (round * 10 + number) * pes + pes * (pes - 1) / 2);
    }
    return NULL;
}

/* The members of an active set meet at their pSync, whether it was ever written or not. */
static void with_sets(void)
{
    static long untouched[SHMEM_REDUCE_SYNC_SIZE], prepared[SHMEM_REDUCE_SYNC_SIZE];
    static long work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
    long *syncs[2] = {untouched, prepared};
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        prepared[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    for (int round = 0; round < 4; round++) {
        terms[0] = me + round;
        shmem_long_sum_to_all(sums, terms, 1, 0, 0, pes, work, syncs[round % 2]);
        CHECK_EQ(sums[0], pes * (pes - 1) / 2 + round * pes);
    }
    CHECK_EQ(untouched[0], 0);
    CHECK_EQ(prepared[0], SHMEM_SYNC_VALUE);
}

int main(void)
{
    int provided = -1, level = -1;
    if (shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) != 0)
        return 1;
    check_numbers();
    shmem_query_thread(&level);
    CHECK_EQ(level, provided);
    CHECK_EQ(provided, SHMEM_THREAD_MULTIPLE);
    run(with_contexts);
    shmem_barrier_all();
    check_slots();
    run(with_default);
    shmem_barrier_all();
    check_slots();
    run(with_waits);
    shmem_barrier_all();
    run(with_one_quiet);
    shmem_barrier_all();
    memset(slots, 0, sizeof slots);
    shmem_barrier_all();
    run(with_locks);
    shmem_barrier_all();
    CHECK_EQ(shmem_long_g(&guarded_count, 0), 30 * pes);
    run(with_growth);
    shmem_barrier_all();
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, NULL, 0, &teams[i]), 0);
    run(with_teams);
    for (int i = 0; i < THREADS; i++)
        shmem_team_destroy(teams[i]);
    with_sets();
    return check_end("threads");
}
