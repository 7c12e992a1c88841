/* Mistakes: each is refused with an error of its class, a text, and a window that goes on. */
#include "case.h"
#include <sys/mman.h>

/* A window that returns errors, in a lock of all. */
static MPI_Win make(int **base)
{
    MPI_Win win = make_ints(16, base);
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    return win;
}

static MPI_Win make_locked(int **base)
{
    MPI_Win win = make(base);
    OK(MPI_Win_lock_all(0, win));
    return win;
}

/* The window is as good as before. */
static void end(MPI_Win win, const int *base)
{
    check_ring(win, MPI_COMM_WORLD, base, 16, 0);
    OK(MPI_Win_free(&win));
}

static void end_locked(MPI_Win win, const int *base)
{
    OK(MPI_Win_unlock_all(win));
    end(win, base);
}

static void put_outside_of_an_epoch(void)
{
    int *base, value = 1, old;
    MPI_Request request;
    MPI_Win win = make(&base);
    FAILS(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Get(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Accumulate(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, MPI_SUM, win),
          MPI_ERR_RMA_SYNC);
    FAILS(MPI_Fetch_and_op(&value, &old, MPI_INT, right(), 0, MPI_SUM, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Compare_and_swap(&value, &value, &old, MPI_INT, right(), 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Rput(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    end(win, base);
}

/* A lock of one target is none of another. */
static void put_to_a_target_without_lock(void)
{
    int *base, value = 1;
    if (ranks < 2)
        return;
    MPI_Win win = make(&base);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win));
    FAILS(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_unlock(me, win));
    end(win, base);
}

static void put_to_a_target_not_started(void)
{
    int *base, value = 1;
    if (ranks < 2)
        return;
    MPI_Win win = make(&base);
    OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, win));
    FAILS(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_complete(win));
    end(win, base);
}

static void ends_of_epochs_that_never_began(void)
{
    int *base, flag;
    MPI_Win win = make(&base);
    FAILS(MPI_Win_unlock(right(), win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
    end(win, base);
}

static void flushes_outside_of_an_epoch(void)
{
    int *base;
    MPI_Win win = make(&base);
    FAILS(MPI_Win_flush(right(), win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush_local(right(), win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush_local_all(win), MPI_ERR_RMA_SYNC);
    end(win, base);
}

static void epochs_within_epochs(void)
{
    int *base;
    MPI_Win win = make(&base);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_start(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_unlock(me, win));
    OK(MPI_Win_lock_all(0, win));
    FAILS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock(me, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_unlock_all(win));
    end(win, base);
}

/* A fence in which something was done opens an epoch, and none is within a lock. */
static void epochs_within_fences(void)
{
    int *base, value = 1;
    MPI_Win win = make(&base);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win));
    FAILS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_unlock(me, win));
    OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, win));
    FAILS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_complete(win));
    end(win, base);
}

static void post_within_a_post(void)
{
    int *base;
    MPI_Win win = make(&base);
    OK(MPI_Win_post(MPI_GROUP_EMPTY, 0, win));
    FAILS(MPI_Win_post(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_wait(win));
    OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, win));
    FAILS(MPI_Win_start(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_complete(win));
    end(win, base);
}

static void free_within_an_epoch(void)
{
    int *base;
    MPI_Win win = make_locked(&base), copy = win;
    FAILS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    CHECK(win == copy);
    end_locked(win, base);
}

static void ranks_that_are_none(void)
{
    int *base, value = 1, old;
    MPI_Win win = make_locked(&base);
    static const int wrong[] = { -100, 1 << 20 };
    for (int i = 0; i < 3; i++) {
        int rank = i == 2 ? ranks : wrong[i];
        FAILS(MPI_Put(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, win), MPI_ERR_RANK);
        FAILS(MPI_Get(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, win), MPI_ERR_RANK);
        FAILS(MPI_Accumulate(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RANK);
        FAILS(MPI_Fetch_and_op(&value, &old, MPI_INT, rank, 0, MPI_SUM, win), MPI_ERR_RANK);
        FAILS(MPI_Compare_and_swap(&value, &value, &old, MPI_INT, rank, 0, win), MPI_ERR_RANK);
        FAILS(MPI_Win_flush(rank, win), MPI_ERR_RANK);
    }
    OK(MPI_Win_unlock_all(win));
    for (int i = 0; i < 3; i++) {
        int rank = i == 2 ? ranks : wrong[i];
        FAILS(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win), MPI_ERR_RANK);
        FAILS(MPI_Win_unlock(rank, win), MPI_ERR_RANK);
    }
    end(win, base);
}

static void beyond_the_window(void)
{
    int *base, values[20] = { 0 }, old;
    MPI_Win win = make_locked(&base);
    FAILS(MPI_Put(values, 1, MPI_INT, right(), 16, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put(values, 17, MPI_INT, right(), 0, 17, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Get(values, 2, MPI_INT, right(), 15, 2, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Accumulate(values, 4, MPI_INT, right(), 1 << 20, 4, MPI_INT, MPI_SUM, win),
          MPI_ERR_RMA_RANGE);
    FAILS(MPI_Fetch_and_op(values, &old, MPI_INT, right(), 16, MPI_SUM, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Compare_and_swap(values, values, &old, MPI_INT, right(), 16, win),
          MPI_ERR_RMA_RANGE);
    end_locked(win, base);
}

/* Displacements whose products would not fit into an address. */
static void far_beyond_the_window(void)
{
    int *base, value = 1;
    MPI_Win win = make_locked(&base);
    MPI_Aint huge = (MPI_Aint)1 << 61;
    FAILS(MPI_Put(&value, 1, MPI_INT, right(), huge, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Get(&value, 1, MPI_INT, right(), huge + huge / 2, 1, MPI_INT, win),
          MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put(&value, 1, MPI_INT, right(), INTPTR_MAX, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    /* In units of four bytes, these are 0 and 16 in 64 bits. */
    FAILS(MPI_Put(&value, 1, MPI_INT, right(), 2 * huge, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Get(&value, 1, MPI_INT, right(), 2 * huge + 4, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    EQ(value, 1);
    end_locked(win, base);
}

/* Counts whose bytes would not fit into an address. */
static void large_counts_beyond_the_window(void)
{
#if MPI_VERSION >= 4
    int *base;
    double values[4] = { 1, 2, 3, 4 }, old[4];
    MPI_Win win = make_locked(&base);
    MPI_Count huge = (MPI_Count)1 << 61;
    FAILS(MPI_Put_c(values, huge, MPI_DOUBLE, right(), 0, huge, MPI_DOUBLE, win),
          MPI_ERR_RMA_RANGE);
    FAILS(MPI_Get_c(values, huge, MPI_DOUBLE, right(), 0, huge, MPI_DOUBLE, win),
          MPI_ERR_RMA_RANGE);
    FAILS(MPI_Accumulate_c(values, huge, MPI_DOUBLE, right(), 0, huge, MPI_DOUBLE, MPI_SUM, win),
          MPI_ERR_RMA_RANGE);
    FAILS(MPI_Get_accumulate_c(values, huge, MPI_DOUBLE, old, huge, MPI_DOUBLE, right(), 0, huge,
                               MPI_DOUBLE, MPI_SUM, win),
          MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put_c(values, huge, MPI_DOUBLE, right(), 0, 1, MPI_DOUBLE, win), MPI_ERR_TRUNCATE);
    /* Room for more than there is in the window. */
    values[0] = 0;
    OK(MPI_Get_c(values, huge, MPI_DOUBLE, right(), 0, 1, MPI_DOUBLE, win));
    EQ(values[0], 0);
    end_locked(win, base);
#endif
}

/* A datatype that reaches out of the window on either side. */
static void types_beyond_the_window(void)
{
    int *base, values[8] = { 0 };
    MPI_Datatype wide, before;
    int places[] = { 0, -3 };
    MPI_Type_vector(2, 1, 16, MPI_INT, &wide);
    MPI_Type_create_indexed_block(2, 1, places, MPI_INT, &before);
    OK(MPI_Type_commit(&wide));
    OK(MPI_Type_commit(&before));
    MPI_Win win = make_locked(&base);
    FAILS(MPI_Put(values, 2, MPI_INT, right(), 0, 1, wide, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put(values, 2, MPI_INT, right(), 2, 1, before, win), MPI_ERR_RMA_RANGE);
    OK(MPI_Put(values, 2, MPI_INT, right(), 3, 1, before, win));
    end_locked(win, base);
    OK(MPI_Type_free(&wide));
    OK(MPI_Type_free(&before));
}

static void displacements_below_zero(void)
{
    int *base, value = 1;
    MPI_Win win = make_locked(&base);
    FAILS(MPI_Put(&value, 1, MPI_INT, right(), -1, 1, MPI_INT, win), MPI_ERR_DISP);
    FAILS(MPI_Get(&value, 1, MPI_INT, right(), -1, 1, MPI_INT, win), MPI_ERR_DISP);
    end_locked(win, base);
}

static void counts_below_zero(void)
{
    int *base, value = 1;
    MPI_Win win = make_locked(&base);
    FAILS(MPI_Put(&value, -1, MPI_INT, right(), 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    FAILS(MPI_Get(&value, 1, MPI_INT, right(), 0, -1, MPI_INT, win), MPI_ERR_COUNT);
    FAILS(MPI_Accumulate(&value, -1, MPI_INT, right(), 0, -1, MPI_INT, MPI_SUM, win),
          MPI_ERR_COUNT);
    end_locked(win, base);
}

static void more_than_there_is_room_for(void)
{
    int *base, values[4] = { 1, 2, 3, 4 }, old[4];
    MPI_Win win = make_locked(&base);
    FAILS(MPI_Put(values, 4, MPI_INT, right(), 0, 3, MPI_INT, win), MPI_ERR_TRUNCATE);
    FAILS(MPI_Get(values, 3, MPI_INT, right(), 0, 4, MPI_INT, win), MPI_ERR_TRUNCATE);
    FAILS(MPI_Accumulate(values, 4, MPI_INT, right(), 0, 3, MPI_INT, MPI_SUM, win),
          MPI_ERR_TRUNCATE);
    FAILS(MPI_Get_accumulate(values, 4, MPI_INT, old, 3, MPI_INT, right(), 0, 4, MPI_INT, MPI_SUM,
                             win),
          MPI_ERR_TRUNCATE);
    end_locked(win, base);
}

static void types_that_are_none(void)
{
    int *base, value = 1, old;
    MPI_Datatype never;
    MPI_Type_contiguous(1, MPI_INT, &never);
    MPI_Win win = make_locked(&base);
    FAILS(MPI_Put(&value, 1, MPI_DATATYPE_NULL, right(), 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    FAILS(MPI_Get(&value, 1, MPI_INT, right(), 0, 1, MPI_DATATYPE_NULL, win), MPI_ERR_TYPE);
    FAILS(MPI_Put(&value, 1, never, right(), 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    FAILS(MPI_Compare_and_swap(&value, &value, &old, MPI_FLOAT, right(), 0, win), MPI_ERR_TYPE);
    OK(MPI_Type_free(&never));
    end_locked(win, base);
}

/* MPI 3.1 section 11.3.4: predefined types, or derived ones of a single predefined one. */
static void types_that_cannot_be_combined(void)
{
    int *base, value[2] = { 0 };
    MPI_Aint places[] = { 0, 4 };
    int lengths[] = { 1, 1 };
    MPI_Datatype mixed, types[] = { MPI_INT, MPI_FLOAT };
    MPI_Type_create_struct(2, lengths, places, types, &mixed);
    OK(MPI_Type_commit(&mixed));
    MPI_Win win = make_locked(&base);
    int code = MPI_Accumulate(value, 1, mixed, right(), 0, 1, mixed, MPI_SUM, win), class_;
    MPI_Error_class(code, &class_);
    CHECK(class_ == MPI_ERR_TYPE || class_ == MPI_ERR_OP || class_ == MPI_ERR_ARG);
    OK(MPI_Type_free(&mixed));
    end_locked(win, base);
}

static void nothing(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)count, (void)type;
}

static void operations_that_are_none(void)
{
    int *base, value = 1, old;
    float number = 1;
    MPI_Op own;
    MPI_Op_create(nothing, 1, &own);
    MPI_Win win = make_locked(&base);
    FAILS(MPI_Accumulate(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, own, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, MPI_OP_NULL, win),
          MPI_ERR_OP);
    FAILS(MPI_Fetch_and_op(&value, &old, MPI_INT, right(), 0, own, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(&number, 1, MPI_FLOAT, right(), 0, 1, MPI_FLOAT, MPI_BXOR, win),
          MPI_ERR_OP);
    FAILS(MPI_Accumulate(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, MPI_MAXLOC, win), MPI_ERR_OP);
    OK(MPI_Op_free(&own));
    end_locked(win, base);
}

static void lock_types_that_are_none(void)
{
    int *base;
    MPI_Win win = make(&base);
    FAILS(MPI_Win_lock(12345, right(), 0, win), MPI_ERR_LOCKTYPE);
    end(win, base);
}

#ifdef OPEN_MPI
/* MPICH accepts them. */
static void assertions_that_are_none(void)
{
    int *base;
    MPI_Group group;
    MPI_Win win = make(&base);
    MPI_Win_get_group(win, &group);
    FAILS(MPI_Win_fence(MPI_MODE_NOCHECK, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_post(group, MPI_MODE_NOPRECEDE, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_start(group, MPI_MODE_NOPUT, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, me, MPI_MODE_NOSTORE, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_lock_all(MPI_MODE_NOSUCCEED, win), MPI_ERR_ASSERT);
    MPI_Group_free(&group);
    end(win, base);
}
#endif

static void groups_that_are_none(void)
{
    int *base;
    MPI_Win win = make(&base);
    FAILS(MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    FAILS(MPI_Win_start(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    end(win, base);
}

/* A group whose process is not one of the window. */
static void groups_of_others(void)
{
    int *base, other = right();
    MPI_Group all, group;
    MPI_Win win;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &other, &group);
    OK(MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    if (other != me) {
        FAILS(MPI_Win_post(group, 0, win), MPI_ERR_GROUP);
        FAILS(MPI_Win_start(group, 0, win), MPI_ERR_GROUP);
    }
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    OK(MPI_Win_free(&win));
}

static void flavors_that_do_not_fit(void)
{
    int *base, unit;
    MPI_Aint size;
    void *other;
    MPI_Win win = make(&base);
    FAILS(MPI_Win_attach(win, base, 4), MPI_ERR_RMA_FLAVOR);
    FAILS(MPI_Win_detach(win, base), MPI_ERR_RMA_FLAVOR);
    FAILS(MPI_Win_shared_query(win, 0, &size, &unit, &other), MPI_ERR_RMA_FLAVOR);
    end(win, base);
}

/* Sizes and units at the making of a window: the error is one of the communicator. */
static void windows_that_cannot_be(void)
{
    MPI_Comm comm;
    int memory[4];
    void *base;
    MPI_Win win;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    FAILS(MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, comm, &win), MPI_ERR_SIZE);
    FAILS(MPI_Win_create(memory, sizeof memory, 0, MPI_INFO_NULL, comm, &win), MPI_ERR_DISP);
    FAILS(MPI_Win_allocate(-8, 1, MPI_INFO_NULL, comm, &base, &win), MPI_ERR_SIZE);
    FAILS(MPI_Win_allocate(8, -4, MPI_INFO_NULL, comm, &base, &win), MPI_ERR_DISP);
    OK(MPI_Win_allocate(64, 1, MPI_INFO_NULL, comm, &base, &win));
    OK(MPI_Win_free(&win));
    MPI_Comm_free(&comm);
}

/* Members on several nodes have no memory to share. */
static void shared_windows_of_several_nodes(void)
{
    MPI_Comm comm, near = node_comm();
    MPI_Win win;
    void *base;
    int size;
    MPI_Comm_size(near, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    if (size < ranks)
        FAILS(MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, comm, &base, &win),
              MPI_ERR_RMA_SHARED);
    OK(MPI_Comm_free(&comm));
    MPI_Comm_free(&near);
}

static void windows_that_are_none(void)
{
    int value = 1;
    MPI_Win none = MPI_WIN_NULL;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, none), MPI_ERR_WIN);
    FAILS(MPI_Win_fence(0, none), MPI_ERR_WIN);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, none), MPI_ERR_WIN);
    FAILS(MPI_Win_free(&none), MPI_ERR_WIN);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

static int handled, last_class;
static MPI_Win last_window;

static void note_error(MPI_Win *win, int *code, ...)
{
    handled++;
    last_window = *win;
    MPI_Error_class(*code, &last_class);
}

/* The program's own handler is called once for each error, with the window and the code. */
static void handlers_of_the_program(void)
{
    int *base, value = 1;
    MPI_Errhandler handler;
    OK(MPI_Win_create_errhandler(note_error, &handler));
    MPI_Win win = make_locked(&base);
    OK(MPI_Win_set_errhandler(win, handler));
    handled = 0;
    FAILS(MPI_Put(&value, 1, MPI_INT, right(), 16, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    EQ(handled, 1);
    EQ(last_class, MPI_ERR_RMA_RANGE);
    CHECK(last_window == win);
    OK(MPI_Put(&value, 1, MPI_INT, right(), 1, 1, MPI_INT, win));
    EQ(handled, 1);
    FAILS(MPI_Put(&value, 1, MPI_INT, ranks, 1, 1, MPI_INT, win), MPI_ERR_RANK);
    EQ(handled, 2);
    EQ(last_class, MPI_ERR_RANK);
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    end_locked(win, base);
}

/* Memory that is not there fails the accumulate that means it, and no other one. */
static void accumulates_of_memory_that_is_gone(void)
{
    const size_t page = 1 << 16;
    int value = 1, old, sum = 0;
    MPI_Aint mine[2], theirs[2];
    MPI_Win win;
    if (ranks < 2)
        return;
    void *gone = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_attach(win, &sum, sizeof sum));
    OK(MPI_Get_address(gone, &mine[0]));
    OK(MPI_Get_address(&sum, &mine[1]));
    MPI_Sendrecv(mine, 2, MPI_AINT, left(), 1, theirs, 2, MPI_AINT, right(), 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 2; i++) {
        FAILS(MPI_Accumulate(&value, 1, MPI_INT, right(), theirs[0], 1, MPI_INT, MPI_SUM, win),
              MPI_ERR_RMA_RANGE);
        OK(MPI_Accumulate(&value, 1, MPI_INT, right(), theirs[1], 1, MPI_INT, MPI_SUM, win));
        FAILS(MPI_Compare_and_swap(&value, &value, &old, MPI_INT, right(), theirs[0], win),
              MPI_ERR_RMA_RANGE);
        OK(MPI_Fetch_and_op(&value, &old, MPI_INT, right(), theirs[1], MPI_SUM, win));
    }
    OK(MPI_Win_unlock_all(win));
    settle(win);
    EQ(sum, 4);
    OK(MPI_Win_detach(win, &sum));
    OK(MPI_Win_free(&win));
    munmap(gone, page);
}

/* As many mistakes as one likes, all different. */
static void hundreds_of_errors(void)
{
    int *base, value = 1;
    MPI_Win win = make_locked(&base);
    for (int i = 0; i < 300; i++)
        FAILS(MPI_Put(&value, 1, MPI_INT, right(), 16 + i, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    end_locked(win, base);
}

static const struct test cases[] = {
    CASE(put_outside_of_an_epoch), CASE(put_to_a_target_without_lock),
    CASE(put_to_a_target_not_started), CASE(ends_of_epochs_that_never_began),
    CASE(flushes_outside_of_an_epoch), CASE(epochs_within_epochs), CASE(epochs_within_fences),
    CASE(post_within_a_post), CASE(free_within_an_epoch), CASE(ranks_that_are_none),
    CASE(beyond_the_window), CASE(far_beyond_the_window),
    CASE(large_counts_beyond_the_window), CASE(types_beyond_the_window),
    CASE(displacements_below_zero), CASE(counts_below_zero), CASE(more_than_there_is_room_for),
    CASE(types_that_are_none), CASE(types_that_cannot_be_combined), CASE(operations_that_are_none),
    CASE(lock_types_that_are_none),
#ifdef OPEN_MPI
    CASE(assertions_that_are_none),
#endif
    CASE(groups_that_are_none), CASE(groups_of_others),
    CASE(flavors_that_do_not_fit), CASE(windows_that_cannot_be),
    CASE(shared_windows_of_several_nodes), CASE(windows_that_are_none),
    CASE(handlers_of_the_program), CASE(accumulates_of_memory_that_is_gone),
    CASE(hundreds_of_errors),
};

MAIN(cases)
