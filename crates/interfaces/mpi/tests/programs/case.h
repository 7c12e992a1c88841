/* What every program stands on: cases by name, checks, and windows to begin with.
 *
 * A program runs all of its cases, or those that its arguments name; an argument -NAME leaves one
 * out. A check that fails prints file, line, rank and values, and the case goes on, so that ranks
 * stay together. Rank 0 prints `NAME: N checks, OK` for each case, N being those of all ranks, and
 * `N cases, OK` at the end. */
#ifndef CASE_H
#define CASE_H

#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct test {
    const char *name;
    void (*run)(void);
};

#define CASE(name) { #name, name }
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

enum { SHOWN = 8, PATIENCE_S = 40 };

static int me, ranks;
static long checks, failures;
static const char *running = "start";

static inline void check_fail(const char *file, int line, const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED) > SHOWN)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%d: %s: rank %d of %d: %s\n", file, line, running, me, ranks, text);
}

static inline bool check_true(const char *file, int line, const char *text, bool holds)
{
    __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);
    if (!holds)
        check_fail(file, line, "%s does not hold", text);
    return holds;
}

static inline bool check_equal(const char *file, int line, const char *text, long long actual,
                               long long expected)
{
    __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);
    if (actual != expected)
        check_fail(file, line, "%s is %lld, not %lld", text, actual, expected);
    return actual == expected;
}

static inline bool check_bytes(const char *file, int line, const char *text, const void *actual,
                               const void *expected, size_t bytes)
{
    const unsigned char *a = (const unsigned char *)actual, *b = (const unsigned char *)expected;
    __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i]) {
            check_fail(file, line, "%s: byte %zu of %zu is 0x%02x, not 0x%02x", text, i, bytes,
                       a[i], b[i]);
            return false;
        }
    return true;
}

static inline bool check_class(const char *file, int line, const char *text, int code, int expected)
{
    char said[MPI_MAX_ERROR_STRING + 1] = "";
    int class_ = MPI_SUCCESS, length = 0;
    __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);
    MPI_Error_class(code, &class_);
    MPI_Error_string(code, said, &length);
    if (class_ != expected)
        check_fail(file, line, "%s: class %d (%s), not %d", text, class_, said, expected);
    else if (expected != MPI_SUCCESS && length == 0)
        check_fail(file, line, "%s: an error without a text", text);
    return class_ == expected;
}

#define CHECK(condition) check_true(__FILE__, __LINE__, #condition, condition)
#define EQ(actual, expected) \
    check_equal(__FILE__, __LINE__, #actual, (long long)(actual), (long long)(expected))
#define SAME(actual, expected, bytes) \
    check_bytes(__FILE__, __LINE__, #actual, actual, expected, bytes)
#define OK(call) check_class(__FILE__, __LINE__, #call, call, MPI_SUCCESS)
/* A call that must return an error of a class. */
#define FAILS(call, class_) check_class(__FILE__, __LINE__, #call, call, class_)

/* Says which case hangs before a test's own deadline says that something does. */
static void too_late(int number)
{
    (void)number;
    const char *parts[] = { running, ": hangs\n" };
    for (int i = 0; i < 2; i++)
        if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0)
            break;
    _exit(3);
}

static inline bool is_wanted(int argc, char **argv, const char *name)
{
    bool names_any = false;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && strcmp(argv[i] + 1, name) == 0)
            return false;
        names_any |= argv[i][0] != '-';
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return !names_any;
}

/* An argument that names no case is a mistake. */
static inline bool are_known(int argc, char **argv, const struct test *cases, int count)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i] + (argv[i][0] == '-');
        int at = 0;
        while (at < count && strcmp(cases[at].name, name) != 0)
            at++;
        if (at == count) {
            fprintf(stderr, "%s: there is no case %s\n", argv[0], name);
            return false;
        }
    }
    return true;
}

static inline int run_cases(int argc, char **argv, int level, const struct test *cases, int count)
{
    int provided, failed = 0, done = 0;
    if (!are_known(argc, argv, cases, count))
        return 2;
    if (level == MPI_THREAD_SINGLE)
        MPI_Init(&argc, &argv);
    else
        MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    signal(SIGALRM, too_late);
    for (int i = 0; i < count; i++) {
        if (!is_wanted(argc, argv, cases[i].name))
            continue;
        long mine[2], all[2];
        running = cases[i].name;
        checks = failures = 0;
        alarm(PATIENCE_S);
        cases[i].run();
        mine[0] = checks;
        mine[1] = failures;
        MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (me == 0 && all[1] == 0)
            printf("%s: %ld checks, OK\n", running, all[0]);
        else if (me == 0)
            printf("%s: %ld checks, %ld FAILED\n", running, all[0], all[1]);
        fflush(stdout);
        failed += all[1] != 0;
        done++;
    }
    if (me == 0 && failed == 0)
        printf("%d cases, OK\n", done);
    else if (me == 0)
        printf("%d of %d cases FAILED\n", failed, done);
    fflush(stdout);
    running = "end";
    alarm(PATIENCE_S);
    MPI_Finalize();
    return failed != 0;
}

#define MAIN(cases) \
    int main(int argc, char **argv) \
    { \
        return run_cases(argc, argv, MPI_THREAD_SINGLE, cases, COUNT(cases)); \
    }

/* What this rank has stored in its part of a window is there for all after it, and what others
 * have put is there for this rank. Collective over `comm`. */
static inline void settle_in(MPI_Win win, MPI_Comm comm)
{
    int mine;
    MPI_Comm_rank(comm, &mine);
    MPI_Barrier(comm);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, mine, 0, win));
    OK(MPI_Win_unlock(mine, win));
    MPI_Barrier(comm);
}

static inline void settle(MPI_Win win)
{
    settle_in(win, MPI_COMM_WORLD);
}

/* MPICH 4.0 takes the parts of different ranks for one in a window of less than this. */
enum { SMALLEST = 64 };

static inline MPI_Aint at_least(MPI_Aint bytes)
{
    return bytes < (MPI_Aint)SMALLEST ? (MPI_Aint)SMALLEST : bytes;
}

/* A window over all ranks with so many zeros of type int on each. */
static inline MPI_Win make_ints(int count, int **base)
{
    MPI_Win win;
    OK(MPI_Win_allocate(at_least((MPI_Aint)count * (MPI_Aint)sizeof(int)), sizeof(int),
                        MPI_INFO_NULL, MPI_COMM_WORLD, base, &win));
    memset(*base, 0, (size_t)count * sizeof(int));
    settle(win);
    return win;
}

/* The same with bytes. */
static inline MPI_Win make_bytes(int count, unsigned char **base)
{
    MPI_Win win;
    OK(MPI_Win_allocate(count, 1, MPI_INFO_NULL, MPI_COMM_WORLD, base, &win));
    memset(*base, 0, (size_t)count);
    settle(win);
    return win;
}

static inline int right(void)
{
    return (me + 1) % ranks;
}

static inline int left(void)
{
    return (me + ranks - 1) % ranks;
}

/* Each rank puts to its right neighbour in a communicator, fetches it back, and finds at home what
 * its left neighbour has put. The window has `count` ints at `base`, from displacement `first` on,
 * in units of an int. */
static inline void check_ring(MPI_Win win, MPI_Comm comm, const int *base, int count,
                              MPI_Aint first)
{
    int mine, size;
    MPI_Comm_rank(comm, &mine);
    MPI_Comm_size(comm, &size);
    int to = (mine + 1) % size, from = (mine + size - 1) % size;
    int *out = (int *)malloc((size_t)count * sizeof(int));
    int *back = (int *)malloc((size_t)count * sizeof(int));
    for (int i = 0; i < count; i++)
        out[i] = mine * 1000 + i;
    settle_in(win, comm);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win));
    OK(MPI_Put(out, count, MPI_INT, to, first, count, MPI_INT, win));
    OK(MPI_Win_flush(to, win));
    OK(MPI_Get(back, count, MPI_INT, to, first, count, MPI_INT, win));
    OK(MPI_Win_unlock(to, win));
    SAME(back, out, (size_t)count * sizeof(int));
    settle_in(win, comm);
    for (int i = 0; i < count; i++)
        EQ(base[i], from * 1000 + i);
    settle_in(win, comm);
    free(out);
    free(back);
}

/* The ranks of this node, in the division of FARSIDE_NODES if there is one. */
static inline MPI_Comm node_comm(void)
{
    const char *text = getenv("FARSIDE_NODES");
    int nodes = text == NULL || atoi(text) < 1 ? 1 : atoi(text);
    MPI_Comm near, all;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &all);
    MPI_Comm_split(all, me * nodes / ranks, me, &near);
    MPI_Comm_free(&all);
    return near;
}

#endif
