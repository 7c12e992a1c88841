/* Messages go on while ranks wait in one-sided calls, and one-sided calls while ranks compute. */
#include <time.h>
#include "case.h"

enum { LARGE = 1 << 20 };

static char *out, *in;
static MPI_Request receipt;

/* A message that is too large to be sent before the receiver does its part. */
static void post_receipt(int from)
{
    out = malloc(LARGE);
    in = malloc(LARGE);
    memset(out, 'a' + me % 20, LARGE);
    memset(in, 0, LARGE);
    OK(MPI_Irecv(in, LARGE, MPI_CHAR, from, 9, MPI_COMM_WORLD, &receipt));
}

static void check_receipt(int from)
{
    OK(MPI_Wait(&receipt, MPI_STATUS_IGNORE));
    EQ(in[0], 'a' + from % 20);
    EQ(in[LARGE - 1], 'a' + from % 20);
    free(out);
    free(in);
}

/* Rank 0 sends before it comes to the fence in which the others wait already. */
static void send_to_a_rank_in_a_fence(void)
{
    int *base;
    MPI_Win win = make_ints(1, &base);
    if (me != 0)
        post_receipt(0);
    if (me == 0) {
        out = malloc(LARGE);
        memset(out, 'a', LARGE);
        for (int to = 1; to < ranks; to++)
            OK(MPI_Send(out, LARGE, MPI_CHAR, to, 9, MPI_COMM_WORLD));
        free(out);
    }
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    if (me != 0)
        check_receipt(0);
    OK(MPI_Win_free(&win));
}

/* Rank 0 holds the lock that rank 1 waits for, and lets it go after a send to rank 1. */
static void send_to_a_rank_in_a_lock(void)
{
    int *base, token = 0;
    MPI_Win win = make_ints(1, &base);
    if (me == 0 && ranks > 1) {
        out = malloc(LARGE);
        memset(out, 'a', LARGE);
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        MPI_Send(&token, 1, MPI_INT, 1, 8, MPI_COMM_WORLD);
        OK(MPI_Send(out, LARGE, MPI_CHAR, 1, 9, MPI_COMM_WORLD));
        OK(MPI_Win_unlock(0, win));
        free(out);
    } else if (me == 1) {
        post_receipt(0);
        MPI_Recv(&token, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        OK(MPI_Put(&token, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
        OK(MPI_Win_unlock(0, win));
        check_receipt(0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

/* Rank 1 waits for the access of rank 0, which sends first. */
static void send_to_a_rank_in_a_wait(void)
{
    int *base, zero = 0, one = 1, value = 5;
    MPI_Group world, origin, target;
    MPI_Win win = make_ints(1, &base);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &zero, &origin);
    if (me == 0 && ranks > 1) {
        MPI_Group_incl(world, 1, &one, &target);
        out = malloc(LARGE);
        memset(out, 'a', LARGE);
        OK(MPI_Win_start(target, 0, win));
        OK(MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, win));
        OK(MPI_Send(out, LARGE, MPI_CHAR, 1, 9, MPI_COMM_WORLD));
        OK(MPI_Win_complete(win));
        free(out);
        MPI_Group_free(&target);
    } else if (me == 1) {
        post_receipt(0);
        OK(MPI_Win_post(origin, 0, win));
        OK(MPI_Win_wait(win));
        EQ(base[0], 5);
        check_receipt(0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
    MPI_Group_free(&origin);
    MPI_Group_free(&world);
}

/* Rank 1 waits for the exposure of rank 0, which sends first. */
static void send_to_a_rank_in_a_start(void)
{
    int *base, zero = 0, one = 1, value = 6;
    MPI_Group world, group;
    MPI_Win win = make_ints(1, &base);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, me == 0 && ranks > 1 ? &one : &zero, &group);
    if (me == 0 && ranks > 1) {
        out = malloc(LARGE);
        memset(out, 'a', LARGE);
        OK(MPI_Send(out, LARGE, MPI_CHAR, 1, 9, MPI_COMM_WORLD));
        OK(MPI_Win_post(group, 0, win));
        OK(MPI_Win_wait(win));
        EQ(base[0], 6);
        free(out);
    } else if (me == 1) {
        post_receipt(0);
        OK(MPI_Win_start(group, 0, win));
        OK(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
        OK(MPI_Win_complete(win));
        check_receipt(0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
    MPI_Group_free(&group);
    MPI_Group_free(&world);
}

/* Rank 0 sends before it takes part in the making of a window, and in its end. */
static void send_to_a_rank_that_makes_a_window(void)
{
    MPI_Win win = MPI_WIN_NULL;
    char *base;
    for (int turn = 0; turn < 2; turn++) {
        if (me != 0)
            post_receipt(0);
        if (me == 0) {
            out = malloc(LARGE);
            memset(out, 'a', LARGE);
            for (int to = 1; to < ranks; to++)
                OK(MPI_Send(out, LARGE, MPI_CHAR, to, 9, MPI_COMM_WORLD));
            free(out);
        }
        if (turn == 0)
            OK(MPI_Win_allocate(1 << 16, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
        else
            OK(MPI_Win_free(&win));
        if (me != 0)
            check_receipt(0);
    }
}

static volatile double sink;

/* Computes for a while, without a call of MPI. */
static void compute(void)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        for (int i = 0; i < 10000; i++)
            sink += i;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 200);
}

/* A target that only computes is written, read and updated all the same. What is measured is not
 * time but that all is done before it comes back. */
static void target_that_computes(bool is_created)
{
    enum { MANY = 50 };
    static int memory[MANY];
    int *base = memory, value = 3, got = 0, old = 0;
    MPI_Win win;
    if (is_created)
        OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    else
        OK(MPI_Win_allocate(sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                            &win));
    memset(base, 0, sizeof memory);
    settle(win);
    if (me == 0) {
        compute();
    } else {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        for (int i = 0; i < MANY - 1; i++) {
            OK(MPI_Accumulate(&value, 1, MPI_INT, 0, i, 1, MPI_INT, MPI_SUM, win));
            OK(MPI_Win_flush(0, win));
            OK(MPI_Fetch_and_op(&value, &old, MPI_INT, 0, i, MPI_NO_OP, win));
            OK(MPI_Win_flush(0, win));
            CHECK(old >= 3);
            OK(MPI_Get(&got, 1, MPI_INT, 0, MANY - 1, 1, MPI_INT, win));
            OK(MPI_Win_flush(0, win));
            EQ(got, 0);
        }
        OK(MPI_Win_unlock(0, win));
    }
    settle(win);
    for (int i = 0; me == 0 && i < MANY - 1; i++)
        EQ(base[i], 3 * (ranks - 1));
    OK(MPI_Win_free(&win));
}

static void target_of_allocated_computes(void)
{
    target_that_computes(false);
}

static void target_of_created_computes(void)
{
    target_that_computes(true);
}

/* Collective calls and one-sided ones alternate on the same ranks. */
static void among_collectives(void)
{
    int *base, one = 1, sum;
    MPI_Win win = make_ints(1, &base);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 10; i++) {
        OK(MPI_Accumulate(&one, 1, MPI_INT, right(), 0, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_flush(right(), win));
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        EQ(sum, ranks);
        OK(MPI_Win_sync(win));
        EQ(base[0], i + 1);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

static const struct test cases[] = {
    CASE(send_to_a_rank_in_a_fence), CASE(send_to_a_rank_in_a_lock), CASE(send_to_a_rank_in_a_wait),
    CASE(send_to_a_rank_in_a_start), CASE(send_to_a_rank_that_makes_a_window),
    CASE(target_of_allocated_computes), CASE(target_of_created_computes), CASE(among_collectives),
};

MAIN(cases)
