/* OpenMP as gcc compiles it: the functions of its library that programs call, which tell the
 * checker of races how threads and tasks wait for each other, and then do what they always do.
 *
 * Sections are dealt out to whoever comes first. One thread may be done with all before the others
 * have come, and then nothing shows that they could have run at once: so threads wait a moment for
 * each other. */

#define _GNU_SOURCE

#include "next.h"
#include "strand.h"

#include <stdbool.h>
#include <time.h>

typedef void work(void *);
typedef unsigned long long wide;

/* Parallel regions. */
struct region {
    work *run;
    void *data;
    struct farside_team *team;
    const void *first;
};

static void member(void *argument)
{
    struct region *region = argument;
    int is_first = region->first == &farside_task;
    struct farside_task *task = farside_member_begin(region->team, is_first);
    region->run(region->data);
    farside_leave(&region->team->left);
    if (is_first) {
        farside_member_end(task);
    } else {
        farside_member_stay(task);
    }
}

#define REGION(run, data) \
    struct region region = {run, data, farside_team_begin(), &farside_task}

void GOMP_parallel(work *run, void *data, unsigned threads, unsigned flags)
{
    NEXT(void, GOMP_parallel, (work *, void *, unsigned, unsigned))
    REGION(run, data);
    real(member, &region, threads, flags);
    farside_team_end(region.team);
}

unsigned GOMP_parallel_reductions(work *run, void *data, unsigned threads, unsigned flags)
{
    NEXT(unsigned, GOMP_parallel_reductions, (work *, void *, unsigned, unsigned))
    /* The library looks for a table of its own at the data, so nothing can be put in between: the
     * threads count as one, and all that they do as ordered. */
    farside_join(ALL_STRANDS, farside_strand);
    unsigned size = real(run, data, threads, flags);
    farside_join(farside_strand, ALL_STRANDS);
    return size;
}

void GOMP_parallel_sections(work *run, void *data, unsigned threads, unsigned count, unsigned flags)
{
    NEXT(void, GOMP_parallel_sections, (work *, void *, unsigned, unsigned, unsigned))
    REGION(run, data);
    real(member, &region, threads, count, flags);
    farside_team_end(region.team);
}

#define PARALLEL_LOOP(name) \
    void GOMP_parallel_loop_##name(work *run, void *data, unsigned threads, long start, long end, \
        long step, long chunk, unsigned flags) \
    { \
        NEXT(void, GOMP_parallel_loop_##name, \
            (work *, void *, unsigned, long, long, long, long, unsigned)) \
        REGION(run, data); \
        real(member, &region, threads, start, end, step, chunk, flags); \
        farside_team_end(region.team); \
    }
PARALLEL_LOOP(static)
PARALLEL_LOOP(dynamic)
PARALLEL_LOOP(guided)
PARALLEL_LOOP(nonmonotonic_dynamic)
PARALLEL_LOOP(nonmonotonic_guided)

#define PARALLEL_RUNTIME_LOOP(name) \
    void GOMP_parallel_loop_##name(work *run, void *data, unsigned threads, long start, long end, \
        long step, unsigned flags) \
    { \
        NEXT(void, GOMP_parallel_loop_##name, \
            (work *, void *, unsigned, long, long, long, unsigned)) \
        REGION(run, data); \
        real(member, &region, threads, start, end, step, flags); \
        farside_team_end(region.team); \
    }
PARALLEL_RUNTIME_LOOP(runtime)
PARALLEL_RUNTIME_LOOP(nonmonotonic_runtime)
PARALLEL_RUNTIME_LOOP(maybe_nonmonotonic_runtime)

/* Barriers, and what ends with one. */
#define BARRIER(name) \
    void name(void) \
    { \
        NEXT(void, name, (void)) \
        farside_barrier_begin(); \
        real(); \
        farside_barrier_end(); \
    }
BARRIER(GOMP_barrier)
BARRIER(GOMP_loop_end)

#define CANCELLABLE_BARRIER(name) \
    bool name(void) \
    { \
        NEXT(bool, name, (void)) \
        farside_barrier_begin(); \
        bool is_cancelled = real(); \
        farside_barrier_end(); \
        return is_cancelled; \
    }
CANCELLABLE_BARRIER(GOMP_barrier_cancel)
CANCELLABLE_BARRIER(GOMP_loop_end_cancel)

/* Sections. */
static int threads_of_team(void)
{
    NEXT(int, omp_get_num_threads, (void))
    return real();
}

/* Waits until a counter has reached a value, 20 milliseconds at most. */
static void wait_a_moment(int *counter, int wanted)
{
    struct timespec pause = {0, 50000};
    for (int i = 0; i < 400 && __atomic_load_n(counter, __ATOMIC_ACQUIRE) < wanted; i++) {
        nanosleep(&pause, NULL);
    }
}

static unsigned deal(unsigned (*take)(unsigned), unsigned argument)
{
    struct farside_task *task = farside_current();
    struct farside_team *team = task->team;
    if (!team || !shmemx_farside_strand_new || team->begun == NO_STRAND) {
        return take(argument);
    }
    bool is_new = !task->in_sections;
    if (is_new) {
        task->in_sections = 1;
        task->sections++;
        __atomic_add_fetch(&team->arrived, 1, __ATOMIC_ACQ_REL);
    }
    int wanted = task->sections * threads_of_team();
    wait_a_moment(is_new ? &team->arrived : &team->started, wanted);
    unsigned section = take(argument);
    if (is_new) {
        __atomic_add_fetch(&team->started, 1, __ATOMIC_ACQ_REL);
    }
    if (section == 0) {
        task->in_sections = 0;
    }
    return section;
}

unsigned GOMP_sections_start(unsigned count)
{
    NEXT(unsigned, GOMP_sections_start, (unsigned))
    return deal(real, count);
}

static unsigned take_next(unsigned unused)
{
    (void) unused;
    NEXT(unsigned, GOMP_sections_next, (void))
    return real();
}

unsigned GOMP_sections_next(void)
{
    return deal(take_next, 0);
}

static void after_sections(void)
{
    farside_current()->in_sections = 0;
}

void GOMP_sections_end(void)
{
    NEXT(void, GOMP_sections_end, (void))
    after_sections();
    farside_barrier_begin();
    real();
    farside_barrier_end();
}

bool GOMP_sections_end_cancel(void)
{
    NEXT(bool, GOMP_sections_end_cancel, (void))
    after_sections();
    farside_barrier_begin();
    bool is_cancelled = real();
    farside_barrier_end();
    return is_cancelled;
}

void GOMP_sections_end_nowait(void)
{
    NEXT(void, GOMP_sections_end_nowait, (void))
    after_sections();
    real();
}

/* One thread's values for all. */
void *GOMP_single_copy_start(void)
{
    NEXT(void *, GOMP_single_copy_start, (void))
    void *copied = real();
    struct farside_team *team = farside_current()->team;
    if (copied && team) {
        farside_join(farside_strand, __atomic_load_n(&team->copied, __ATOMIC_ACQUIRE));
    }
    return copied;
}

void GOMP_single_copy_end(void *data)
{
    NEXT(void, GOMP_single_copy_end, (void *))
    if (farside_current()->team) {
        farside_leave(&farside_current()->team->copied);
    }
    real(data);
}

/* Ordered regions, and loops whose iterations wait for each other. */
void GOMP_ordered_start(void)
{
    NEXT(void, GOMP_ordered_start, (void))
    real();
    farside_ordered_begin();
}

void GOMP_ordered_end(void)
{
    NEXT(void, GOMP_ordered_end, (void))
    farside_ordered_end();
    real();
}

/* Who waits for an iteration is not seen: all learn of it. */
void GOMP_doacross_post(long *counts)
{
    NEXT(void, GOMP_doacross_post, (long *))
    farside_join(ALL_STRANDS, farside_strand);
    real(counts);
}

void GOMP_doacross_ull_post(wide *counts)
{
    NEXT(void, GOMP_doacross_ull_post, (wide *))
    farside_join(ALL_STRANDS, farside_strand);
    real(counts);
}

/* Mutual exclusion. */
static char unnamed, updates;

#define ENTER(name, parameters, arguments, object) \
    void name parameters \
    { \
        NEXT(void, name, parameters) \
        real arguments; \
        farside_acquire(object); \
    }
#define LEAVE(name, parameters, arguments, object) \
    void name parameters \
    { \
        NEXT(void, name, parameters) \
        farside_release(object); \
        real arguments; \
    }
ENTER(GOMP_critical_start, (void), (), &unnamed)
LEAVE(GOMP_critical_end, (void), (), &unnamed)
ENTER(GOMP_critical_name_start, (void **name), (name), name)
LEAVE(GOMP_critical_name_end, (void **name), (name), name)
ENTER(GOMP_atomic_start, (void), (), &updates)
LEAVE(GOMP_atomic_end, (void), (), &updates)
ENTER(omp_set_lock, (void *lock), (lock), lock)
LEAVE(omp_unset_lock, (void *lock), (lock), lock)
ENTER(omp_set_nest_lock, (void *lock), (lock), lock)
LEAVE(omp_unset_nest_lock, (void *lock), (lock), lock)

#define TRY(name) \
    int name(void *lock) \
    { \
        NEXT(int, name, (void *)) \
        int count = real(lock); \
        if (count) { \
            farside_acquire(lock); \
        } \
        return count; \
    }
TRY(omp_test_lock)
TRY(omp_test_nest_lock)
