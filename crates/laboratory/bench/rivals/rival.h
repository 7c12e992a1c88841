/* What the rivals' programs have in common: numbers and lists on the command
 * line, the clock, work, random numbers and samples. */
#ifndef RIVAL_H
#define RIVAL_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LIST = 64 };     /* entries of a list on the command line */

/* ---- command line ---- */

/* What a program was asked to do; each has its own. */
struct plan;

static char problem[256];

__attribute__((format(printf, 1, 2)))
static bool fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    return false;
}

static bool parse_number(const char *text, const char *what, long max, long *out)
{
    char *end;
    errno = 0;
    *out = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *out < 1 || *out > max)
        return fail("bad %s '%s': not a number from 1 to %ld", what, text, max);
    return true;
}

__attribute__((unused))
static bool parse_list(char *list, const char *what, struct plan *plan,
                       bool (*parse)(const char *, struct plan *))
{
    /* Not strtok: it would let an empty entry pass unnoticed. */
    for (int i = 0; list != NULL; i++) {
        char *comma = strchr(list, ',');
        if (comma != NULL)
            *comma++ = '\0';
        if (i == MAX_LIST)
            return fail("more than %d entries in %s", MAX_LIST, what);
        if (!parse(list, plan))
            return false;
        list = comma;
    }
    return true;
}

/* ---- time and work ---- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A target which is busy with something else: no call into the library. */
__attribute__((unused))
static void compute_until(int64_t end)
{
    static volatile uint64_t sink;
    uint64_t x = sink;
    while (now_ns() < end)
        for (int i = 0; i < 1000; i++)
            x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
}

struct samples {
    double *ns;
    size_t len, room;
};

__attribute__((unused))
static void record(struct samples *samples, double ns)
{
    if (samples->len == samples->room) {
        samples->room = samples->room == 0 ? 4096 : 2 * samples->room;
        samples->ns = realloc(samples->ns, samples->room * sizeof(double));
        if (samples->ns == NULL) {
            fprintf(stderr, "no memory for the samples\n");
            exit(1);
        }
    }
    samples->ns[samples->len++] = ns;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

__attribute__((unused))
static double median(const struct samples *samples)
{
    size_t half = samples->len / 2;
    qsort(samples->ns, samples->len, sizeof(double), by_value);
    return samples->len % 2 != 0 ? samples->ns[half]
                                 : (samples->ns[half - 1] + samples->ns[half]) / 2;
}

/* The next of a sequence of random numbers (xorshift with multiplication). */
__attribute__((unused))
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

#endif
