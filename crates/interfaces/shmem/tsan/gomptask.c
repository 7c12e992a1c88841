/* Tasks of OpenMP as gcc compiles them. */

#define _GNU_SOURCE

#include "next.h"
#include "strand.h"

#include <stdbool.h>

typedef void work(void *);
typedef void copy(void *, void *);

/* What the library copies from, which begins with the place where it writes the event of a task
 * that is detached. */
struct given {
    void *event;
    struct farside_task *task;
    work *run;
    copy *copy;
    void *data;
    size_t bytes;
    size_t alignment;
};

/* What it copies to; the program's own data follow, aligned. */
struct taken {
    struct farside_task *task;
    work *run;
    void *data;
};

static void take(void *to, void *from)
{
    struct given *given = from;
    struct taken *taken = to;
    uintptr_t start = (uintptr_t) (taken + 1) + given->alignment - 1;
    taken->task = given->task;
    taken->run = given->run;
    taken->data = (void *) (start - start % given->alignment);
    if (given->event) {
        memcpy(given->data, &given->event, sizeof(void *));
    }
    if (given->copy) {
        given->copy(taken->data, given->data);
    } else if (given->bytes) {
        memmove(taken->data, given->data, given->bytes);
    }
}

static void run(void *argument)
{
    struct taken *taken = argument;
    struct farside_task *before = farside_task_begin(taken->task);
    taken->run(taken->data);
    farside_task_end(taken->task, before);
}

/* The addresses that a list of dependences has, in both of its forms. */
static int addresses_of(void **depend, void ***addresses)
{
    if (depend[0]) {
        *addresses = depend + 2;
        return (int) (intptr_t) depend[0];
    }
    *addresses = depend + 5;
    return (int) (intptr_t) depend[1];
}

#define HAS_DEPENDENCES 8

void GOMP_task(work *body, void *data, copy *copy, long bytes, long alignment, bool is_deferred,
    unsigned flags, void **depend, int priority, void *detach)
{
    NEXT(void, GOMP_task, (work *, void *, void (*)(void *, void *), long, long, bool, unsigned,
        void **, int, void *))
    struct farside_task *task = farside_task_new();
    if ((flags & HAS_DEPENDENCES) && depend) {
        void **addresses;
        int count = addresses_of(depend, &addresses);
        farside_task_depends(task, count, addresses);
    }
    struct given given = {
        NULL, task, body, copy, data, (size_t) bytes, alignment > 0 ? (size_t) alignment : 1
    };
    long own = (long) _Alignof(struct taken);
    long room = (long) sizeof(struct taken) + bytes + (long) given.alignment;
    real(run, &given, take, room, alignment > own ? alignment : own, is_deferred, flags, depend,
        priority, detach);
}

void GOMP_taskwait(void)
{
    NEXT(void, GOMP_taskwait, (void))
    real();
    farside_taskwait();
}

void GOMP_taskwait_depend(void **depend)
{
    NEXT(void, GOMP_taskwait_depend, (void **))
    real(depend);
    void **addresses;
    int count = addresses_of(depend, &addresses);
    for (int i = 0; i < count; i++) {
        farside_acquire(addresses[i]);
    }
}

void GOMP_taskgroup_end(void)
{
    NEXT(void, GOMP_taskgroup_end, (void))
    real();
    farside_taskgroup_end();
}

/* The tasks of a loop are the library's, and are not seen one by one: they count as ordered with
 * all that threads of this PE do before the loop and after it. */
#define TASKLOOP(name, type) \
    void name(work *body, void *data, copy *copy, long bytes, long alignment, unsigned flags, \
        unsigned long tasks, int priority, type start, type end, type step) \
    { \
        NEXT(void, name, (work *, void *, void (*)(void *, void *), long, long, unsigned, \
            unsigned long, int, type, type, type)) \
        if (farside_current()->team) { \
            farside_current()->team->has_loops = 1; \
        } \
        farside_join(ALL_STRANDS, farside_strand); \
        real(body, data, copy, bytes, alignment, flags, tasks, priority, start, end, step); \
        farside_join(farside_strand, ALL_STRANDS); \
    }
TASKLOOP(GOMP_taskloop, long)
TASKLOOP(GOMP_taskloop_ull, unsigned long long)
