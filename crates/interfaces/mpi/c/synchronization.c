/* The calls that begin, complete and end epochs. */
#include <stdlib.h>
#include "border.h"

/* The code of a call that may wait. */
#define WAITS(code, call) \
    int code; \
    if (counts_waits) { \
        begin_wait(); \
        code = call; \
        end_wait(); \
    } else { \
        code = call; \
    }

#ifdef OPEN_MPI
enum { CHECKS_ASSERTIONS = 1 };
#else
enum { CHECKS_ASSERTIONS = 0 };     /* MPICH ignores them, and so may its programs */
#endif

/* Refuses assertions that the call does not have. */
static int check_assert(MPI_Win win, const char *call, int assert, int known)
{
    if (CHECKS_ASSERTIONS && (assert & ~known) != 0)
        return fail_window(win, MPI_ERR_ASSERT, call, "an assertion that this call does not have");
    return MPI_SUCCESS;
}

API int MPI_Win_fence(int assert, MPI_Win win)
{
    struct window *window = window_of(win);
    if (window == NULL)
        return REAL(MPI_Win_fence)(assert, win);
    int error = check_assert(win, "MPI_Win_fence", assert,
                             MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE
                             | MPI_MODE_NOSUCCEED);
    if (error != MPI_SUCCESS)
        return error;
    WAITS(code, farside_mpi_fence(window->core, (assert & MPI_MODE_NOSUCCEED) != 0))
    return done(window, "MPI_Win_fence", code);
}

/* The members of a window that are in a group. */
static int *members_of(struct window *window, MPI_Group group, int *count)
{
    MPI_Group all;
    PMPI_Group_size(group, count);
    int *ranks = malloc(sizeof(int) * (size_t)(*count + 1));
    int *members = malloc(sizeof(int) * (size_t)(*count + 1));
    for (int i = 0; i < *count; i++)
        ranks[i] = i;
    PMPI_Comm_group(window->communicator->own, &all);
    PMPI_Group_translate_ranks(group, *count, ranks, all, members);
    PMPI_Group_free(&all);
    free(ranks);
    return members;
}

static int with_group(MPI_Group group, MPI_Win win, const char *call,
                      int (*act)(void *, const int *, size_t))
{
    struct window *window = window_of(win);
    int count;
    if (group == MPI_GROUP_NULL)
        return fail_window(win, MPI_ERR_GROUP, call, "the group is null");
    int *members = members_of(window, group, &count);
    for (int i = 0; i < count; i++)
        if (members[i] == MPI_UNDEFINED) {
            free(members);
            return fail_window(win, MPI_ERR_GROUP, call,
                               "the group has a process that the window has not");
        }
    WAITS(code, act(window->core, members, (size_t)count))
    free(members);
    return done(window, call, code);
}

API int MPI_Win_post(MPI_Group group, int assert, MPI_Win win)
{
    if (window_of(win) == NULL)
        return REAL(MPI_Win_post)(group, assert, win);
    int error = check_assert(win, "MPI_Win_post", assert,
                             MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT);
    return error != MPI_SUCCESS ? error
                                : with_group(group, win, "MPI_Win_post", farside_mpi_post);
}

API int MPI_Win_start(MPI_Group group, int assert, MPI_Win win)
{
    if (window_of(win) == NULL)
        return REAL(MPI_Win_start)(group, assert, win);
    int error = check_assert(win, "MPI_Win_start", assert, MPI_MODE_NOCHECK);
    return error != MPI_SUCCESS ? error
                                : with_group(group, win, "MPI_Win_start", farside_mpi_begin);
}

/* Mostly there is nothing to wait for. */
static inline bool flush_near(const struct window *window, int rank)
{
    const struct farside_mpi_near *near = near_of(window, rank);
    if (near == NULL || !(*near->open & IS_LOCKED) || counts_waits)
        return false;
    return farside_mpi_flush_near(window->core, rank) == 0;
}

#define SIMPLE(name, function) \
    API int name(MPI_Win win) \
    { \
        struct window *window = window_of(win); \
        if (window == NULL) \
            return REAL(name)(win); \
        WAITS(code, function(window->core)) \
        return done(window, #name, code); \
    }
#define TARGETED(name, function) \
    API int name(int rank, MPI_Win win) \
    { \
        struct window *window = window_of(win); \
        if (window == NULL) \
            return REAL(name)(rank, win); \
        if (rank == MPI_PROC_NULL || (function == farside_mpi_flush && flush_near(window, rank))) \
            return MPI_SUCCESS; \
        WAITS(code, function(window->core, rank)) \
        return done(window, #name, code); \
    }

SIMPLE(MPI_Win_complete, farside_mpi_complete)
SIMPLE(MPI_Win_wait, farside_mpi_wait)
SIMPLE(MPI_Win_unlock_all, farside_mpi_unlock_all)
SIMPLE(MPI_Win_flush_all, farside_mpi_flush_all)
SIMPLE(MPI_Win_flush_local_all, farside_mpi_flush_local_all)
SIMPLE(MPI_Win_sync, farside_mpi_sync)
TARGETED(MPI_Win_unlock, farside_mpi_unlock)
TARGETED(MPI_Win_flush, farside_mpi_flush)
TARGETED(MPI_Win_flush_local, farside_mpi_flush_local)

API int MPI_Win_test(MPI_Win win, int *flag)
{
    struct window *window = window_of(win);
    if (window == NULL)
        return REAL(MPI_Win_test)(win, flag);
    return done(window, "MPI_Win_test", farside_mpi_test(window->core, flag));
}

API int MPI_Win_lock(int lock_type, int rank, int assert, MPI_Win win)
{
    struct window *window = window_of(win);
    if (window == NULL)
        return REAL(MPI_Win_lock)(lock_type, rank, assert, win);
    if (rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    if (lock_type != MPI_LOCK_EXCLUSIVE && lock_type != MPI_LOCK_SHARED)
        return fail_window(win, MPI_ERR_LOCKTYPE, "MPI_Win_lock",
                           "the type is neither MPI_LOCK_EXCLUSIVE nor MPI_LOCK_SHARED");
    int error = check_assert(win, "MPI_Win_lock", assert, MPI_MODE_NOCHECK);
    if (error != MPI_SUCCESS)
        return error;
    /* With MPI_MODE_NOCHECK nothing is in the way, and the lock is taken at once. */
    WAITS(code, farside_mpi_lock(window->core, rank, lock_type == MPI_LOCK_EXCLUSIVE))
    return done(window, "MPI_Win_lock", code);
}

API int MPI_Win_lock_all(int assert, MPI_Win win)
{
    struct window *window = window_of(win);
    if (window == NULL)
        return REAL(MPI_Win_lock_all)(assert, win);
    int error = check_assert(win, "MPI_Win_lock_all", assert, MPI_MODE_NOCHECK);
    if (error != MPI_SUCCESS)
        return error;
    WAITS(code, farside_mpi_lock_all(window->core, window->is_shared))
    return done(window, "MPI_Win_lock_all", code);
}

/* Fortran's calls of Open MPI, and tools, use these names. */
ALSO(MPI_Win_complete)
ALSO(MPI_Win_fence)
ALSO(MPI_Win_flush)
ALSO(MPI_Win_flush_all)
ALSO(MPI_Win_flush_local)
ALSO(MPI_Win_flush_local_all)
ALSO(MPI_Win_lock)
ALSO(MPI_Win_lock_all)
ALSO(MPI_Win_post)
ALSO(MPI_Win_start)
ALSO(MPI_Win_sync)
ALSO(MPI_Win_test)
ALSO(MPI_Win_unlock)
ALSO(MPI_Win_unlock_all)
ALSO(MPI_Win_wait)
