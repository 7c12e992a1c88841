/* What the rivals have in common when the start of a job and of a window are
 * measured: the command line, the loop and main(). A rival includes this file
 * and defines the hooks declared below. A job is timed by who has started it.
 *
 * usage: PROGRAM MS CASES
 */
#ifndef START_H
#define START_H

#include "rival.h"

enum { WINDOW_BYTES = 4096 };

/* ---- hooks ---- */

static void library_start(int *rank);
/* Every rank gets the root's value. Never timed. */
static long library_share(int root, long value);
/* Allocates memory that all reach, of so many bytes of every rank, and frees it. */
static bool library_window(size_t bytes);
static void library_finish(void);

struct plan {
    long ms;
    bool windows;
};

static bool parse_case(const char *text, struct plan *plan)
{
    if (strcmp(text, "window") == 0)
        plan->windows = true;
    else if (strcmp(text, "job") != 0)
        return fail("unknown case '%s'", text);
    return true;
}

static bool parse(int argc, char **argv, struct plan *plan)
{
    memset(plan, 0, sizeof *plan);
    if (argc != 3)
        return fail("usage: %s MS CASES", argv[0]);
    return parse_number(argv[1], "MS", 60000, &plan->ms)
        && parse_list(argv[2], "CASES", plan, parse_case);
}

/* One window after the other, for rank 0 to time. */
static bool measure_windows(const struct plan *plan, int rank)
{
    struct samples samples = {0};
    int64_t deadline = now_ns() + plan->ms * 1000000;
    bool good = true;

    while (good && library_share(0, samples.len == 0 || now_ns() < deadline) != 0) {
        int64_t begin = now_ns();
        good = library_window(WINDOW_BYTES);
        record(&samples, (double)(now_ns() - begin));
    }
    if (rank == 0 && good)
        printf("sample window %.2f\n", median(&samples));
    free(samples.ns);
    return good;
}

int main(int argc, char **argv)
{
    struct plan plan;
    int rank;

    alarm(120);  /* the start can hang as well */
    library_start(&rank);
    bool good = parse(argc, argv, &plan);
    if (!good && rank == 0)
        fprintf(stderr, "%s\n", problem);
    /* A job has started when all have. */
    library_share(0, 0);
    if (good && plan.windows)
        good = measure_windows(&plan, rank);
    fflush(stdout);
    library_finish();
    return good ? 0 : 1;
}

#endif
