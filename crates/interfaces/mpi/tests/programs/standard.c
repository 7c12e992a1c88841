/* Sentences of the standard that no other program stands for. */
#include "case.h"

static int counted(MPI_Win win)
{
    int seen, zero = 0;
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    OK(MPI_Fetch_and_op(&zero, &seen, MPI_INT, 0, 0, MPI_NO_OP, win));
    OK(MPI_Win_unlock(0, win));
    return seen;
}

/* Nobody returns from the end of a window before all have come to it. */
static void free_waits_for_all(void)
{
    int *base, *other, one = 1;
    MPI_Win counter = make_ints(1, &base);
    for (int i = 1; i <= 5; i++) {
        MPI_Win win = make_ints(1, &other);
        if (me == i % ranks)
            usleep(1000);
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, counter));
        OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, counter));
        OK(MPI_Win_unlock(0, counter));
        OK(MPI_Win_free(&win));
        CHECK(win == MPI_WIN_NULL);
        CHECK(counted(counter) >= i * ranks);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&counter));
}

/* More memory than there is: an error of the communicator on all, and none of it stays. */
static void more_memory_than_there_is(void)
{
    int *base;
    MPI_Comm comm;
    MPI_Win win;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    FAILS(MPI_Win_allocate((MPI_Aint)1 << 60, 1, MPI_INFO_NULL, comm, &base, &win),
          MPI_ERR_NO_MEM);
    MPI_Aint bytes = me == 0 ? (MPI_Aint)1 << 60 : 64;
    FAILS(MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, comm, &base, &win), MPI_ERR_NO_MEM);
    OK(MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, comm, &base, &win));
    check_ring(win, comm, base, 8, 0);
    OK(MPI_Win_free(&win));
    MPI_Comm_free(&comm);
}

/* Addresses are added and subtracted by calls, and stay addresses. */
static void addresses_are_added(void)
{
    static int memory[8];
    int value = me + 1;
    MPI_Aint here, there;
    MPI_Win win;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_attach(win, memory, sizeof memory));
    OK(MPI_Get_address(memory, &here));
    CHECK(MPI_Aint_add(here, 12) == (MPI_Aint)(uintptr_t)&memory[3]);
    CHECK(MPI_Aint_diff(MPI_Aint_add(here, 12), here) == 12);
    CHECK(MPI_Aint_diff(here, MPI_Aint_add(here, 12)) == -12);
    MPI_Sendrecv(&here, 1, MPI_AINT, left(), 1, &there, 1, MPI_AINT, right(), 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_INT, right(), MPI_Aint_add(there, 12), 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    EQ(memory[3], left() + 1);
    OK(MPI_Win_detach(win, memory));
    OK(MPI_Win_free(&win));
}

#if MPI_VERSION >= 4
/* Counts that no int holds, of a type without size. */
static void large_counts_of_nothing(void)
{
    int *base, value = 1;
    MPI_Datatype nothing;
    MPI_Count many = (MPI_Count)1 << 33;
    MPI_Win win = make_ints(4, &base);
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put_c(&value, many, nothing, right(), 0, many, nothing, win));
    OK(MPI_Get_c(&value, many, nothing, right(), 0, many, nothing, win));
    OK(MPI_Win_fence(0, win));
    EQ(base[0], 0);
    EQ(value, 1);
    MPI_Type_free(&nothing);
    OK(MPI_Win_free(&win));
}
#endif

/* A program should free its windows; the end of one that does not is an end all the same. */
static void window_that_stays(void)
{
    int *base;
    MPI_Win win = make_ints(4, &base);
    check_ring(win, MPI_COMM_WORLD, base, 4, 0);
}

static MPI_Group group_of(int rank)
{
    MPI_Group all, one;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &rank, &one);
    MPI_Group_free(&all);
    return one;
}

/* A post returns before anybody starts, and a test before the origin has completed; groups may be
 * freed within their epochs. */
static void post_and_test_do_not_wait(void)
{
    int *base, value = 10 + me, token = 0, flag = 1;
    MPI_Win win = make_ints(1, &base);
    MPI_Group origins = group_of(left()), targets = group_of(right());
    OK(MPI_Win_post(origins, 0, win));
    MPI_Group_free(&origins);
    /* The left neighbour starts when it hears of the post, and completes when it hears of the
     * test. */
    MPI_Sendrecv(&token, 1, MPI_INT, left(), 1, &token, 1, MPI_INT, right(), 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    OK(MPI_Win_start(targets, 0, win));
    MPI_Group_free(&targets);
    OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
    OK(MPI_Win_test(win, &flag));
    EQ(flag, 0);
    MPI_Sendrecv(&token, 1, MPI_INT, left(), 2, &token, 1, MPI_INT, right(), 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    OK(MPI_Win_complete(win));
    do
        OK(MPI_Win_test(win, &flag));
    while (!flag);
    EQ(base[0], 10 + left());
    OK(MPI_Win_free(&win));
}

/* Epochs of different windows do not concern each other. */
static void epochs_of_two_windows(void)
{
    int *first, *second, one = 1 + me, two = 2 + me;
    MPI_Win a = make_ints(1, &first), b = make_ints(1, &second);
    MPI_Group origins = group_of(left()), targets = group_of(right());
    OK(MPI_Win_post(origins, 0, a));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, b));
    OK(MPI_Win_start(targets, 0, a));
    OK(MPI_Put(&two, 1, MPI_INT, right(), 0, 1, MPI_INT, b));
    OK(MPI_Put(&one, 1, MPI_INT, right(), 0, 1, MPI_INT, a));
    OK(MPI_Win_complete(a));
    OK(MPI_Win_unlock(right(), b));
    OK(MPI_Win_wait(a));
    settle(b);
    EQ(first[0], 1 + left());
    EQ(second[0], 2 + left());
    MPI_Group_free(&origins);
    MPI_Group_free(&targets);
    OK(MPI_Win_free(&a));
    OK(MPI_Win_free(&b));
}

/* The buffer of an operation with a request is the program's again when the request is complete. */
static void buffers_after_requests(void)
{
    int *base, value;
    MPI_Request request;
    MPI_Win win = make_ints(8, &base);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    for (int i = 0; i < 8; i++) {
        value = 100 * me + i;
        OK(MPI_Rput(&value, 1, MPI_INT, right(), i, 1, MPI_INT, win, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        value = -1;
    }
    OK(MPI_Win_unlock(right(), win));
    settle(win);
    for (int i = 0; i < 8; i++)
        EQ(base[i], 100 * left() + i);
    OK(MPI_Win_free(&win));
}

/* A window of no bytes on all ranks but one, a communicator of one, and both. */
static void windows_of_few(void)
{
    int *base = NULL, value = 5, got = 0;
    MPI_Win win;
    OK(MPI_Win_allocate(me == ranks - 1 ? SMALLEST : 0, sizeof(int), MPI_INFO_NULL,
                        MPI_COMM_WORLD, &base, &win));
    OK(MPI_Win_fence(0, win));
    if (me == 0)
        OK(MPI_Put(&value, 1, MPI_INT, ranks - 1, 3, 1, MPI_INT, win));
    OK(MPI_Put(NULL, 0, MPI_INT, 0, 0, 0, MPI_INT, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    if (me == ranks - 1)
        EQ(base[3], 5);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_allocate(SMALLEST, sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &base, &win));
    OK(MPI_Win_lock_all(0, win));
    base[1] = me;
    OK(MPI_Win_sync(win));
    OK(MPI_Get(&got, 1, MPI_INT, 0, 1, 1, MPI_INT, win));
    OK(MPI_Win_unlock_all(win));
    EQ(got, me);
    OK(MPI_Win_free(&win));
}

/* What is stored between a synchronization and the next one is seen, and sent, after that. */
static void stores_and_syncs(void)
{
    int *base, got = 0;
    MPI_Win win = make_ints(2, &base);
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    for (int i = 1; i <= 10; i++) {
        base[0] = 100 * me + i;
        OK(MPI_Win_sync(win));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_Get(&got, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
        OK(MPI_Win_flush_local_all(win));
        EQ(got, 100 * right() + i);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

/* A put and a get of the same rank in one epoch at places that do not overlap, beside those of all
 * others. */
static void all_in_one_fence(void)
{
    int *base, *got = calloc((size_t)ranks, sizeof(int)), value = 7 + me;
    MPI_Win win = make_ints(2 * ranks, &base);
    for (int i = 0; i < ranks; i++)
        base[i] = 10 * me + i;
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < ranks; i++) {
        OK(MPI_Put(&value, 1, MPI_INT, i, ranks + me, 1, MPI_INT, win));
        OK(MPI_Get(&got[i], 1, MPI_INT, i, me, 1, MPI_INT, win));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int i = 0; i < ranks; i++) {
        EQ(base[ranks + i], 7 + i);
        EQ(got[i], 10 * i + me);
    }
    OK(MPI_Win_free(&win));
    free(got);
}

static const struct test cases[] = {
    CASE(free_waits_for_all), CASE(post_and_test_do_not_wait), CASE(epochs_of_two_windows),
    CASE(buffers_after_requests), CASE(windows_of_few), CASE(stores_and_syncs),
    CASE(all_in_one_fence), CASE(more_memory_than_there_is), CASE(addresses_are_added),
#if MPI_VERSION >= 4
    CASE(large_counts_of_nothing),
#endif
    CASE(window_that_stays),
};

MAIN(cases)
