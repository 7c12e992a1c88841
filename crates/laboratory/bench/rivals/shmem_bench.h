/* What the cases of `bench shmem` have in common: the PEs, the plan, how a case
 * is timed, and samples. Only OpenSHMEM 1.4 is used, except where a later
 * version is asked for by its number. */
#ifndef SHMEM_BENCH_H
#define SHMEM_BENCH_H

#include "cases.h"

#include <shmem.h>

enum {
    ROTATING = 16,          /* work arrays of collectives that take turns */
    BATCHES = 8             /* in the time of a case */
};

static int me, pes;         /* this PE, and how many there are */
static long *box;           /* symmetric: what share passes on */

/* Zeroed symmetric memory; the job ends if there is none. Collective. */
static void *symmetric(size_t bytes)
{
    void *memory = shmem_align(128, bytes);
    if (memory == NULL) {
        fprintf(stderr, "no symmetric memory for %zu bytes\n", bytes);
        shmem_global_exit(1);
        exit(1);
    }
    memset(memory, 0, bytes);
    shmem_barrier_all();
    return memory;
}

/* Private memory; the job ends if there is none. */
static void *private(size_t bytes)
{
    void *memory = calloc(bytes, 1);
    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        shmem_global_exit(1);
        exit(1);
    }
    return memory;
}

/* Every PE gets the root's value. Never timed. */
static long share(int root, long value)
{
    if (me == root)
        for (int pe = 0; pe < pes; pe++)
            shmem_long_p(box, value, pe);
    shmem_barrier_all();
    value = *box;
    shmem_barrier_all();  /* all have read it before the next is written */
    return value;
}

/* Whether it is so on every PE. Never timed. */
static bool everywhere(bool good)
{
    static long failures;   /* symmetric, as all static data is */
    failures = 0;
    shmem_barrier_all();
    if (!good)
        shmem_long_atomic_inc(&failures, 0);
    shmem_barrier_all();
    return share(0, failures) == 0;
}

/* The arrays that collectives over an active set need, all free to be used. */
static long *sync_array(long at)
{
    enum {
        SIZE = SHMEM_REDUCE_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE
             + SHMEM_ALLTOALL_SYNC_SIZE
    };
    static long *arrays;
    if (arrays == NULL) {
        arrays = symmetric(ROTATING * SIZE * sizeof *arrays);
        for (int i = 0; i < ROTATING * SIZE; i++)
            arrays[i] = SHMEM_SYNC_VALUE;
        shmem_barrier_all();
    }
    return arrays + at % ROTATING * SIZE;
}

/* The nanoseconds of one of the operations that `run` does as many of as it is
 * told, as the median over batches, for PE 0. All PEs call `run`; what PE 0
 * takes counts. */
static double measure(const struct plan *plan, void (*run)(long n))
{
    struct samples samples = {0};
    /* A batch is long: the PEs that only wait come to rest in it, and the skew
     * of its first operation does not count. */
    int64_t time = plan->ms * 1000000, batch = time / BATCHES, deadline = now_ns() + time;
    double result = 0;
    long n = 1;

    while ((n = share(0, n)) != 0) {
        shmem_barrier_all();
        int64_t start = now_ns();
        run(n);
        int64_t now = now_ns();
        if (me == 0) {
            bool over = now >= deadline, enough = now - start >= batch;
            if (enough || over)
                record(&samples, (double)(now - start) / (double)n);
            n = over ? 0 : enough ? n : 2 * n;
        }
    }
    if (me == 0)
        result = median(&samples);
    free(samples.ns);
    return result;
}

/* Says how long one operation on so many words took (0: not said of this case),
 * and, of a program, how much was done in a second. */
static void say(const char *name, long words, double ns, double per_s)
{
    char count[24] = "-", rate[32] = "-";
    if (me != 0)
        return;
    if (words > 0)
        snprintf(count, sizeof count, "%ld", words);
    if (per_s > 0)
        snprintf(rate, sizeof rate, "%.2f", per_s);
    printf("sample %s %s %.2f %s\n", name, count, ns, rate);
}

#endif
