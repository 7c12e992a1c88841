/* Single operations and collectives of OpenSHMEM.
 *
 * PE 0 works on the last PE in the first ones; the others wait in a barrier.
 * Every case looks at its result afterwards. */
#ifndef SHMEM_MICRO_H
#define SHMEM_MICRO_H

#include "shmem_bench.h"

enum {
    PER_QUIET = 1000,       /* operations of a stream with one shmem_quiet */
    WORDS_MAX = 4096,       /* the longest vector of a collective */
    LOCKED = 10             /* increments under the lock, in its check */
};

/* Symmetric, each on a cache line of its own. */
static long *words;         /* PER_QUIET words that are put and got */
static long *cell;          /* the atomics' target */
static long *flag;          /* what a PE waits for */
static long *lock;
static long static_cell;    /* symmetric, but not on the heap */
static double *reduced, *addends;
static uint64_t *collected, *contribution;
static double *work;        /* of reductions, two arrays that take turns */
static long vector;         /* how many words a collective moves */

static long expected;       /* at PE 0: what the cell must hold; at both ends: the last flag */
static volatile long sink;

enum { WORK = WORDS_MAX / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE };

static void micro_allocate(void)
{
    if (words != NULL)
        return;
    words = symmetric(PER_QUIET * sizeof *words);
    cell = symmetric(128);
    flag = symmetric(128);
    lock = symmetric(128);
    reduced = symmetric(WORDS_MAX * sizeof *reduced);
    addends = symmetric(WORDS_MAX * sizeof *addends);
    size_t most = (size_t)(WORDS_MAX > 64 * pes ? WORDS_MAX : 64 * pes);
    collected = symmetric(most * sizeof *collected);
    contribution = symmetric(most * sizeof *contribution);
    work = symmetric(2 * WORK * sizeof *work);
    sync_array(0);
}

/* ---- one PE works on another ---- */

static void run_put(long n)
{
    long value = 1;
    for (long i = 0; me == 0 && i < n; i++) {
        shmem_putmem(words, &value, sizeof value, pes - 1);
        shmem_quiet();
    }
}

static void run_p(long n)
{
    for (long i = 0; me == 0 && i < n; i++) {
        shmem_long_p(words + i % PER_QUIET, 1, pes - 1);
        if (i % PER_QUIET == PER_QUIET - 1)
            shmem_quiet();
    }
    shmem_quiet();
}

static void run_put_nbi(long n)
{
    static long value = 1;
    for (long i = 0; me == 0 && i < n; i++) {
        shmem_putmem_nbi(words + i % PER_QUIET, &value, sizeof value, pes - 1);
        if (i % PER_QUIET == PER_QUIET - 1)
            shmem_quiet();
    }
    shmem_quiet();
}

static void run_get(long n)
{
    long value = 0;
    for (long i = 0; me == 0 && i < n; i++) {
        shmem_getmem(&value, words, sizeof value, pes - 1);
        sink = value;
    }
}

static void run_g(long n)
{
    for (long i = 0; me == 0 && i < n; i++)
        sink = shmem_long_g(words, pes - 1);
}

static void run_fetch_add(long n)
{
    for (long i = 0; me == 0 && i < n; i++)
        sink = shmem_long_atomic_fetch_add(cell, 1, pes - 1);
    expected += n;
}

static void run_fetch_add_static(long n)
{
    for (long i = 0; me == 0 && i < n; i++)
        sink = shmem_long_atomic_fetch_add(&static_cell, 1, pes - 1);
    expected += n;
}

static void run_compare_swap(long n)
{
    for (long i = 0; me == 0 && i < n; i++)
        sink = shmem_long_atomic_compare_swap(cell, expected + i, expected + i + 1, pes - 1);
    expected += n;
}

static void run_add(long n)
{
    for (long i = 0; me == 0 && i < n; i++) {
        shmem_long_atomic_add(cell, 1, pes - 1);
        if (i % PER_QUIET == PER_QUIET - 1)
            shmem_quiet();
    }
    shmem_quiet();
    expected += n;
}

/* Whether the words of the last PE are those that were put. */
static bool good_words(void)
{
    shmem_barrier_all();
    return me != 0 || shmem_long_g(words, pes - 1) == 1;
}

static bool good_cell(void)
{
    shmem_barrier_all();
    return me != 0 || shmem_long_g(cell, pes - 1) == expected;
}

static bool good_static_cell(void)
{
    shmem_barrier_all();
    return me != 0 || shmem_long_g(&static_cell, pes - 1) == expected;
}

/* ---- two PEs take turns ---- */

static void run_wait_until(long n)
{
    int other = me == 0 ? pes - 1 : 0;
    if (me != 0 && me != pes - 1)
        return;
    for (long i = 0; i < n; i++) {
        expected++;
        if (me == 0)
            shmem_long_p(flag, expected, other);
        shmem_long_wait_until(flag, SHMEM_CMP_EQ, expected);
        if (me != 0)
            shmem_long_p(flag, expected, other);
    }
}

/* A word of data and a signal behind it. OpenSHMEM has a call for both since 1.5. */
static void put_and_signal(long value, int pe)
{
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
    shmem_putmem_signal(words, &value, sizeof value, (uint64_t *)flag, (uint64_t)value,
                        SHMEM_SIGNAL_SET, pe);
#else
    shmem_putmem(words, &value, sizeof value, pe);
    shmem_fence();
    shmem_long_atomic_set(flag, value, pe);
#endif
}

static void wait_for_signal(long value)
{
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
    shmem_signal_wait_until((uint64_t *)flag, SHMEM_CMP_EQ, (uint64_t)value);
#else
    shmem_long_wait_until(flag, SHMEM_CMP_EQ, value);
#endif
}

static bool signals_in_order = true;

static void run_put_signal(long n)
{
    int other = me == 0 ? pes - 1 : 0;
    if (me != 0 && me != pes - 1)
        return;
    for (long i = 0; i < n; i++) {
        expected++;
        if (me == 0)
            put_and_signal(expected, other);
        wait_for_signal(expected);
        signals_in_order = signals_in_order && *(volatile long *)words == expected;
        if (me != 0)
            put_and_signal(expected, other);
    }
}

static bool good_flag(void)
{
    return (me != 0 && me != pes - 1) || (*flag == expected && signals_in_order);
}

/* ---- all PEs ---- */

static void run_barrier_all(long n)
{
    for (long i = 0; i < n; i++)
        shmem_barrier_all();
}

static void run_lock(long n)
{
    for (long i = 0; i < n; i++) {
        shmem_set_lock(lock);
        shmem_clear_lock(lock);
    }
    shmem_barrier_all();
}

/* Whether no increment under the lock is lost. */
static bool good_lock(void)
{
    for (int i = 0; i < LOCKED; i++) {
        shmem_set_lock(lock);
        long value = shmem_long_g(cell, 0);
        shmem_long_p(cell, value + 1, 0);
        shmem_clear_lock(lock);
    }
    shmem_barrier_all();
    return me != 0 || *cell == (long)LOCKED * pes;
}

/* Two work arrays are enough where nobody leaves before all have come. */
static void run_reduce(long n)
{
    for (long i = 0; i < n; i++)
        shmem_double_sum_to_all(reduced, addends, (int)vector, 0, 0, pes, work + i % 2 * WORK,
                                sync_array(i % 2));
    /* The next batch begins with the first array again. */
    shmem_barrier_all();
}

static bool good_reduce(void)
{
    return reduced[0] == pes * (pes + 1) / 2 && reduced[vector - 1] == reduced[0];
}

static void run_alltoall(long n)
{
    for (long i = 0; i < n; i++)
        shmem_alltoall64(collected, contribution, (size_t)vector, 0, 0, pes, sync_array(i % 2));
    shmem_barrier_all();
}

static void run_fcollect(long n)
{
    for (long i = 0; i < n; i++)
        shmem_fcollect64(collected, contribution, (size_t)vector, 0, 0, pes, sync_array(i % 2));
    shmem_barrier_all();
}

/* Whether every PE's words are in their place: contributions are 1, 2, … */
static bool good_collected(void)
{
    bool good = true;
    for (int pe = 0; pe < pes; pe++)
        good = good && collected[pe * vector] == (uint64_t)pe + 1
            && collected[(pe + 1) * vector - 1] == (uint64_t)pe + 1;
    return good;
}

/* Each root has got the words of the one before. */
static void run_broadcast(long n)
{
    for (long i = 0; i < n; i++) {
        int root = (int)(i % pes);
        shmem_broadcast64(collected, contribution, (size_t)vector, root, 0, 0, pes,
                          sync_array(i));
        if (i % ROTATING == ROTATING - 1)
            shmem_barrier_all();
    }
    shmem_barrier_all();
}

static bool good_broadcast(void)
{
    /* A root gets nothing: after a single broadcast, PE 0 has nothing yet. */
    return (collected[0] >= 1 || me == 0) && collected[0] <= (uint64_t)pes
        && collected[vector - 1] == collected[0];
}

/* ---- which there are ---- */

/* Clears what the cases leave behind, and fills what they send. */
static void micro_prepare(long of_vector)
{
    micro_allocate();
    shmem_barrier_all();
    vector = of_vector;
    expected = 0;
    signals_in_order = true;
    *cell = *flag = static_cell = 0;
    memset(words, 0, PER_QUIET * sizeof *words);
    memset(collected, 0, (size_t)(WORDS_MAX > 64 * pes ? WORDS_MAX : 64 * pes) * 8);
    for (long i = 0; i < WORDS_MAX; i++)
        addends[i] = me + 1;
    for (long i = 0; i < WORDS_MAX || i < 64 * pes; i++)
        contribution[i] = (uint64_t)me + 1;
    shmem_barrier_all();
}

static bool micro(const struct plan *plan, const char *name, long of_vector, double per_run,
                  void (*run)(long), bool (*good)(void))
{
    micro_prepare(of_vector);
    double ns = measure(plan, run);
    if (good != NULL && !everywhere(good()))
        return fail("%s: the result is wrong", name);
    say(name, of_vector, ns / per_run, 0);
    return true;
}

#define MICRO(name, words, per_run, good)                                      \
    static bool case_##name(const struct plan *plan)                           \
    {                                                                          \
        return micro(plan, #name, words, per_run, run_##name, good);           \
    }
MICRO(put, 1, 1, good_words)
MICRO(p, 1, 1, good_words)
MICRO(get, 1, 1, NULL)
MICRO(g, 1, 1, NULL)
MICRO(fetch_add, 1, 1, good_cell)
MICRO(fetch_add_static, 1, 1, good_static_cell)
MICRO(compare_swap, 1, 1, good_cell)
MICRO(add, 1, 1, good_cell)
MICRO(put_nbi, 1, 1, good_words)
MICRO(put_signal, 1, 2, good_flag)
MICRO(wait_until, 1, 2, good_flag)
MICRO(barrier_all, 0, 1, NULL)
MICRO(lock, 0, pes, good_lock)
MICRO(alltoall, 64, 1, good_collected)
MICRO(fcollect, 64, 1, good_collected)
MICRO(broadcast, WORDS_MAX, 1, good_broadcast)

static bool case_reduce(const struct plan *plan)
{
    return micro(plan, "reduce", 8, 1, run_reduce, good_reduce)
        && micro(plan, "reduce", WORDS_MAX, 1, run_reduce, good_reduce);
}

#endif
