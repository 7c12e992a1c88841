/* What the rivals have in common when locks are measured: the command line, the
 * loop of a rank, the checks and main(). A rival defines LOCK_NAME, includes this
 * file and defines the hooks declared below.
 *
 * usage: PROGRAM MS CASES WRITERS_PCT [IGNORED …]
 */
#ifndef LOCKS_H
#define LOCKS_H

#include "rival.h"

enum kind { LB, ECSB, SOB, WCSB, WARB, REQUEST, ACQUIRE, RELEASE, KINDS };

static const char *const kind_names[KINDS] = {
    "lb", "ecsb", "sob", "wcsb", "warb", "request", "acquire", "release",
};

enum {
    WORK_LEAST_NS = 1000,
    WORK_SPAN_NS = 3000,
    WHOLE = 100000,     /* of which a fraction of writers is a part */
    FIGURES = 5,        /* what every rank tells rank 0 */
    BATCH = 16,         /* empty sections between two looks at the clock, at most */
    BATCH_NS = 10000,   /* fewer once so many take longer */
};

/* ---- hooks ---- */

static void library_start(int *rank, int *ranks);
/* Makes the lock and a counter of zero, both at rank 0. */
static bool library_allocate(void);
static void library_barrier(void);
/* Every rank gets the root's value. Never timed. */
static long library_share(int root, long value);
/* Rank 0 gets everybody's FIGURES numbers, in order. Never timed. */
static void library_gather(const double *mine, double *all);
static void library_lock(bool writes);
static void library_unlock(bool writes);
/* One memory operation at rank 0 while this rank has the lock. */
static void library_touch(bool writes);
/* Reads the counter and, to write, puts it back incremented. */
static void library_increment(bool writes);
/* The counter, for rank 0 when nobody has the lock. */
static long library_counter(void);
static void library_finish(void);

/* ---- command line ---- */

struct plan {
    long ms;
    bool asked[KINDS];
    double writers_pct;
};

static bool parse_kind(const char *text, struct plan *plan)
{
    for (int k = 0; k < KINDS; k++)
        if (strcmp(text, kind_names[k]) == 0) {
            plan->asked[k] = true;
            return true;
        }
    return fail("unknown case '%s'", text);
}

static bool parse(int argc, char **argv, struct plan *plan)
{
    memset(plan, 0, sizeof *plan);
    if (argc < 4)
        return fail("usage: %s MS CASES WRITERS_PCT", argv[0]);
    plan->writers_pct = atof(argv[3]);
    return parse_number(argv[1], "MS", 60000, &plan->ms)
        && parse_list(argv[2], "CASES", plan, parse_kind);
}

/* ---- one rank ---- */

struct tally {
    long operations, increments;
    int64_t acquire_ns, release_ns, wait_max_ns;
};

static void spin_until(int64_t end)
{
    while (now_ns() < end)
        ;
}

/* Works until a time. What is over since another time counts; before, it only
 * warms up. All processes of a machine read the same clock. */
static struct tally work(const struct plan *plan, enum kind kind, int rank,
                         int64_t since_ns, int64_t until_ns)
{
    struct tally tally = {0};
    uint64_t random = (uint64_t)(rank + 1) * 0x9e3779b97f4a7c15u;
    uint64_t writers = (uint64_t)(plan->writers_pct * WHOLE / 100 + 0.5);
    int64_t last = now_ns();

    long batch = 1;

    while (last < until_ns) {
        if (kind == ECSB) {
            /* Not even a look at the clock in an empty section, and few between them. */
            for (long i = 0; i < batch; i++) {
                bool writes = (next_random(&random) >> 33) % WHOLE < writers;
                library_lock(writes);
                library_unlock(writes);
            }
            int64_t end = now_ns(), span = end - last;
            if (end >= since_ns && span > tally.wait_max_ns)
                tally.wait_max_ns = span;
            if (end >= since_ns && end <= until_ns) {
                tally.operations += batch;
                tally.acquire_ns += span;
            }
            last = end;
            if (span >= BATCH_NS)
                batch = batch > 1 ? batch / 2 : 1;
            else
                batch = batch < BATCH ? batch * 2 : BATCH;
            continue;
        }
        bool writes = (next_random(&random) >> 33) % WHOLE < writers;
        int64_t span = WORK_LEAST_NS + (int64_t)((next_random(&random) >> 33) % WORK_SPAN_NS);

        library_lock(writes);
        int64_t acquired = now_ns(), leaves = acquired;
        if (kind == SOB)
            library_touch(writes);
        if (kind == WCSB) {
            library_increment(writes);
            spin_until(now_ns() + span);
            leaves = now_ns();
            tally.increments += writes;
        }
        library_unlock(writes);
        int64_t end = now_ns();

        if (end >= since_ns && acquired - last > tally.wait_max_ns)
            tally.wait_max_ns = acquired - last;
        if (end >= since_ns && end <= until_ns) {
            tally.operations++;
            tally.acquire_ns += acquired - last;
            tally.release_ns += end - leaves;
        }
        last = end;
        if (kind == WARB) {
            spin_until(end + span);
            last = now_ns();
        }
    }
    return tally;
}

/* ---- all ranks ---- */

static void print_sample(const struct plan *plan, enum kind kind, const double *all, int ranks,
                         int64_t span_ns)
{
    double operations = 0, acquire = 0, release = 0, least = -1, most = 0, wait = 0;
    for (int r = 0; r < ranks; r++) {
        const double *one = all + r * FIGURES;
        operations += one[0];
        acquire += one[1];
        release += one[2];
        wait = one[3] > wait ? one[3] : wait;
        least = least < 0 || one[0] < least ? one[0] : least;
        most = one[0] > most ? one[0] : most;
    }
    double fair = operations / ranks;
    double ns = kind == ACQUIRE ? acquire : kind == RELEASE ? release : acquire + release;
    printf("sample %s %g " LOCK_NAME " - - - %.4f %.4f %.4f %.4f %.4f - -\n", kind_names[kind],
           plan->writers_pct, ns / operations, operations * 1e9 / (double)span_ns, least / fair,
           most / fair, wait);
    fflush(stdout);     /* a library may still crash in a later case */
}

/* Work for so long, after a tenth of it to warm up; how many operations counted,
 * for rank 0, and everybody's figures; negative if the lock failed. */
static double attempt(const struct plan *plan, enum kind kind, int rank, int ranks, int64_t span_ns,
                      double *all, long *increments)
{
    double operations = 0;
    library_barrier();
    int64_t since = library_share(0, (long)now_ns()) + span_ns / 10;
    struct tally tally = work(plan, kind, rank, since, since + span_ns);
    library_barrier();

    double mine[FIGURES] = {
        (double)tally.operations, (double)tally.acquire_ns, (double)tally.release_ns,
        (double)tally.wait_max_ns, (double)tally.increments,
    };
    library_gather(mine, all);
    if (rank != 0)
        return 0;
    for (int r = 0; r < ranks; r++) {
        operations += all[r * FIGURES];
        *increments += (long)all[r * FIGURES + 4];
    }
    long counted = library_counter();
    if (counted == *increments)
        return operations;
    fprintf(stderr, "%ld increments under the lock came to %ld\n", *increments, counted);
    return -1;
}

/* One loop; the times of `lb` serve all cases that are times. If nobody gets the
 * lock in time, there is more time. */
static bool one_loop(const struct plan *plan, enum kind kind, int rank, int ranks, long *increments)
{
    enum { ENOUGH = 1, MORE = 2 };
    double *all = calloc((size_t)ranks * FIGURES, sizeof *all);
    bool good = all != NULL;
    for (int r = 0, here = good; r < ranks; r++)
        good &= library_share(r, here) != 0;
    long verdict = good ? MORE : 0;
    for (int64_t span_ns = plan->ms * 1000000; verdict == MORE; span_ns *= 4) {
        double operations = attempt(plan, kind, rank, ranks, span_ns, all, increments);
        bool last = span_ns > plan->ms * 100000000;
        verdict = operations > 0 ? ENOUGH : operations == 0 && !last ? MORE : 0;
        verdict = library_share(0, verdict);
        if (rank == 0 && operations == 0 && last)
            fprintf(stderr, "%s: nobody got the lock in time\n", kind_names[kind]);
        for (int k = 0; k < KINDS && rank == 0 && verdict == ENOUGH; k++)
            if (plan->asked[k] && (k == (int)kind || (kind == LB && k >= REQUEST)))
                print_sample(plan, (enum kind)k, all, ranks, span_ns);
    }
    free(all);
    return verdict == ENOUGH;
}

int main(int argc, char **argv)
{
    struct plan plan;
    long increments = 0;
    int rank, ranks;

    alarm(60);  /* the start can hang as well */
    library_start(&rank, &ranks);
    bool good = parse(argc, argv, &plan);
    if (good) {
        alarm((unsigned)(60 + KINDS * (100 * plan.ms + 1000) / 1000));
        good = library_allocate();
        /* Every rank must come to the same verdict, or some wait forever. */
        for (int r = 0, mine = good; r < ranks; r++)
            good &= library_share(r, mine) != 0;
        if (!good)
            fail("no memory for the lock");
    }
    if (!good && rank == 0)
        fprintf(stderr, "%s\n", problem);
    bool times = good && (plan.asked[LB] || plan.asked[REQUEST] || plan.asked[ACQUIRE] ||
        plan.asked[RELEASE]);
    if (times)
        good = one_loop(&plan, LB, rank, ranks, &increments);
    for (int k = ECSB; k <= WARB && good; k++)
        if (plan.asked[k])
            good = one_loop(&plan, (enum kind)k, rank, ranks, &increments);
    library_finish();
    return good ? 0 : 1;
}

#endif
