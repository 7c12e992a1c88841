/* Ranks on one processor that hand a word round, and poll it by every call that fetches: whoever
 * finds nothing new lets the others run after a few looks, and not at the end of its slice of the
 * scheduler's time. So each hop takes few looks. */
#define _GNU_SOURCE
#include <sched.h>
#include "case.h"

/* In a slice a rank looks ten thousand times and more. */
enum { ROUNDS = 100, LOOKS_MAX = 1000 };

static MPI_Win win;

static int get(void)
{
    int held;
    MPI_Get(&held, 1, MPI_INT, me, 0, 1, MPI_INT, win);
    MPI_Win_flush(me, win);
    return held;
}

static int fetch_and_op(void)
{
    int held, nothing = 0;
    MPI_Fetch_and_op(&nothing, &held, MPI_INT, me, 0, MPI_NO_OP, win);
    MPI_Win_flush(me, win);
    return held;
}

static int fetch_and_add(void)
{
    int held, nothing = 0;
    MPI_Fetch_and_op(&nothing, &held, MPI_INT, me, 0, MPI_SUM, win);
    MPI_Win_flush(me, win);
    return held;
}

static int get_accumulate(void)
{
    int held, nothing = 0;
    MPI_Get_accumulate(&nothing, 1, MPI_INT, &held, 1, MPI_INT, me, 0, 1, MPI_INT, MPI_NO_OP, win);
    MPI_Win_flush(me, win);
    return held;
}

static int compare_and_swap(void)
{
    int held, never = -1;
    MPI_Compare_and_swap(&never, &never, &held, MPI_INT, me, 0, win);
    MPI_Win_flush(me, win);
    return held;
}

static void stay_on_one_processor(void)
{
    cpu_set_t allowed, one;
    EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int first = 0;
    while (!CPU_ISSET(first, &allowed))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

static void ring(int (*look)(void))
{
    int *base;
    long looks = 0;
    stay_on_one_processor();
    win = make_ints(1, &base);
    OK(MPI_Win_lock_all(0, win));
    for (int round = 0; round < ROUNDS; round++) {
        int turn = round * ranks + me, next = turn + 1;
        do
            looks++;
        while (look() < turn);
        OK(MPI_Accumulate(&next, 1, MPI_INT, right(), 0, 1, MPI_INT, MPI_REPLACE, win));
        OK(MPI_Win_flush(right(), win));
    }
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    EQ(base[0], me == 0 ? ROUNDS * ranks : (ROUNDS - 1) * ranks + me);
    if (me == 0)
        printf("%s: %ld looks for each hop\n", running, looks / (ROUNDS * ranks));
    CHECK(looks < (long)LOOKS_MAX * ROUNDS * ranks);
    OK(MPI_Win_free(&win));
}

#define RING(call) static void by_##call(void) { ring(call); }
RING(get)
RING(fetch_and_op)
RING(fetch_and_add)
RING(get_accumulate)
RING(compare_and_swap)

static const struct test cases[] = {
    CASE(by_get), CASE(by_fetch_and_op), CASE(by_fetch_and_add), CASE(by_get_accumulate),
    CASE(by_compare_and_swap),
};

MAIN(cases)
