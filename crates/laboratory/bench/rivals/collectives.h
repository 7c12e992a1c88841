/* What the rivals have in common when collectives are measured: the command
 * line, the loop, the wavefront, the checks and main(). A rival includes this
 * file and defines the hooks declared below.
 *
 * usage: PROGRAM MS CASE BYTES
 */
#ifndef COLLECTIVES_H
#define COLLECTIVES_H

#include "rival.h"

/* Collectives follow each other: a long batch makes the first one's skew vanish. */
static const int64_t BATCH_NS = 2000000;
enum { SIDE = 1024 };       /* rows and columns of the wavefront's grid */

enum kind { BROADCAST, REDUCE, ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, ALL_TO_ALL_PUTS, PIPELINE,
            KINDS };
static const char *const NAMES[KINDS] = {
    "broadcast", "reduce", "all_reduce", "all_gather", "all_to_all", "all_to_all_puts",
    "pipeline",
};

/* What one collective works on: `words` is what a rank has in hand in the end. */
struct exchange {
    enum kind kind;
    uint64_t *give, *take;
    double *numbers;
    size_t words;
    int rank, ranks;
    long calls;
};

/* ---- hooks ---- */

static void library_start(int *rank, int *ranks);
/* Gives room for all that an exchange works on; every rank calls it alike. */
static bool library_allocate(struct exchange *exchange);
static void library_barrier(void);
/* Every rank gets the root's value. Never timed. */
static long library_share(int root, long value);
/* Every rank gets the largest value. Never timed. */
static double library_max(double value);
/* One collective. The numbers' result is the largest of all ranks': in place, or, of one rank
 * alone, in `take`. */
static void library_call(struct exchange *exchange, int root);
/* Hands the value of a row on to a rank, which gets it by the same row. */
static void library_send(int to, int row, double value);
static double library_receive(int from, int row);
static void library_finish(void);

struct plan {
    long ms, bytes;
    enum kind kind;
};

static bool parse(int argc, char **argv, struct plan *plan)
{
    memset(plan, 0, sizeof *plan);
    if (argc != 4)
        return fail("usage: %s MS CASE BYTES", argv[0]);
    while (plan->kind < KINDS && strcmp(argv[2], NAMES[plan->kind]) != 0)
        plan->kind++;
    if (plan->kind == KINDS)
        return fail("unknown case '%s'", argv[2]);
    return parse_number(argv[1], "MS", 60000, &plan->ms)
        && parse_number(argv[3], "BYTES", 64 << 20, &plan->bytes);
}

/* ---- the wavefront ---- */

static double *cells;       /* this rank's columns, row by row, behind one of the rank before */
static size_t width;
static long sweeps;

static bool pipeline_prepare(int rank, int ranks)
{
    size_t first = (size_t)rank * (SIDE - 1) / (size_t)ranks;
    width = ((size_t)rank + 1) * (SIDE - 1) / (size_t)ranks - first + 1;
    cells = calloc(SIDE * width, sizeof *cells);
    for (size_t i = 0; cells != NULL && i < width; i++)
        cells[i] = (double)(first + i);
    for (size_t row = 0; cells != NULL && rank == 0 && row < SIDE; row++)
        cells[row * width] = (double)row;
    return cells != NULL;
}

static void sweep(int rank, int ranks)
{
    sweeps++;
    for (int row = 1; row < SIDE; row++) {
        double *now = cells + (size_t)row * width;
        const double *above = now - width;
        if (rank > 0)
            now[0] = library_receive(rank - 1, row);
        double left = now[0];
        for (size_t i = 1; i < width; i++)
            now[i] = left = left + above[i] - above[i - 1];
        if (rank < ranks - 1)
            library_send(rank + 1, row, left);
    }
    if (rank == ranks - 1)
        library_send(0, SIDE, -cells[SIDE * width - 1]);
    if (rank == 0)
        cells[0] = library_receive(ranks - 1, SIDE);
}

/* ---- one collective after the other ---- */

/* Gives this rank's number in the ends of what is reduced, where the result is looked at. */
static void call(struct exchange *e)
{
    int root = (int)(e->calls++ % e->ranks);
    double own = e->rank + 1;
    if (e->kind == PIPELINE) {
        sweep(e->rank, e->ranks);
        return;
    }
    if (e->kind == REDUCE || e->kind == ALL_REDUCE)
        e->numbers[0] = e->numbers[e->words - 1] = own;
    if (e->kind == BROADCAST && root == e->rank)
        for (size_t i = 0; i < e->words; i++)
            e->give[i] = (uint64_t)root + 1;
    library_call(e, root);
}

/* The number that these 8 bytes are. */
static double number_at(const uint64_t *bytes)
{
    double number;
    memcpy(&number, bytes, sizeof number);
    return number;
}

/* Whether the last one has done its work. */
static bool is_good(const struct exchange *e)
{
    int root = (int)((e->calls - 1) % e->ranks);
    size_t last = e->words - 1;
    switch (e->kind) {
    case BROADCAST:
        /* A root of OpenSHMEM gets nothing. */
        return e->rank == root
            || (e->take[0] == (uint64_t)root + 1 && e->take[last] == (uint64_t)root + 1);
    case REDUCE:
        return e->rank != root || (number_at(e->take) == e->ranks
                                   && number_at(e->take + last) == e->ranks);
    case ALL_REDUCE:
        return e->numbers[0] == e->ranks && e->numbers[last] == e->ranks;
    case PIPELINE:
        return e->rank != e->ranks - 1
            || cells[SIDE * width - 1] == (double)(sweeps * 2 * (SIDE - 1));
    default:
        return e->take[0] == 1 && e->take[last] == (uint64_t)e->ranks;
    }
}

/* The time of one among others, for rank 0. The first, which touches everything, is not timed. */
static double measure(const struct plan *plan, struct exchange *e)
{
    struct samples samples = {0};
    long n = 1;
    double result = 0;

    call(e);
    int64_t deadline = now_ns() + plan->ms * 1000000;
    while ((n = library_share(0, n)) != 0) {
        library_barrier();
        int64_t start = now_ns();
        for (long i = 0; i < n; i++)
            call(e);
        double took = library_max((double)(now_ns() - start));
        if (e->rank == 0) {
            bool over = now_ns() >= deadline, enough = took >= (double)BATCH_NS;
            if (enough || (over && samples.len == 0))
                record(&samples, took / (double)n);
            n = over ? 0 : enough ? n : 2 * n;
        }
    }
    if (e->rank == 0)
        result = median(&samples);
    free(samples.ns);
    return result;
}

int main(int argc, char **argv)
{
    struct plan plan;
    struct exchange e = {0};

    alarm(60);  /* the start can hang as well */
    library_start(&e.rank, &e.ranks);
    bool good = parse(argc, argv, &plan);
    if (good) {
        alarm((unsigned)(60 + 2 * plan.ms / 1000));
        e.kind = plan.kind;
        e.words = (size_t)plan.bytes / 8;
        good = library_allocate(&e) && pipeline_prepare(e.rank, e.ranks);
        /* Every rank must come to the same verdict, or some wait forever. */
        good = library_max(good ? 0 : 1) == 0;
        if (!good)
            fail("no memory for %ld bytes of every rank", plan.bytes);
    }
    for (size_t i = 0; good && i < e.words; i++) {
        e.give[i] = (uint64_t)e.rank + 1;
        e.take[i] = 0;
        e.numbers[i] = e.rank + 1;
    }
    if (good) {
        library_barrier();
        double ns = measure(&plan, &e);
        good = library_max(is_good(&e) ? 0 : 1) == 0;
        if (!good)
            fail("the result of %s is wrong", NAMES[e.kind]);
        else if (e.rank == 0)
            printf("sample %s %ld %.2f\n", NAMES[e.kind], plan.bytes, ns);
    }
    if (!good && e.rank == 0)
        fprintf(stderr, "%s\n", problem);
    fflush(stdout);
    free(cells);
    library_finish();
    return good ? 0 : 1;
}

#endif
