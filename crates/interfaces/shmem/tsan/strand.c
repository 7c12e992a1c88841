/* What threads of a team and their tasks tell each other, whoever runs them. */

#include "strand.h"

#include <stdlib.h>
#include <string.h>

_Thread_local uint32_t farside_strand = 0;
_Thread_local struct farside_task *farside_task = NULL;
/* The strand that this thread has kept from its last region. */
static _Thread_local uint32_t kept = NO_STRAND;
static _Thread_local struct farside_task outermost = {
    .created = NO_STRAND, .children = NO_STRAND, .references = 1
};

uint32_t farside_new(uint32_t from)
{
    return shmemx_farside_strand_new ? shmemx_farside_strand_new(from) : NO_STRAND;
}

void farside_enter(uint32_t strand)
{
    farside_strand = strand == NO_STRAND ? 0 : strand;
    if (shmemx_farside_strand_enter) {
        shmemx_farside_strand_enter(strand);
    }
}

void farside_join(uint32_t into, uint32_t from)
{
    if (shmemx_farside_strand_join && into != NO_STRAND && from != NO_STRAND) {
        shmemx_farside_strand_join(into, from);
    }
}

void farside_end(uint32_t strand)
{
    if (shmemx_farside_strand_end && strand != NO_STRAND) {
        shmemx_farside_strand_end(strand);
    }
}

void farside_release(const void *object)
{
    if (shmemx_farside_object) {
        shmemx_farside_object(object, 1);
    }
}

void farside_acquire(const void *object)
{
    if (shmemx_farside_object) {
        shmemx_farside_object(object, 0);
    }
}

void farside_forget(const void *address, size_t bytes)
{
    if (shmemx_farside_forget && address) {
        shmemx_farside_forget(address, bytes);
    }
}

void farside_leave(uint32_t *place)
{
    uint32_t held = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    if (held == NO_STRAND) {
        uint32_t made = farside_new(NO_STRAND);
        if (__atomic_compare_exchange_n(place, &held, made, 0, __ATOMIC_ACQ_REL,
                __ATOMIC_ACQUIRE)) {
            held = made;
        } else {
            farside_end(made);
        }
    }
    farside_join(held, farside_strand);
}

static void learn(uint32_t *place)
{
    farside_join(farside_strand, __atomic_load_n(place, __ATOMIC_ACQUIRE));
}

void farside_empty(uint32_t *place)
{
    farside_end(__atomic_exchange_n(place, NO_STRAND, __ATOMIC_ACQ_REL));
}

struct farside_task *farside_current(void)
{
    return farside_task ? farside_task : &outermost;
}

struct farside_team *farside_team_begin(void)
{
    struct farside_team *team = calloc(1, sizeof(*team));
    if (!team) {
        abort();
    }
    team->begun = farside_new(farside_strand);
    team->met[0] = team->met[1] = NO_STRAND;
    team->ended = team->left = team->ordered = team->copied = NO_STRAND;
    return team;
}

void farside_team_end(struct farside_team *team)
{
    learn(&team->ended);
    learn(&team->left);
    if (team->has_loops) {
        farside_join(farside_strand, ALL_STRANDS);
    }
    farside_empty(&team->begun);
    farside_empty(&team->met[0]);
    farside_empty(&team->met[1]);
    farside_empty(&team->ended);
    farside_empty(&team->left);
    farside_empty(&team->ordered);
    farside_empty(&team->copied);
    free(team);
}

static struct farside_task *make_task(struct farside_team *team, struct farside_task *parent)
{
    struct farside_task *task = calloc(1, sizeof(*task));
    if (!task) {
        abort();
    }
    task->team = team;
    task->parent = parent;
    task->created = task->children = NO_STRAND;
    task->references = 1;
    return task;
}

static void drop(struct farside_task *task)
{
    if (__atomic_sub_fetch(&task->references, 1, __ATOMIC_ACQ_REL) == 0) {
        farside_empty(&task->children);
        free(task->addresses);
        free(task);
    }
}

struct farside_task *farside_member_begin(struct farside_team *team, int is_first)
{
    struct farside_task *task = make_task(team, farside_task);
    task->before = farside_strand;
    farside_task = task;
    if (!is_first) {
        farside_enter(farside_new(team->begun));
        if (kept != NO_STRAND) {
            /* What it did before was on the same stack. */
            learn(&kept);
            farside_empty(&kept);
            task->before = 0;
        }
    }
    return task;
}

void farside_member_end(struct farside_task *task)
{
    uint32_t ended = farside_strand;
    farside_task = task->parent;
    if (ended != task->before) {
        farside_enter(task->before);
        farside_end(ended);
    }
    drop(task);
}

void farside_member_stay(struct farside_task *task)
{
    if (farside_strand != task->before) {
        kept = farside_strand;
    }
    farside_task = task->parent;
    drop(task);
}

void farside_barrier_begin(void)
{
    struct farside_task *task = farside_current();
    if (task->team) {
        farside_leave(&task->team->met[task->barriers % 2]);
    }
}

void farside_barrier_end(void)
{
    struct farside_task *task = farside_current();
    if (task->team) {
        learn(&task->team->met[task->barriers++ % 2]);
        farside_taskgroup_end();
    }
}

void farside_ordered_begin(void)
{
    if (farside_current()->team) {
        learn(&farside_current()->team->ordered);
    }
}

void farside_ordered_end(void)
{
    if (farside_current()->team) {
        farside_leave(&farside_current()->team->ordered);
    }
}

struct farside_task *farside_task_new(void)
{
    struct farside_task *task = make_task(farside_current()->team, farside_current());
    task->created = farside_new(farside_strand);
    /* A parent that ends before its children is kept for them. */
    __atomic_add_fetch(&task->parent->references, 1, __ATOMIC_ACQ_REL);
    return task;
}

void farside_task_depends(struct farside_task *task, int count, void **addresses)
{
    task->addresses = malloc((size_t) count * sizeof(*addresses));
    if (task->addresses) {
        memcpy(task->addresses, addresses, (size_t) count * sizeof(*addresses));
        task->depends = count;
    }
}

struct farside_task *farside_task_begin(struct farside_task *task)
{
    struct farside_task *before = farside_task;
    farside_task = task;
    learn(&task->created);
    farside_empty(&task->created);
    for (int i = 0; i < task->depends; i++) {
        farside_acquire(task->addresses[i]);
    }
    return before;
}

void farside_task_end(struct farside_task *task, struct farside_task *before)
{
    for (int i = 0; i < task->depends; i++) {
        farside_release(task->addresses[i]);
    }
    farside_leave(&task->parent->children);
    if (task->team) {
        farside_leave(&task->team->ended);
    }
    farside_task = before;
    struct farside_task *parent = task->parent;
    drop(task);
    drop(parent);
}

void farside_taskwait(void)
{
    learn(&farside_current()->children);
}

void farside_taskgroup_end(void)
{
    struct farside_team *team = farside_current()->team;
    farside_taskwait();
    if (team) {
        learn(&team->ended);
        if (team->has_loops) {
            farside_join(farside_strand, ALL_STRANDS);
        }
    }
}
