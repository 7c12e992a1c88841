/* MPI's one-sided calls: the same program runs with and without farside preloaded.
 *
 * usage: PROGRAM MS CASES
 */
#define _POSIX_C_SOURCE 200809L
#include "mpi_bench.h"

enum { TARGET = 1, HOME = 0 };

static uint64_t done;           /* operations of this rank that change the cell */

/* ---- passive epochs ---- */

static void run_lock_put(long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, TARGET, 0, window);
        MPI_Put(local, WORD, MPI_BYTE, TARGET, 0, WORD, MPI_BYTE, window);
        MPI_Win_unlock(TARGET, window);
    }
}

static bool case_lock_put(const struct plan *plan)
{
    say("lock_put", WORD, measure_origin(plan, run_lock_put, false));
    return true;
}

static bool case_lock_put_computing(const struct plan *plan)
{
    say("lock_put_computing", WORD, measure_origin(plan, run_lock_put, true));
    return true;
}

/* Every rank increments a word of one of them, by a get and a put under the lock. */
static void run_contended(long n)
{
    uint64_t value;
    for (long i = 0; i < n; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, HOME, 0, window);
        MPI_Get(&value, 1, MPI_UINT64_T, HOME, CELL, 1, MPI_UINT64_T, window);
        MPI_Win_flush(HOME, window);
        value++;
        MPI_Put(&value, 1, MPI_UINT64_T, HOME, CELL, 1, MPI_UINT64_T, window);
        MPI_Win_unlock(HOME, window);
    }
    done += (uint64_t)n;
}

/* Whether the cell of a rank holds what all ranks have added. */
static bool added_up(int rank)
{
    uint64_t all = 0, value = 0;
    MPI_Allreduce(&done, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    MPI_Get(&value, 1, MPI_UINT64_T, rank, CELL, 1, MPI_UINT64_T, window);
    MPI_Win_unlock(rank, window);
    if (value != all)
        fprintf(stderr, "the word is %llu after %llu operations\n", (unsigned long long)value,
                (unsigned long long)all);
    return value == all;
}

static bool case_contended(const struct plan *plan)
{
    /* For each of all the operations, not for each that a rank does. */
    say("contended", WORD, measure_all(plan, run_contended) / ranks);
    return added_up(HOME);
}

/* ---- operations inside of one epoch ---- */

static bool flushed(const struct plan *plan, const char *name, size_t bytes, void (*run)(long n))
{
    MPI_Win_lock_all(0, window);
    double ns = measure_origin(plan, run, false);
    MPI_Win_unlock_all(window);
    say(name, bytes, ns);
    return true;
}

static void run_put(long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Put(local, WORD, MPI_BYTE, TARGET, 0, WORD, MPI_BYTE, window);
        MPI_Win_flush(TARGET, window);
    }
}

static void run_get(long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Get(local, WORD, MPI_BYTE, TARGET, 0, WORD, MPI_BYTE, window);
        MPI_Win_flush(TARGET, window);
    }
}

static void run_fetch_and_op(long n)
{
    uint64_t one = 1, old;
    for (long i = 0; i < n; i++) {
        MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, TARGET, CELL, MPI_SUM, window);
        MPI_Win_flush(TARGET, window);
    }
    done += (uint64_t)n;
}

static void run_compare_swap(long n)
{
    uint64_t old;
    for (long i = 0; i < n; i++) {
        uint64_t expected = done, next = ++done;
        MPI_Compare_and_swap(&next, &expected, &old, MPI_UINT64_T, TARGET, CELL, window);
        MPI_Win_flush(TARGET, window);
    }
}

static void run_accumulate(long n)
{
    uint64_t one = 1;
    for (long i = 0; i < n; i++) {
        MPI_Accumulate(&one, 1, MPI_UINT64_T, TARGET, CELL, 1, MPI_UINT64_T, MPI_SUM, window);
        MPI_Win_flush(TARGET, window);
    }
    done += (uint64_t)n;
}

static bool case_put(const struct plan *plan)
{
    return flushed(plan, "put", WORD, run_put);
}

static bool case_get(const struct plan *plan)
{
    return flushed(plan, "get", WORD, run_get);
}

static bool case_fetch_and_op(const struct plan *plan)
{
    return flushed(plan, "fetch_and_op", WORD, run_fetch_and_op) && added_up(TARGET);
}

static bool case_compare_swap(const struct plan *plan)
{
    return flushed(plan, "compare_swap", WORD, run_compare_swap) && added_up(TARGET);
}

static bool case_accumulate(const struct plan *plan)
{
    return flushed(plan, "accumulate", WORD, run_accumulate) && added_up(TARGET);
}

/* ---- derived datatypes ---- */

static MPI_Datatype words;      /* every other word */

static void run_put_vector(long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Put(local, 1, words, TARGET, 0, 1, words, window);
        MPI_Win_flush(TARGET, window);
    }
}

static void run_get_vector(long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Get(local, 1, words, TARGET, 0, 1, words, window);
        MPI_Win_flush(TARGET, window);
    }
}

static bool vectors(const struct plan *plan, const char *name, void (*run)(long n), int receiver)
{
    enum { SENT = 0x5a };
    const int blocks = BLOCKS_BYTES / WORD;
    char *into = receiver == me && receiver == TARGET ? base : local;

    if (me != receiver)
        memset(receiver == TARGET ? local : base, SENT, REGION_BYTES);
    else
        memset(into, 0, REGION_BYTES);
    MPI_Win_fence(0, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    MPI_Type_vector(blocks, WORD, 2 * WORD, MPI_BYTE, &words);
    MPI_Type_commit(&words);
    flushed(plan, name, BLOCKS_BYTES, run);
    MPI_Type_free(&words);
    MPI_Win_fence(0, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    bool good = me != receiver
        || (into[0] == SENT && into[WORD] == 0 && into[REGION_BYTES - 2 * WORD] == SENT
            && into[REGION_BYTES - 1] == 0);
    if (!good)
        fprintf(stderr, "%s left wrong contents\n", name);
    return good;
}

static bool case_put_vector(const struct plan *plan)
{
    return vectors(plan, "put_vector", run_put_vector, TARGET);
}

static bool case_get_vector(const struct plan *plan)
{
    return vectors(plan, "get_vector", run_get_vector, 0);
}

/* ---- active epochs and windows ---- */

static MPI_Group left, right;   /* the neighbours in a ring */

static void run_fence(long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Put(local, WORD, MPI_BYTE, (me + 1) % ranks, 0, WORD, MPI_BYTE, window);
        MPI_Win_fence(0, window);
    }
}

static bool case_fence(const struct plan *plan)
{
    MPI_Win_fence(0, window);
    double ns = measure_all(plan, run_fence);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    say("fence", WORD, ns);
    return true;
}

static void run_pscw(long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Win_post(left, 0, window);
        MPI_Win_start(right, 0, window);
        MPI_Put(local, WORD, MPI_BYTE, (me + 1) % ranks, 0, WORD, MPI_BYTE, window);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
    }
}

static bool case_pscw(const struct plan *plan)
{
    int before = (me + ranks - 1) % ranks, after = (me + 1) % ranks;
    MPI_Group all;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &before, &left);
    MPI_Group_incl(all, 1, &after, &right);
    say("pscw", WORD, measure_all(plan, run_pscw));
    MPI_Group_free(&left);
    MPI_Group_free(&right);
    MPI_Group_free(&all);
    return true;
}

static void run_window(long n)
{
    for (long i = 0; i < n; i++) {
        MPI_Win one;
        char *memory;
        MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &one);
        MPI_Win_free(&one);
    }
}

static bool case_window(const struct plan *plan)
{
    say("window", 4096, measure_all(plan, run_window));
    return true;
}

/* ---- all of them ---- */

static const struct known_case KNOWN[] = {
    {"lock_put", case_lock_put},
    {"lock_put_computing", case_lock_put_computing},
    {"contended", case_contended},
    {"put", case_put},
    {"get", case_get},
    {"fetch_and_op", case_fetch_and_op},
    {"compare_swap", case_compare_swap},
    {"accumulate", case_accumulate},
    {"put_vector", case_put_vector},
    {"get_vector", case_get_vector},
    {"fence", case_fence},
    {"pscw", case_pscw},
    {"window", case_window},
};

static bool parse(int argc, char **argv, struct plan *plan)
{
    memset(plan, 0, sizeof *plan);
    if (argc != 3)
        return fail("usage: %s MS CASES", argv[0]);
    return parse_plan(argv, KNOWN, sizeof KNOWN / sizeof *KNOWN, plan);
}

int main(int argc, char **argv)
{
    struct plan plan;

    alarm(60);                  /* the start can hang as well */
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bool good = parse(argc, argv, &plan);
    if (good && ranks < 2)
        good = fail("needs at least 2 ranks, has %d", ranks);
    if (!good) {
        if (me == 0)
            fprintf(stderr, "%s\n", problem);
        MPI_Finalize();
        return 1;
    }
    alarm((unsigned)(60 + plan.count * (10 * plan.ms + 10000) / 1000));
    local = calloc(REGION_BYTES, 1);
    if (!everywhere(local != NULL)) {
        fprintf(stderr, "no memory for %d bytes\n", REGION_BYTES);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Win_allocate(WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    for (int i = 0; i < plan.count && good; i++) {
        clear();
        done = 0;
        good = everywhere(plan.cases[i]->run(&plan));
    }
    MPI_Win_free(&window);
    free(local);
    MPI_Finalize();
    return good ? 0 : 1;
}
