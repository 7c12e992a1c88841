/* Locks: mutual exclusion under contention, test_lock, arrays of locks, static and heap. */
#include "check.h"

enum { LOCKS = 8, ROUNDS = 30 };

typedef struct {
    long lock, guard;
    long inside;
    long count;
    long values[4];
} guarded;

static guarded static_guarded;
static long static_locks[LOCKS];
static long static_sums[LOCKS];

/* One PE at a time changes the last PE's words by plain get and put; nothing is lost. */
static void exclusion(guarded *object, int with_test)
{
    memset(object, 0, sizeof *object);
    object->guard = 1234567;
    shmem_barrier_all();
    for (int i = 0; i < ROUNDS; i++) {
        if (with_test)
            while (shmem_test_lock(&object->lock))
                ;
        else
            shmem_set_lock(&object->lock);
        CHECK_EQ(shmem_long_atomic_fetch_inc(&object->inside, 0), 0);
        long count = shmem_long_g(&object->count, pes - 1), values[4];
        shmem_long_get(values, object->values, 4, pes - 1);
        for (long k = 0; k < 4; k++) {
            CHECK_EQ(values[k], count * (k + 1));
            values[k] += k + 1;
        }
        shmem_long_put(object->values, values, 4, pes - 1);
        shmem_long_p(&object->count, count + 1, pes - 1);
        CHECK_EQ(shmem_long_atomic_fetch_add(&object->inside, -1, 0), 1);
        shmem_clear_lock(&object->lock);
    }
    shmem_barrier_all();
    CHECK_EQ(shmem_long_g(&object->count, pes - 1), (long)ROUNDS * pes);
    CHECK_EQ(object->guard, 1234567);
    CHECK_EQ(object->inside, 0);
    shmem_barrier_all();
}

/* test_lock of a lock that is held says 1, of a free one 0; of the holder's own 1. */
static void busy(long *lock)
{
    *lock = 0;
    shmem_barrier_all();
    for (int holder = 0; holder < pes; holder++) {
        if (me == holder) {
            CHECK_EQ(shmem_test_lock(lock), 0);
            CHECK_EQ(shmem_test_lock(lock), 1);
        }
        shmem_barrier_all();
        if (me != holder)
            CHECK_EQ(shmem_test_lock(lock), 1);
        shmem_barrier_all();
        if (me == holder)
            shmem_clear_lock(lock);
        shmem_barrier_all();
    }
}

/* Different elements are different locks: all held at once, each by another PE. */
static void array(long *locks, long *sums)
{
    for (int i = 0; i < LOCKS; i++)
        locks[i] = sums[i] = 0;
    shmem_barrier_all();
    for (int i = me; i < LOCKS; i += pes)
        shmem_set_lock(&locks[i]);
    shmem_barrier_all();
    for (int i = 0; i < LOCKS; i++)
        CHECK_EQ(shmem_test_lock(&locks[i]), 1);
    shmem_barrier_all();
    for (int i = me; i < LOCKS; i += pes)
        shmem_clear_lock(&locks[i]);
    shmem_barrier_all();
    for (int i = 0; i < LOCKS * 4; i++) {
        int which = (i + me) % LOCKS, home = which % pes;
        shmem_set_lock(&locks[which]);
        shmem_long_p(&sums[which], shmem_long_g(&sums[which], home) + 1, home);
        shmem_clear_lock(&locks[which]);
    }
    shmem_barrier_all();
    for (int i = 0; i < LOCKS; i++)
        CHECK_EQ(shmem_long_g(&sums[i], i % pes), 4 * pes);
    shmem_barrier_all();
}

/* clear_lock completes what was put before, so that the next holder reads it anywhere. */
static void completion(long *words)
{
    long *lock = words, *turn = words + 1;
    memset(words, 0, (2 + MAX_PES) * sizeof *words);
    shmem_barrier_all();
    for (int i = 0; i < ROUNDS; i++) {
        shmem_set_lock(lock);
        long seen = shmem_long_g(turn, 0);
        for (int pe = 0; pe < pes; pe++)
            CHECK_EQ(shmem_long_g(words + 2 + pe, pe), seen);
        for (int pe = 0; pe < pes; pe++)
            shmem_long_p(words + 2 + pe, seen + 1, pe);
        shmem_long_p(turn, seen + 1, 0);
        shmem_clear_lock(lock);
    }
    shmem_barrier_all();
    CHECK_EQ(shmem_long_g(turn, 0), (long)ROUNDS * pes);
    shmem_barrier_all();
}

int main(void)
{
    static long static_words[2 + MAX_PES];
    check_begin();
    guarded *heap_guarded = heap_block(sizeof *heap_guarded);
    long *heap_locks = heap_block(LOCKS * sizeof *heap_locks);
    long *heap_sums = heap_block(LOCKS * sizeof *heap_sums);
    long *heap_words = heap_block(sizeof static_words);
    for (int with_test = 0; with_test < 2; with_test++) {
        exclusion(&static_guarded, with_test);
        exclusion(heap_guarded, with_test);
    }
    busy(&static_locks[3]);
    busy(heap_locks + 1);
    array(static_locks, heap_sums);
    array(heap_locks, static_sums);
    completion(static_words);
    completion(heap_words);
    shmem_free(heap_words);
    shmem_free(heap_sums);
    shmem_free(heap_locks);
    shmem_free(heap_guarded);
    /* A lock in a block that was freed, allocated again and zeroed. */
    for (int i = 0; i < 5; i++) {
        long *lock = shmem_calloc(1, sizeof *lock);
        CHECK(lock != NULL);
        shmem_set_lock(lock);
        shmem_clear_lock(lock);
        shmem_free(lock);
    }
    return check_end("locks");
}
