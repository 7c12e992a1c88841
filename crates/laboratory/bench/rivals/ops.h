/* What the rivals have in common when operations are measured: the command line,
 * the batches, the checks and main(). A rival defines LIBRARY_HAS_ACCUMULATE, STRIDED_ROW
 * and STRIDED_UNIT, includes this file and defines the hooks declared below.
 *
 * usage: PROGRAM MS CASES SIZES TARGET
 */
#ifndef OPS_H
#define OPS_H

#include "rival.h"

enum kind {
    PUT, GET, ACCUMULATE, GET_ACCUMULATE, PUT_STRIDED,  /* measured at every size */
    FETCH_ADD, SWAP, COMPARE_SWAP, SIGNAL, RATE,    /* always 8 bytes */
    BARRIER,                                        /* no bytes */
    KINDS
};

static const char *const kind_names[KINDS] = {
    "put", "get", "accumulate", "get_accumulate", "put_strided",
    "fetch_add", "swap", "compare_swap", "signal", "rate", "barrier",
};

enum {
    RATE_BATCH = 1000,          /* puts between two flushes in "rate" */
    CELL_BYTES = 64,            /* the atomics' word has a cache line alone */
};
static const int64_t BATCH_NS = 20000;  /* makes the clock's own cost vanish */
/* Barriers follow each other: a long batch also makes the first one's skew vanish. */
static const int64_t BARRIER_BATCH_NS = 2000000;

/* ---- hooks ---- */

static void library_start(int *rank, int *ranks);
/* Gives every rank a target region; false if there is no memory for it. */
static bool library_allocate(size_t bytes, char **region);
static void library_barrier(void);
/* Makes plain stores to the own region and remote operations see each other. */
static void library_settle(void);
/* Every rank gets the root's value. Never timed. */
static long library_share(int root, long value);
/* n operations of rank 0 on rank 1 (BARRIER: of all ranks), each complete at
 * the target before the next one starts; RATE: n times RATE_BATCH puts. */
static void library_run(enum kind kind, size_t bytes, long n);
static void library_finish(void);

/* ---- state shared with the hooks ---- */

static char *local;         /* rank 0's side of every transfer */
static char *fetched;       /* where rank 0 gets what an accumulate has found */
static char *region;        /* the own target region: data, then the cell */
static size_t cell_offset;  /* where the atomics' word lies in the region */
/* Operations done in this case. Every atomic is chosen so that the cell holds
 * this number afterwards, which makes a lost or doubled one visible. */
static uint64_t done;

/* ---- command line ---- */

struct plan {
    long ms;
    enum kind kinds[MAX_LIST];
    int kinds_len;
    size_t sizes[MAX_LIST];
    int sizes_len;
    bool computing;
};

static bool parse_kind(const char *text, struct plan *plan)
{
    for (int k = 0; k < KINDS; k++)
        if (strcmp(text, kind_names[k]) == 0) {
            plan->kinds[plan->kinds_len++] = (enum kind)k;
            return true;
        }
    return fail("unknown case '%s'", text);
}

static bool parse_size(const char *text, struct plan *plan)
{
    long bytes;
    if (!parse_number(text, "size", 1L << 26, &bytes))
        return false;
    plan->sizes[plan->sizes_len++] = (size_t)bytes;
    return true;
}

static bool accumulates(enum kind kind)
{
    return kind == ACCUMULATE || kind == GET_ACCUMULATE;
}

/* Whether this library can be asked for this case at all. */
static bool skipped(const struct plan *plan, enum kind kind)
{
    return (accumulates(kind) && !LIBRARY_HAS_ACCUMULATE)
        || (kind == BARRIER && plan->computing);
}

static bool check_size(enum kind kind, size_t bytes)
{
    if (accumulates(kind) && bytes % sizeof(double) != 0)
        return fail("bad size '%zu': %s needs a multiple of 8", bytes, kind_names[kind]);
    if (kind == PUT_STRIDED && bytes % (bytes < 64 ? STRIDED_UNIT : 64) != 0)
        return fail("bad size '%zu': put_strided needs a multiple of %d",
                    bytes, bytes < 64 ? STRIDED_UNIT : 64);
    return true;
}

static bool parse(int argc, char **argv, struct plan *plan)
{
    memset(plan, 0, sizeof *plan);
    if (argc != 5)
        return fail("usage: %s MS CASES SIZES idle|computing", argv[0]);
    if (!parse_number(argv[1], "MS", 60000, &plan->ms)
        || !parse_list(argv[2], "CASES", plan, parse_kind)
        || !parse_list(argv[3], "SIZES", plan, parse_size))
        return false;
    plan->computing = strcmp(argv[4], "computing") == 0;
    if (!plan->computing && strcmp(argv[4], "idle") != 0)
        return fail("unknown target '%s': neither idle nor computing", argv[4]);
    for (int k = 0; k < plan->kinds_len; k++)
        for (int s = 0; s < plan->sizes_len; s++)
            if (!skipped(plan, plan->kinds[k])
                && !check_size(plan->kinds[k], plan->sizes[s]))
                return false;
    return true;
}

/* ---- measuring ---- */

/* Decides what follows a batch of n which took so long: the next batch, or 0
 * for the end. A batch too short for the clock is repeated doubled and not
 * counted, unless the time is over and it would be the only one. */
static long after_batch(struct samples *samples, long n, int64_t took,
                        int64_t long_enough, int per_batch, int64_t deadline)
{
    bool over = now_ns() >= deadline;
    if (took >= long_enough || (over && samples->len == 0))
        record(samples, (double)took / ((double)n * per_batch));
    else
        n *= 2;
    return over ? 0 : n;
}

static void measure(struct samples *samples, enum kind kind, size_t bytes, long ms)
{
    int64_t deadline = now_ns() + ms * 1000000;
    for (long n = 1; n != 0;) {
        int64_t start = now_ns();
        library_run(kind, bytes, n);
        int64_t took = now_ns() - start;
        n = after_batch(samples, n, took, BATCH_NS, kind == RATE ? RATE_BATCH : 1, deadline);
    }
}

/* All ranks take part, so rank 0 tells the others how many barriers follow. */
static void measure_barrier(struct samples *samples, int rank, long ms)
{
    int64_t deadline = now_ns() + ms * 1000000;
    long n = 1;
    while ((n = library_share(0, n)) != 0) {
        library_barrier();  /* the ranks leave library_share one by one */
        int64_t start = now_ns();
        library_run(BARRIER, 0, n);
        int64_t took = now_ns() - start;
        if (rank == 0)
            n = after_batch(samples, n, took, BARRIER_BATCH_NS, 1, deadline);
    }
}

/* ---- one case ---- */

enum { SENT = 0x5a, HELD = 0xa5 };

/* Fills both sides; that also touches the pages before the clock runs. */
static void prepare(int rank, enum kind kind, size_t bytes)
{
    size_t span = 2 * bytes;
    uint64_t zero = 0;
    done = 0;
    if (rank == 0) {
        memset(local, kind == GET ? 0 : SENT, span);
        if (accumulates(kind))
            for (size_t i = 0; i < bytes / sizeof(double); i++)
                ((double *)local)[i] = 1.0;
    } else if (rank == 1) {
        memset(region, kind == GET ? HELD : 0, span);
        memcpy(region + cell_offset, &zero, sizeof zero);
    }
    library_settle();
}

/* Whether this rank's memory shows what `count` operations must have left. */
static bool verify(int rank, enum kind kind, size_t bytes, long count)
{
    const unsigned char *mine = (const unsigned char *)(rank == 0 ? local : region);
    if (kind == GET_ACCUMULATE && rank == 0) {
        const double *before = (const double *)fetched;
        return before[0] == (double)count - 1
            && before[bytes / sizeof(double) - 1] == (double)count - 1;
    }
    if (rank != (kind == GET ? 0 : 1))
        return true;
    switch (kind) {
    case GET:
        return mine[0] == HELD && mine[bytes - 1] == HELD;
    case PUT:
    case RATE:
        return mine[0] == SENT && mine[bytes - 1] == SENT;
    case PUT_STRIDED: {
        if (bytes < 64)
            return mine[0] == SENT && mine[bytes - 1] == SENT;
        size_t last_row = (bytes / STRIDED_ROW - 1) * 2 * STRIDED_ROW;
        return mine[0] == SENT && mine[STRIDED_ROW] == 0
            && mine[last_row + STRIDED_ROW - 1] == SENT;
    }
    case ACCUMULATE:
    case GET_ACCUMULATE: {
        const double *sums = (const double *)region;
        return sums[0] == (double)count
            && sums[bytes / sizeof(double) - 1] == (double)count;
    }
    default: {
        uint64_t value;
        memcpy(&value, region + cell_offset, sizeof value);
        if (value != (uint64_t)count)
            fprintf(stderr, "the target's word is %llu after %ld operations\n",
                    (unsigned long long)value, count);
        return value == (uint64_t)count;
    }
    }
}

static bool one_case(const struct plan *plan, int rank, enum kind kind, size_t bytes)
{
    struct samples samples = {0};
    bool good = true;

    if (kind == BARRIER) {
        measure_barrier(&samples, rank, plan->ms);
    } else {
        prepare(rank, kind, bytes);
        library_barrier();
        if (rank == 0) {
            /* One operation touches everything; more are for the caches, and
             * only where they are cheap. The target is still in a barrier. */
            long warm = plan->computing || bytes > 65536 ? 1 : 100;
            library_run(kind == RATE ? PUT : kind, bytes, warm);
        }
        library_barrier();
        if (rank == 0)
            measure(&samples, kind, bytes, plan->ms);
        else if (rank == 1 && plan->computing)
            compute_until(now_ns() + plan->ms * 1500000 + 50000000);
        library_barrier();
        library_settle();
        good = verify(rank, kind, bytes, library_share(0, (long)done));
        good = library_share(0, good) & library_share(1, good);
    }

    if (rank == 0 && good) {
        printf("sample %s %zu %s %.2f - -\n", kind_names[kind], bytes,
               plan->computing ? "computing" : "idle", median(&samples));
        fflush(stdout);  /* a library may still crash in a later case */
    } else if (rank == 0) {
        fprintf(stderr, "%s of %zu bytes left wrong contents\n",
                kind_names[kind], bytes);
    }
    free(samples.ns);
    return good;
}

static bool all_cases(const struct plan *plan, int rank)
{
    static const size_t word = 8, nothing = 0;
    for (int k = 0; k < plan->kinds_len; k++) {
        enum kind kind = plan->kinds[k];
        const size_t *sizes = plan->sizes;
        int len = plan->sizes_len;
        if (kind > PUT_STRIDED) {
            sizes = kind == BARRIER ? &nothing : &word;
            len = 1;
        }
        for (int s = 0; s < len && !skipped(plan, kind); s++)
            if (!one_case(plan, rank, kind, sizes[s]))
                return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct plan plan;
    int rank, ranks;

    alarm(60);  /* the start can hang as well */
    library_start(&rank, &ranks);
    bool good = parse(argc, argv, &plan);
    if (good && ranks < 2)
        good = fail("needs at least 2 ranks, has %d", ranks);
    if (good) {
        long pairs = (long)plan.kinds_len * plan.sizes_len;
        alarm((unsigned)(60 + pairs * (4 * plan.ms + 1000) / 1000));
        size_t max = 64;
        for (int s = 0; s < plan.sizes_len; s++)
            max = plan.sizes[s] > max ? plan.sizes[s] : max;
        /* Strided rows lie at twice their length. */
        cell_offset = (2 * max + CELL_BYTES - 1) / CELL_BYTES * CELL_BYTES;
        local = aligned_alloc(CELL_BYTES, cell_offset);
        fetched = aligned_alloc(CELL_BYTES, cell_offset);
        good = library_allocate(cell_offset + CELL_BYTES, &region);
        /* Every rank must come to the same verdict, or some wait forever. */
        for (int r = 0, mine = good && local != NULL && fetched != NULL; r < ranks; r++)
            good &= library_share(r, mine) != 0;
        if (!good)
            fail("no memory for %zu bytes", cell_offset);
    }
    if (!good && rank == 0)
        fprintf(stderr, "%s\n", problem);
    good = good && all_cases(&plan, rank);
    free(local);
    free(fetched);
    library_finish();
    return good ? 0 : 1;
}

#endif
