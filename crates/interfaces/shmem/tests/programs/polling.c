/* PEs on one processor that hand a word round, and poll it: each way takes a few times as long as
 * shmem_wait_until does, and not a slice of the scheduler's time for each hop. */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <time.h>

enum { ROUNDS = 100, AT_MOST = 20 };

static long word, apart[3];

static void wait_until(long turn)
{
    shmem_long_wait_until(&word, SHMEM_CMP_EQ, turn);
}

static void g(long turn)
{
    while (shmem_long_g(&word, me) != turn)
        ;
}

/* Of two words that lie apart, the first. */
static void iget(long turn)
{
    long got[2];
    do
        shmem_long_iget(got, apart, 1, 2, 2, me);
    while (got[0] != turn);
}

static void fetch(long turn)
{
    while (shmem_long_atomic_fetch(&word, me) != turn)
        ;
}

/* The test always succeeds; the program looks for itself. */
static void test(long turn)
{
    do
        CHECK(shmem_long_test(&word, SHMEM_CMP_GE, 0));
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) != turn);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double ring(void (*await)(long))
{
    long *turns = await == iget ? apart : &word;
    *turns = 0;
    shmem_barrier_all();
    double begin = seconds();
    for (long round = 0; round < ROUNDS; round++) {
        long turn = round * pes + me;
        if (turn > 0)
            await(turn);
        shmem_long_atomic_set(turns, turn + 1, (me + 1) % pes);
        shmem_quiet();
    }
    if (me == 0)
        await((long)ROUNDS * pes);
    double took = seconds() - begin;
    shmem_barrier_all();
    return took;
}

static void stay_on_one_processor(void)
{
    cpu_set_t allowed, one;
    CHECK_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int first = 0;
    while (!CPU_ISSET(first, &allowed))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

int main(int count, char **arguments)
{
    int wanted = count > 1 && !strcmp(arguments[1], "threads") ? SHMEM_THREAD_MULTIPLE
                                                               : SHMEM_THREAD_SINGLE;
    int provided;
    shmem_init_thread(wanted, &provided);
    check_numbers();
    CHECK_EQ(provided, wanted);
    stay_on_one_processor();
    static const struct {
        const char *name;
        void (*await)(long);
    } ways[] = {{"g", g}, {"iget", iget}, {"atomic_fetch", fetch}, {"test", test}};
    for (size_t at = 0; at < sizeof ways / sizeof *ways; at++) {
        double least = ring(wait_until), took = ring(ways[at].await);
        if (me == 0)
            printf("%s: %.1f times as long as wait_until\n", ways[at].name, took / least);
        CHECK(me != 0 || took < AT_MOST * least);
    }
    return check_end("polling");
}
