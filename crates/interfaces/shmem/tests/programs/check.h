/* What every program stands on: CHECK and its relatives, the PE numbers, and the last line.
 *
 * A failed check prints file, line, PE and values on standard error and ends the job with status 1.
 * A program that passes prints `NAME: N checks, OK` on PE 0, N being the checks of PE 0. */
#ifndef CHECK_H
#define CHECK_H

#include <shmem.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PES = 16 };

/* The address that transfers of no elements name; a library that refuses NULL needs another. */
#ifndef NOTHING
#define NOTHING NULL
#endif

static int me, pes;
static unsigned long checks;

static inline void check_count(void)
{
    __atomic_fetch_add(&checks, 1ul, __ATOMIC_RELAXED);
}

static inline void check_fail(const char *file, int line, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%d: PE %d of %d: %s\n", file, line, me, pes, text);
    fflush(stderr);
    shmem_global_exit(1);
}

static inline void check_true(const char *file, int line, const char *text, int is_true)
{
    check_count();
    if (!is_true)
        check_fail(file, line, "%s does not hold", text);
}

/* Every integer of 64 bits and every float or double is exact in a long double. */
static inline void check_equal(const char *file, int line, const char *text, long double actual,
                               long double expected)
{
    check_count();
    if (actual != expected)
        check_fail(file, line, "%s is %.21Lg, not %.21Lg", text, actual, expected);
}

/* The same for an element of something: `call` and the two indices say which. */
static inline void check_element(const char *file, int line, const char *call, long first,
                                 long second, long double actual, long double expected)
{
    check_count();
    if (actual != expected)
        check_fail(file, line, "%s: element (%ld, %ld) is %.21Lg, not %.21Lg", call, first, second,
                   actual, expected);
}

static inline void check_pointer(const char *file, int line, const char *text, const void *actual,
                                 const void *expected)
{
    check_count();
    if (actual != expected)
        check_fail(file, line, "%s is %p, not %p", text, actual, expected);
}

#define CHECK(condition) check_true(__FILE__, __LINE__, #condition, !!(condition))
#define CHECK_EQ(actual, expected)                                                                 \
    check_equal(__FILE__, __LINE__, #actual, (long double)(actual), (long double)(expected))
#define CHECK_AT(call, first, second, actual, expected)                                            \
    check_element(__FILE__, __LINE__, call, (long)(first), (long)(second), (long double)(actual),  \
                  (long double)(expected))
#define CHECK_PTR(actual, expected) check_pointer(__FILE__, __LINE__, #actual, actual, expected)

/* Reads the PE numbers; for programs that start the library themselves. */
static inline void check_numbers(void)
{
    me = shmem_my_pe();
    pes = shmem_n_pes();
    if (pes > MAX_PES)
        check_fail(__FILE__, __LINE__, "this program runs with at most %d PEs", (int)MAX_PES);
}

static inline void check_begin(void)
{
    shmem_init();
    check_numbers();
}

/* Prints the last line once every PE has passed. */
static inline void check_report(const char *name)
{
    shmem_barrier_all();
    if (me == 0) {
        printf("%s: %lu checks, OK\n", name, checks);
        fflush(stdout);
    }
}

static inline int check_end(const char *name)
{
    check_report(name);
    shmem_finalize();
    return 0;
}

/* The PEs that a PE's operations go to: itself, its neighbour, the last PE. */
enum { KINDS = 3 };

static inline int target_of(int kind, int pe)
{
    if (kind == 0)
        return pe;
    return kind == 1 ? (pe + 1) % pes : pes - 1;
}

/* A symmetric block of the heap; ends the job if there is none. */
static inline void *heap_block(size_t size)
{
    void *block = shmem_malloc(size);
    if (!block)
        check_fail(__FILE__, __LINE__, "shmem_malloc(%zu) returned NULL", size);
    return block;
}

#endif
