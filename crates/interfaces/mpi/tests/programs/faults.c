/* The same twice, for tests in which a call of one rank fails the first time: every rank says what
 * the first error of each time was.
 *
 * usage: faults [threads | files NUMBER]
 *   threads  asks for MPI_THREAD_MULTIPLE
 *   files    the last rank may open so many more files */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATIENCE_S = 20 };

static int me, ranks;
static char first[MPI_MAX_ERROR_STRING + 1];

static int note(int code)
{
    int length;
    if (code != MPI_SUCCESS && first[0] == '\0') {
        MPI_Error_string(code, first, &length);
        for (char *at = first; *at != '\0'; at++)
            if (*at == '\n' || *at == '|')
                *at = ' ';
    }
    return code;
}

/* Whoever fails within a lock keeps others waiting unless it ends. */
static int must(int code)
{
    if (note(code) != MPI_SUCCESS) {
        fprintf(stderr, "rank %d ends: %s\n", me, first);
        /* Hydra ends a job without passing on what it has not read yet. */
        usleep(200000);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return code;
}

static void late(int signal)
{
    (void)signal;
    static const char text[] = "a rank hangs\n";
    (void)!write(2, text, sizeof text - 1);
    _exit(3);
}

/* Every member comes to every call, whatever came of those before. */
static void use(MPI_Win win, int is_dynamic)
{
    int next = (me + 1) % ranks, value = me, got;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    note(MPI_Win_fence(0, win));
    if (!is_dynamic) {
        note(MPI_Put(&value, 1, MPI_INT, next, 0, 1, MPI_INT, win));
        note(MPI_Accumulate(&value, 1, MPI_INT, next, 1, 1, MPI_INT, MPI_SUM, win));
        note(MPI_Fetch_and_op(&value, &got, MPI_INT, next, 2, MPI_SUM, win));
    }
    note(MPI_Win_fence(0, win));
    if (!is_dynamic && must(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win)) == MPI_SUCCESS) {
        note(MPI_Get(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
        must(MPI_Win_unlock(0, win));
    }
    note(MPI_Win_free(&win));
}

/* A target is locked by the first operation on it. One that fails keeps nobody waiting: all locks
 * are shared. So every member frees the window, whatever came of its epochs. */
static void share(MPI_Win win)
{
    int next = (me + 1) % ranks, value = me;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    note(MPI_Win_lock_all(0, win));
    note(MPI_Put(&value, 1, MPI_INT, next, 0, 1, MPI_INT, win));
    note(MPI_Win_unlock_all(win));
    note(MPI_Win_free(&win));
}

static void body(void)
{
    static int own[1024];
    MPI_Win win;
    MPI_Comm comm;
    void *base;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (note(MPI_Win_allocate(64, 4, MPI_INFO_NULL, comm, &base, &win)) == MPI_SUCCESS)
        use(win, 0);
    if (note(MPI_Win_create(own, sizeof own, 4, MPI_INFO_NULL, comm, &win)) == MPI_SUCCESS)
        use(win, 0);
    if (note(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win)) == MPI_SUCCESS)
        use(win, 1);
    MPI_Comm near;
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_set_errhandler(near, MPI_ERRORS_RETURN);
    if (note(MPI_Win_allocate_shared(64, 4, MPI_INFO_NULL, near, &base, &win)) == MPI_SUCCESS)
        use(win, 1);
    if (note(MPI_Win_allocate(64, 4, MPI_INFO_NULL, comm, &base, &win)) == MPI_SUCCESS)
        share(win);
    MPI_Comm_free(&near);
    MPI_Comm_free(&comm);
}

static void allow_files(int more)
{
    int next = dup(0);
    struct rlimit limit = { (rlim_t)(next + more), (rlim_t)(next + more) };
    close(next);
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    int is_threaded = argc > 1 && strcmp(argv[1], "threads") == 0;
    int level, level_wanted = is_threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    char before[sizeof first];
    signal(SIGALRM, late);
    alarm(PATIENCE_S);
    MPI_Init_thread(&argc, &argv, level_wanted, &level);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 2 && me == ranks - 1)
        allow_files(atoi(argv[2]));
    body();
    strcpy(before, first[0] == '\0' ? "fine" : first);
    first[0] = '\0';
    MPI_Barrier(MPI_COMM_WORLD);
    body();
    printf("rank %d: %s | %s\n", me, before, first[0] == '\0' ? "fine" : first);
    fflush(stdout);
    return MPI_Finalize();
}
