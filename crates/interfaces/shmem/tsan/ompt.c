/* OpenMP as clang compiles it: its library calls a tool that the program has (OMPT, OpenMP 5.0
 * chapter 4), which tells the checker of races how threads and tasks wait for each other. */

#include "strand.h"

#include <sched.h>

/* The part of the interface that is used here, with the numbers that the specification gives. */
union data {
    uint64_t value;
    void *ptr;
};
typedef void function(void);
typedef function *lookup(const char *name);
typedef int set_callback(int event, function *callback);
struct tool {
    int (*initialize)(lookup *find, int device, union data *data);
    void (*finalize)(union data *data);
    union data data;
};
struct dependence {
    union data variable;
    int type;
};
enum event {
    PARALLEL_BEGIN = 3,
    PARALLEL_END = 4,
    TASK_CREATE = 5,
    TASK_SCHEDULE = 6,
    IMPLICIT_TASK = 7,
    MUTEX_RELEASED = 17,
    DEPENDENCES = 18,
    SYNC_REGION = 23,
    MUTEX_ACQUIRED = 27
};
enum { SCOPE_BEGIN = 1 };
enum { TASK_INITIAL = 1, TASK_EXPLICIT = 4 };
enum { STATUS_COMPLETE = 1, STATUS_CANCEL = 3 };
enum { REGION_TASKWAIT = 5, REGION_TASKGROUP = 6, REGION_REDUCTION = 7 };
enum { MUTEX_ATOMIC = 6 };
enum { DEPENDENCE_SOURCE = 5 };

static void parallel_begin(union data *task, const void *frame, union data *parallel,
    unsigned requested, int flags, const void *address)
{
    (void) task, (void) frame, (void) requested, (void) flags, (void) address;
    parallel->ptr = farside_team_begin();
}

static void parallel_end(union data *parallel, union data *task, int flags, const void *address)
{
    (void) task, (void) flags, (void) address;
    if (parallel->ptr) {
        farside_team_end(parallel->ptr);
        parallel->ptr = NULL;
    }
}

static void implicit_task(int endpoint, union data *parallel, union data *task, unsigned size,
    unsigned index, int flags)
{
    (void) size;
    if (flags & TASK_INITIAL) {
        return;
    }
    if (endpoint == SCOPE_BEGIN) {
        task->ptr = parallel && parallel->ptr ? farside_member_begin(parallel->ptr, index == 0)
                                              : NULL;
    } else if (task->ptr) {
        farside_member_end(task->ptr);
        task->ptr = NULL;
    }
}

static void sync_region(int kind, int endpoint, union data *parallel, union data *task,
    const void *address)
{
    (void) task, (void) address;
    int is_end = endpoint != SCOPE_BEGIN;
    if (kind == REGION_TASKWAIT || kind == REGION_TASKGROUP) {
        if (is_end) {
            kind == REGION_TASKWAIT ? farside_taskwait() : farside_taskgroup_end();
        }
    } else if (kind != REGION_REDUCTION) {
        /* At the end of the barrier that ends a region, the team may be gone. */
        if (is_end && parallel && parallel->ptr) {
            farside_barrier_end();
        } else if (!is_end) {
            farside_barrier_begin();
            if (farside_current()->team) {
                farside_leave(&farside_current()->team->left);
            }
        }
    }
}

static void task_create(union data *parent, const void *frame, union data *task, int flags,
    int has_dependences, const void *address)
{
    (void) parent, (void) frame, (void) has_dependences, (void) address;
    if (flags & TASK_EXPLICIT) {
        task->ptr = farside_task_new();
    }
}

static void task_schedule(union data *prior, int status, union data *next)
{
    struct farside_task *after = next ? next->ptr : NULL;
    if ((status == STATUS_COMPLETE || status == STATUS_CANCEL) && prior && prior->ptr) {
        farside_task_end(prior->ptr, after);
        prior->ptr = NULL;
    }
    farside_task = NULL;
    if (after) {
        farside_task_begin(after);
    }
}

static void dependences(union data *task, const struct dependence *list, int count)
{
    void *addresses[64];
    int given = 0;
    for (int i = 0; i < count && given < 64; i++) {
        if (list[i].type == DEPENDENCE_SOURCE) {
            /* An iteration that others may wait for; who does is not seen. */
            farside_join(ALL_STRANDS, farside_strand);
            return;
        }
        addresses[given++] = list[i].variable.ptr;
    }
    if (count > 64) {
        farside_join(ALL_STRANDS, farside_strand);
    }
    if (task->ptr && task->ptr != farside_task) {
        farside_task_depends(task->ptr, given, addresses);
    }
}

/* The library tells of a release after it has happened: the next holder may be told of before. So
 * each mutex has a mark here, which the next holder waits for. */
static struct mutex {
    uint64_t name;
    int is_held;
} mutexes[1024];
enum { MUTEXES = sizeof mutexes / sizeof *mutexes, PATIENCE = 100000 };

/* The entry of a mutex, or none if there are too many. */
static struct mutex *mutex_of(uint64_t name)
{
    for (uint64_t i = 0; i < MUTEXES; i++) {
        struct mutex *mutex = &mutexes[(name / 8 + i) % MUTEXES];
        uint64_t found = 0;
        if (__atomic_compare_exchange_n(&mutex->name, &found, name, 0, __ATOMIC_ACQ_REL,
                __ATOMIC_ACQUIRE)
            || found == name) {
            return mutex;
        }
    }
    return NULL;
}

/* Updates that the library makes are relaxed, and order nothing. */
static void mutex_acquired(int kind, uint64_t wait, const void *address)
{
    (void) address;
    if (kind == MUTEX_ATOMIC) {
        return;
    }
    struct mutex *mutex = mutex_of(wait);
    if (mutex) {
        /* A release that is never told of must not stop the program. */
        for (int i = 0; i < PATIENCE && __atomic_load_n(&mutex->is_held, __ATOMIC_ACQUIRE); i++) {
            sched_yield();
        }
        __atomic_store_n(&mutex->is_held, 1, __ATOMIC_RELAXED);
    }
    farside_acquire((const void *) (uintptr_t) wait);
}

static void mutex_released(int kind, uint64_t wait, const void *address)
{
    (void) address;
    if (kind == MUTEX_ATOMIC) {
        return;
    }
    farside_release((const void *) (uintptr_t) wait);
    struct mutex *mutex = mutex_of(wait);
    if (mutex) {
        __atomic_store_n(&mutex->is_held, 0, __ATOMIC_RELEASE);
    }
}

static int initialize(lookup *find, int device, union data *data)
{
    (void) device, (void) data;
    set_callback *set = (set_callback *) find("ompt_set_callback");
    if (!set || !shmemx_farside_strand_new) {
        return 0;
    }
    set(PARALLEL_BEGIN, (function *) parallel_begin);
    set(PARALLEL_END, (function *) parallel_end);
    set(IMPLICIT_TASK, (function *) implicit_task);
    set(SYNC_REGION, (function *) sync_region);
    set(TASK_CREATE, (function *) task_create);
    set(TASK_SCHEDULE, (function *) task_schedule);
    set(DEPENDENCES, (function *) dependences);
    set(MUTEX_ACQUIRED, (function *) mutex_acquired);
    set(MUTEX_RELEASED, (function *) mutex_released);
    return 1;
}

static void finalize(union data *data)
{
    (void) data;
}

struct tool *ompt_start_tool(unsigned version, const char *runtime)
{
    static struct tool tool = {initialize, finalize, {0}};
    (void) version, (void) runtime;
    return &tool;
}

/* Tasks get their memory from the library, which has given it to others before. */
void *__real___kmpc_omp_task_alloc(void *place, int thread, int flags, size_t bytes, size_t shared,
    void *run);

void *__wrap___kmpc_omp_task_alloc(void *place, int thread, int flags, size_t bytes, size_t shared,
    void *run)
{
    void *task = __real___kmpc_omp_task_alloc(place, thread, flags, bytes, shared, run);
    farside_forget(task, bytes + shared);
    return task;
}
