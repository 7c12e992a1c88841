/* What the cases of `bench mpi` have in common: the ranks, the window, how a case
 * is timed, and samples. */
#ifndef MPI_BENCH_H
#define MPI_BENCH_H

#include "cases.h"

#include <mpi.h>

enum {
    WORD = 8,
    BLOCKS_BYTES = 65536,       /* of data in a vector of words */
    REGION_BYTES = 2 * BLOCKS_BYTES,
    CELL = REGION_BYTES,        /* where the word of the atomics lies */
    WINDOW_BYTES = REGION_BYTES + 64,
    BATCHES = 8                 /* in the time of a case that all ranks run */
};
static const int64_t BATCH_NS = 20000;  /* makes the clock's own cost vanish */

static int me, ranks;
static MPI_Win window;          /* zeroed memory of every rank */
static char *base;              /* this rank's */
static char *local;             /* the origin's side of transfers */

/* Rank 0's value. Never timed. */
static long share(long value)
{
    MPI_Bcast(&value, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    return value;
}

/* Whether it is so on every rank. Never timed. */
static bool everywhere(bool good)
{
    int mine = good, all;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return all != 0;
}

/* Zeroes the memory of every rank, in an order that a window's rules permit. */
static void clear(void)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, window);
    memset(base, 0, WINDOW_BYTES);
    MPI_Win_unlock(me, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void say(const char *name, size_t bytes, double ns)
{
    if (me == 0) {
        printf("sample %s %zu %.2f\n", name, bytes, ns);
        fflush(stdout);         /* a library may still crash in a later case */
    }
}

/* The nanoseconds of one of the operations of rank 0, as the median over batches.
 * The others wait in a barrier, where any library makes progress, or compute for as
 * long as that takes and make no call. */
static double measure_origin(const struct plan *plan, void (*run)(long n), bool computing)
{
    struct samples samples = {0};
    double result = 0;

    if (me == 0)
        run(computing ? 1 : 100);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me != 0 && computing)
        compute_until(now_ns() + plan->ms * 1500000 + 50000000);
    if (me == 0) {
        int64_t deadline = now_ns() + plan->ms * 1000000;
        for (long n = 1; n != 0;) {
            int64_t start = now_ns();
            run(n);
            int64_t now = now_ns();
            bool over = now >= deadline, enough = now - start >= BATCH_NS;
            if (enough || (over && samples.len == 0))
                record(&samples, (double)(now - start) / (double)n);
            n = over ? 0 : enough ? n : 2 * n;
        }
        result = median(&samples);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(samples.ns);
    return result;
}

/* The same of operations that all ranks run; what rank 0 takes until all are done
 * counts. */
static double measure_all(const struct plan *plan, void (*run)(long n))
{
    struct samples samples = {0};
    int64_t time = plan->ms * 1000000, batch = time / BATCHES, deadline = now_ns() + time;
    double result = 0;
    long n = 1;

    while ((n = share(n)) != 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t start = now_ns();
        run(n);
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t now = now_ns();
        bool over = now >= deadline, enough = now - start >= batch;
        if (enough || over)
            record(&samples, (double)(now - start) / (double)n);
        n = over ? 0 : enough ? n : 2 * n;
    }
    result = median(&samples);
    free(samples.ns);
    return result;
}

#endif
