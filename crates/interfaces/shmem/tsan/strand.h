/* Threads, for the checker of races. A strand is what a thread runs, or what one knew at some time,
 * for others to learn. The library counts them; without it, or where nothing is checked, there are
 * none. */
#ifndef FARSIDE_STRAND_H
#define FARSIDE_STRAND_H

#include <stddef.h>
#include <stdint.h>

#define NO_STRAND UINT32_MAX
#define ALL_STRANDS (UINT32_MAX - 1)

uint32_t shmemx_farside_strand_new(uint32_t from) __attribute__((weak));
void shmemx_farside_strand_enter(uint32_t strand) __attribute__((weak));
void shmemx_farside_strand_join(uint32_t into, uint32_t from) __attribute__((weak));
void shmemx_farside_strand_end(uint32_t strand) __attribute__((weak));
void shmemx_farside_object(const void *object, int releases) __attribute__((weak));
void shmemx_farside_forget(const void *address, size_t bytes) __attribute__((weak));

/* What threads that work together tell each other. */
struct farside_team {
    uint32_t begun;   /* what the thread knew that began the region */
    uint32_t met[2];  /* what those know that are in a barrier, in every other one */
    uint32_t ended;   /* what tasks knew that have ended */
    uint32_t left;    /* what threads knew that are done with the region */
    uint32_t ordered; /* what the last ordered region knew */
    uint32_t copied;  /* what the thread knew that gave its values to all */
    int has_loops;    /* whether there were tasks that nobody has seen */
    int arrived;      /* threads that came to sections, and that got one, of all so far */
    int started;
};

/* A task, explicit or not. */
struct farside_task {
    struct farside_team *team;
    struct farside_task *parent;
    uint32_t created;  /* what the one knew that made it */
    uint32_t children; /* what its children knew that have ended */
    uint32_t before;   /* the strand that its thread had before */
    unsigned barriers; /* how many it has been in */
    int sections;      /* how many constructs of sections it came to */
    int in_sections;   /* whether it is in one */
    int references;    /* its own, and one for each child */
    int depends;       /* on how many addresses it depends */
    void **addresses;
};

/* The strand of this thread. */
extern _Thread_local uint32_t farside_strand;
/* The task that this thread runs. */
extern _Thread_local struct farside_task *farside_task;

uint32_t farside_new(uint32_t from);
void farside_enter(uint32_t strand);
void farside_join(uint32_t into, uint32_t from);
void farside_end(uint32_t strand);
void farside_release(const void *object);
void farside_acquire(const void *object);
void farside_forget(const void *address, size_t bytes);
/* Adds what this thread knows to what is in a place, for others; the place may be empty. */
void farside_leave(uint32_t *place);
/* Empties a place. */
void farside_empty(uint32_t *place);
struct farside_task *farside_current(void);

struct farside_team *farside_team_begin(void);
void farside_team_end(struct farside_team *team);
/* What a thread of the team does first and last. The first one goes on with its strand, the others
 * with new ones. */
struct farside_task *farside_member_begin(struct farside_team *team, int is_first);
void farside_member_end(struct farside_task *task);
/* The thread is done with its part, and runs tasks until the region ends: on the same stack, and so
 * with the same strand. */
void farside_member_stay(struct farside_task *task);
void farside_barrier_begin(void);
void farside_barrier_end(void);
void farside_ordered_begin(void);
void farside_ordered_end(void);

struct farside_task *farside_task_new(void);
void farside_task_depends(struct farside_task *task, int count, void **addresses);
/* The thread goes on with a task, and with the one that it ran before. */
struct farside_task *farside_task_begin(struct farside_task *task);
void farside_task_end(struct farside_task *task, struct farside_task *before);
void farside_taskwait(void);
/* All tasks of the team so far. */
void farside_taskgroup_end(void);

#endif
