/* The last rank dies where the first argument says, and the others get an error or an abort, as the
 * handler of the window says: none of them hangs. What they get is written to a file whose name
 * begins with the second argument and ends with the rank, because launchers lose what is printed
 * then; with a third, the handler is that which every window has at first. */
#include "case.h"

static const char *place;
static MPI_Win win;

/* Frees a window of the ranks that are left; rank 0 has put something to the one that has died,
 * which is no member. That is no matter of the others, and their communicator is as before. */
static int free_other(int dead)
{
    static int value;
    int code, *base;
    MPI_Win other;
    MPI_Comm left;
    MPI_Comm_split(MPI_COMM_WORLD, me == dead, me, &left);
    MPI_Win_allocate(sizeof value, sizeof value, MPI_INFO_NULL, left, &base, &other);
    MPI_Win_set_errhandler(other, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, win);
    if (me == 0)
        MPI_Put(&value, 1, MPI_INT, dead, 0, 1, MPI_INT, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == dead)
        raise(SIGKILL);
    while (me == 0
           && MPI_Compare_and_swap(&value, &value, &value, MPI_INT, dead, 0, win) == MPI_SUCCESS)
        continue;
    code = MPI_Win_free(&other);
    if (other == MPI_WIN_NULL) {
        MPI_Win_allocate(sizeof value, sizeof value, MPI_INFO_NULL, left, &base, &other);
        MPI_Win_fence(0, other);
        MPI_Win_free(&other);
    } else {
        code = MPI_ERR_WIN;
    }
    return code;
}

/* Rank 0 uses memory of rank 1, which a thread of that serves, after another has died. */
static int use_the_living(int dead, volatile int *own)
{
    int value, got = -1, code = MPI_SUCCESS;
    if (me == 1) {
        while (own[1] == 0)
            continue;
        return MPI_SUCCESS;
    }
    while (MPI_Get(&got, 1, MPI_INT, dead, 0, 1, MPI_INT, win) == MPI_SUCCESS)
        continue;
    for (value = 1; value <= 100 && code == MPI_SUCCESS; value++) {
        code = MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
        if (code == MPI_SUCCESS)
            code = MPI_Get(&got, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
        if (code == MPI_SUCCESS && got != value)
            code = MPI_ERR_OTHER;
    }
    MPI_Put(&value, 1, MPI_INT, 1, 1, 1, MPI_INT, win);
    return code;
}

/* The call of a rank that is left, in which it needs the one that has died. */
static int need(int dead)
{
    static int value;
    int code;
    if (strcmp(place, "lock") == 0)
        return MPI_Win_lock(MPI_LOCK_EXCLUSIVE, dead, 0, win);
    if (strcmp(place, "fence") == 0)
        return MPI_Win_fence(0, win);
    if (strcmp(place, "post") == 0) {
        MPI_Group all, one;
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_incl(all, 1, &dead, &one);
        code = MPI_Win_start(one, 0, win);
        return code == MPI_SUCCESS ? MPI_Win_complete(win) : code;
    }
    /* A window that could not be freed refuses everything, also to be freed again. */
    if (strcmp(place, "free") == 0) {
        code = MPI_Win_free(&win);
        if (MPI_Put(&value, 1, MPI_INT, me, 0, 1, MPI_INT, win) == MPI_SUCCESS
            || MPI_Compare_and_swap(&value, &value, &value, MPI_INT, me, 0, win) == MPI_SUCCESS
            || MPI_Win_fence(0, win) == MPI_SUCCESS || MPI_Win_free(&win) == MPI_SUCCESS)
            return MPI_SUCCESS;
        return code;
    }
    /* Of memory that is gone with its process. */
    do
        code = MPI_Get(&value, 1, MPI_INT, dead, 0, 1, MPI_INT, win);
    while (code == MPI_SUCCESS && (code = MPI_Win_flush(dead, win)) == MPI_SUCCESS);
    return code;
}

int main(int argc, char **argv)
{
    int own[16] = { 0 }, *base = own, code;
    bool is_fatal = argc == 4;
    char text[MPI_MAX_ERROR_STRING + 1] = "", path[4096];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    place = argv[1];
    snprintf(path, sizeof path, "%s.%d", argv[2], me);
    signal(SIGALRM, too_late);
    alarm(PATIENCE_S);
    /* What the library allocates outlives a process; what the process has does not. */
    bool is_created = strcmp(place, "get") == 0 || strcmp(place, "served") == 0;
    if (is_created)
        MPI_Win_create(own, sizeof own, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    else
        MPI_Win_allocate(sizeof own, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    if (!is_fatal)
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if (strcmp(place, "fence") == 0)
        MPI_Win_fence(0, win);
    if (is_created)
        MPI_Win_lock_all(0, win);
    if (strcmp(place, "lock") == 0 && me == ranks - 1)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win);
    if (strcmp(place, "other") == 0) {
        code = free_other(ranks - 1);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        if (me == ranks - 1)
            raise(SIGKILL);
        code = strcmp(place, "served") == 0 ? use_the_living(ranks - 1, own) : need(ranks - 1);
    }
    int length;
    MPI_Error_string(code, text, &length);
    FILE *file = fopen(path, "w");
    fprintf(file, code == MPI_SUCCESS ? "no error\n" : "returned: %s\n", text);
    fclose(file);
    /* There is no end in common any more. */
    _exit(0);
}
