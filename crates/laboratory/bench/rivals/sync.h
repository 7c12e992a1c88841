/* What the rivals have in common when synchronization is measured: the command
 * line, the loops, the checks and main(). A rival defines COMPLETES_AS and
 * COMPLETES_BY, includes this file and defines the hooks declared below.
 *
 * usage: PROGRAM MS CASES BYTES
 */
#ifndef SYNC_H
#define SYNC_H

#include "rival.h"

enum { BATCH_MAX = 64 };    /* synchronizations between two decisions */
/* Barriers follow each other: a long batch makes the first one's skew vanish. */
static const int64_t BARRIER_BATCH_NS = 2000000;

/* ---- hooks ---- */

static void library_start(int *rank, int *ranks);
/* Gives every rank a target region of so many bytes, zeroed. */
static bool library_allocate(size_t bytes, char **region);
/* A barrier that completes nothing. */
static void library_barrier(void);
/* Every rank gets the root's value. Never timed. */
static long library_share(int root, long value);
/* Rank 0 gets the largest of all ranks for each of up to BATCH_MAX values. Never timed. */
static void library_max(double *values, int count);
/* Puts `bytes` from `local` to this place of everybody else's region. */
static void library_put_all(size_t offset, const char *local, size_t bytes);
/* Returns when all that anybody put has landed, everywhere. */
static void library_complete(void);
static void library_finish(void);

struct plan {
    long ms, bytes;
    bool completes, barriers;
};

static bool parse_case(const char *text, struct plan *plan)
{
    if (strcmp(text, "barrier") == 0)
        plan->barriers = true;
    else if (strcmp(text, "sync") == 0 || strcmp(text, "allfence_barrier") == 0)
        plan->completes = true;
    else
        return fail("unknown case '%s'", text);
    return true;
}

static bool parse(int argc, char **argv, struct plan *plan)
{
    memset(plan, 0, sizeof *plan);
    if (argc != 4)
        return fail("usage: %s MS CASES BYTES", argv[0]);
    return parse_number(argv[1], "MS", 60000, &plan->ms)
        && parse_list(argv[2], "CASES", plan, parse_case)
        && parse_number(argv[3], "BYTES", 1 << 20, &plan->bytes);
}

/* Whether everybody's put of this round has landed here. Who is ahead may have put again. */
static bool landed(volatile const char *region, int rank, int ranks, size_t bytes, uint64_t round)
{
    for (int r = 0; r < ranks; r++)
        if (r != rank && *(volatile const uint64_t *)(region + (size_t)r * bytes) < round)
            return false;
    return true;
}

/* The mean of the slowest rank's time, for rank 0; negative if a put was missing. */
static double measure_complete(const struct plan *plan, char *region, int rank, int ranks)
{
    size_t bytes = (size_t)plan->bytes;
    uint64_t *local = calloc(bytes / 8 + 1, 8), round = 0;
    int64_t deadline = now_ns() + plan->ms * 1000000;
    double took[BATCH_MAX], sum = 0;
    bool good = local != NULL;
    long n = 1, done = 0;

    while ((n = library_share(0, n)) != 0) {
        for (long i = 0; i < n; i++) {
            local[0] = ++round;
            library_put_all((size_t)rank * bytes, (const char *)local, bytes);
            library_barrier();
            int64_t start = now_ns();
            library_complete();
            took[i] = (double)(now_ns() - start);
            good = good && landed(region, rank, ranks, bytes, round);
        }
        library_max(took, (int)n);
        if (rank == 0) {
            /* The first one only warms up. */
            for (long i = 0; i < n && round > 1; i++, done++)
                sum += took[i];
            n = done > 0 && now_ns() >= deadline ? 0 : n < BATCH_MAX ? 2 * n : n;
        }
    }
    free(local);
    double bad[1] = { good ? 0.0 : 1.0 };
    library_max(bad, 1);
    return bad[0] > 0 ? -1 : sum / (double)(done > 0 ? done : 1);
}

/* The time of a barrier among others, for rank 0. */
static double measure_barrier(const struct plan *plan, int rank)
{
    struct samples samples = {0};
    int64_t deadline = now_ns() + plan->ms * 1000000;
    double result = 0;
    long n = 1;

    while ((n = library_share(0, n)) != 0) {
        library_barrier();
        int64_t start = now_ns();
        for (long i = 0; i < n; i++)
            library_barrier();
        double took[1] = { (double)(now_ns() - start) };
        library_max(took, 1);
        if (rank == 0) {
            bool over = now_ns() >= deadline, enough = took[0] >= (double)BARRIER_BATCH_NS;
            if (enough || (over && samples.len == 0))
                record(&samples, took[0] / (double)n);
            n = over ? 0 : enough ? n : 2 * n;
        }
    }
    if (rank == 0)
        result = median(&samples);
    free(samples.ns);
    return result;
}

int main(int argc, char **argv)
{
    struct plan plan;
    char *region = NULL;
    int rank, ranks;

    alarm(60);  /* the start can hang as well */
    library_start(&rank, &ranks);
    bool good = parse(argc, argv, &plan);
    if (good) {
        alarm((unsigned)(60 + 2 * (4 * plan.ms + 4000) / 1000));
        good = library_allocate((size_t)ranks * (size_t)plan.bytes, &region);
        /* Every rank must come to the same verdict, or some wait forever. */
        for (int r = 0, mine = good; r < ranks; r++)
            good &= library_share(r, mine) != 0;
        if (!good)
            fail("no memory for %ld bytes of every rank", plan.bytes);
    }
    if (!good && rank == 0)
        fprintf(stderr, "%s\n", problem);
    if (good && plan.completes) {
        double ns = measure_complete(&plan, region, rank, ranks);
        good = library_share(0, ns >= 0) != 0;
        if (rank == 0 && good)
            printf("sample %s %ld %s %.2f -\n", COMPLETES_AS, plan.bytes, COMPLETES_BY, ns);
        else if (rank == 0)
            fprintf(stderr, "a put had not landed after the synchronization\n");
    }
    if (good && plan.barriers) {
        double ns = measure_barrier(&plan, rank);
        if (rank == 0)
            printf("sample barrier 0 library %.2f -\n", ns);
    }
    fflush(stdout);
    library_finish();
    return good ? 0 : 1;
}

#endif
