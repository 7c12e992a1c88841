/* What a rank has done, said at the end on request. */
#include <stdio.h>
#include <time.h>
#include "border.h"

bool counts_waits;
uint64_t windows, operations, bytes_moved;
static uint64_t waits, waited_ns, computed_ns;

/* When the call of this thread began that may wait, by the clock and by the processor's time. */
static _Thread_local uint64_t began_ns, had_computed_ns;

static uint64_t read_clock(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void begin_wait(void)
{
    began_ns = read_clock(CLOCK_MONOTONIC);
    had_computed_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
}

void end_wait(void)
{
    enter();
    waits++;
    waited_ns += read_clock(CLOCK_MONOTONIC) - began_ns;
    computed_ns += read_clock(CLOCK_THREAD_CPUTIME_ID) - had_computed_ns;
    leave();
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* What a waiting rank did not use of its processor, another could: an MPI that polls would have
 * used it. */
void say_summary(int rank)
{
    uint64_t saved_ns = waited_ns > computed_ns ? waited_ns - computed_ns : 0;
    fprintf(stderr,
            "farside: rank %d: %llu window%s, %llu one-sided operation%s, %llu byte%s; %.3f s in "
            "%llu call%s that synchronize%s, of which %.3f s off the processor\n",
            rank, (unsigned long long)windows, plural(windows), (unsigned long long)operations,
            plural(operations), (unsigned long long)bytes_moved, plural(bytes_moved),
            (double)waited_ns / 1e9, (unsigned long long)waits, plural(waits),
            waits == 1 ? "s" : "", (double)saved_ns / 1e9);
}
