/* What the files of the border share. */
#ifndef FARSIDE_MPI_BORDER_H
#define FARSIDE_MPI_BORDER_H

#include <mpi.h>
#include <stdbool.h>
#include "core.h"

/* What is exported, under MPI's name and the one for profiling. */
#define API __attribute__((visibility("default")))
#define ALSO(name) extern __typeof__(name) P##name __attribute__((alias(#name))) API;

/* MPI's own function of a name that this library has taken. */
#define REAL(name) \
    ({ \
        static void *found; \
        if (found == NULL) \
            found = find_in_mpi("P" SPELLED(name)); \
        (__typeof__(&P##name))found; \
    })
#define SPELLED(name) #name
void *find_in_mpi(const char *name);
void *find_object(const char *name);
void *find_next(const char *name);

/* Objects of Open MPI, such as that of MPI_COMM_WORLD. They are looked for when they are used:
 * programs that are not MPI's have none, and others load MPI while they run. */
#ifdef OPEN_MPI
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) \
    ({ \
        static void *found; \
        if (found == NULL) \
            found = find_object(#global); \
        (type)found; \
    })
#endif

/* A window that was taken over. The real window carries the handle, and has no memory. */
struct window {
    MPI_Win real;
    void *core;
    void *team;             /* of its own, if threads may be in fences of several; else null */
    struct communicator *communicator;
    int flavor, model;
    void *base;             /* the attributes of this member */
    MPI_Aint size;
    int unit;
    void *block;            /* memory to give back, or null */
    bool has_met;           /* all members have come to free it */
    struct farside_mpi_part *parts;
    struct farside_mpi_near *near;      /* null if there are several threads */
    bool is_shared;
    MPI_Info info;
};

/* A communicator over which there are windows. */
struct communicator {
    MPI_Comm own;           /* the same members; nothing of the program is on it */
    void *team;
    int size, rank;
    int *world_ranks;
    int uses;
    struct communicator *next;
};

/* setup.c */
extern bool is_running;     /* whether windows are taken over */
extern bool has_threads;
extern MPI_Comm world;      /* all processes; errors return; nothing of the program is on it */
void enter(void);           /* alone in the border, if there are several threads */
void leave(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* summary.c */
extern bool counts_waits;   /* whether a summary was asked for */
extern uint64_t windows, operations, bytes_moved;
void begin_wait(void);
void end_wait(void);
void say_summary(int rank);

/* yield.c */
extern bool yields;         /* whether a rank that waits in MPI lets others run */

/* communicators.c */
struct communicator *communicator_of(MPI_Comm comm);
int communicator_team(struct communicator *communicator, void **team);
void communicator_release(struct communicator *communicator);
void communicators_forget(void);

/* windows.c */
extern struct window *last_window;  /* the one used last, if there is but one thread */
struct window *look_up(MPI_Win win);
int windows_left(void);

/* Null if the window was not taken over. */
static inline struct window *window_of(MPI_Win win)
{
    struct window *last = last_window;
    return last != NULL && last->real == win ? last : look_up(win);
}

/* info.c */
void info_start(struct window *window, MPI_Info given);
uint64_t info_alignment(MPI_Info info);     /* that memory of the job is to have */

/* types.c: null, and an MPI error, if the type cannot be used. */
struct type_entry {
    MPI_Datatype type;
    bool is_used;
    struct farside_mpi_type exact;
    struct farside_mpi_type numbers;    /* without the gaps of pairs */
};
extern struct type_entry *last_type;    /* the one used last */
const struct farside_mpi_type *type_of(MPI_Datatype type, int *error);
/* The same with the gaps of pairs filled: for accumulates. */
const struct farside_mpi_type *numbers_of(MPI_Datatype type, int *error);
void types_start(void);

/* operations.c */
uint32_t operation_of(MPI_Op op);
bool is_defined(uint32_t op, uint32_t number);
void fold(uint32_t number, uint32_t op, void *into, const void *from, size_t count);

/* errors.c: calls the handler, and returns the code. */
int fail_window(MPI_Win win, int class, const char *call, const char *text);
int fail_comm(MPI_Comm comm, int class, const char *call, const char *text);
int fail_call(struct window *window, const char *call, int code);
int class_of(int code);

static inline int done(struct window *window, const char *call, int code)
{
    return __builtin_expect(code == 0, 1) ? MPI_SUCCESS : fail_call(window, call, code);
}

static inline void count_operation(uint64_t bytes)
{
    if (__builtin_expect(has_threads, 0)) {
        __atomic_fetch_add(&operations, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&bytes_moved, bytes, __ATOMIC_RELAXED);
        return;
    }
    operations++;
    bytes_moved += bytes;
}

/* The bytes of some elements. More than there can be is more than any window has. */
static inline uint64_t total(const struct farside_mpi_type *type, uint64_t count)
{
    uint64_t bytes;
    return __builtin_mul_overflow(type->size, count, &bytes) ? UINT64_MAX : bytes;
}

/* A member's part that this process maps, in an epoch in which it can be used at once; null if it
 * is not, whatever the reason is: the long way finds it out. */
static inline const struct farside_mpi_near *near_of(const struct window *window, int rank)
{
    if (window->near == NULL || rank < 0 || rank >= window->communicator->size)
        return NULL;
    const struct farside_mpi_near *near = &window->near[rank];
    return near->part != NULL && *near->open ? near : NULL;
}

#endif
