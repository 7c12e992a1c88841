/* Transfers with a request, completed by every call that completes requests. */
#include "case.h"

static void put_and_wait(void)
{
    int *base, value = me + 1;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Win win = make_ints(4, &base);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, win));
    OK(MPI_Rput(&value, 1, MPI_INT, right(), 2, 1, MPI_INT, win, &request));
    CHECK(request != MPI_REQUEST_NULL);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(request == MPI_REQUEST_NULL);
    /* The buffer is the program's again; the target has the data after the unlock. */
    value = -1;
    OK(MPI_Win_unlock(right(), win));
    settle(win);
    EQ(base[2], left() + 1);
    OK(MPI_Win_free(&win));
}

/* A get is complete with its request: no flush is needed. */
static void get_and_wait(void)
{
    int *base, got[4] = { 0 };
    MPI_Request request;
    MPI_Win win = make_ints(4, &base);
    for (int i = 0; i < 4; i++)
        base[i] = me * 10 + i;
    settle(win);
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Rget(got, 4, MPI_INT, right(), 0, 4, MPI_INT, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < 4; i++)
        EQ(got[i], right() * 10 + i);
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

static void accumulate_and_wait(void)
{
    int *base, one = 1, old = -1;
    MPI_Request request;
    MPI_Win win = make_ints(1, &base);
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Raccumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Rget_accumulate(&one, 1, MPI_INT, &old, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win,
                           &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(old >= 1 && old < 2 * ranks);
    OK(MPI_Win_unlock_all(win));
    settle(win);
    if (me == 0)
        EQ(base[0], 2 * ranks);
    OK(MPI_Win_free(&win));
}

static void testing(void)
{
    int *base, got = 0, flag = 0;
    MPI_Request request;
    MPI_Win win = make_ints(1, &base);
    base[0] = me + 3;
    settle(win);
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Rget(&got, 1, MPI_INT, right(), 0, 1, MPI_INT, win, &request));
    while (!flag)
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    CHECK(request == MPI_REQUEST_NULL);
    EQ(got, right() + 3);
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

static void asking_for_the_state(void)
{
    int *base, got = 0, flag = 0;
    MPI_Request request;
    MPI_Win win = make_ints(1, &base);
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Rget(&got, 1, MPI_INT, right(), 0, 1, MPI_INT, win, &request));
    while (!flag)
        OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    CHECK(request != MPI_REQUEST_NULL);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

enum { MANY = 32 };

/* Gets of MANY ints, each by a request of its own. */
static MPI_Win begin_many(int *got, MPI_Request *requests)
{
    int *base;
    MPI_Win win = make_ints(MANY, &base);
    for (int i = 0; i < MANY; i++) {
        base[i] = me * 100 + i;
        got[i] = -1;
    }
    settle(win);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < MANY; i++)
        OK(MPI_Rget(&got[i], 1, MPI_INT, (me + i) % ranks, i, 1, MPI_INT, win, &requests[i]));
    return win;
}

static void end_many(MPI_Win win, const int *got)
{
    for (int i = 0; i < MANY; i++)
        EQ(got[i], (me + i) % ranks * 100 + i);
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

static void wait_for_all(void)
{
    int got[MANY];
    MPI_Request requests[MANY];
    MPI_Status statuses[MANY];
    MPI_Win win = begin_many(got, requests);
    OK(MPI_Waitall(MANY, requests, statuses));
    for (int i = 0; i < MANY; i++)
        CHECK(requests[i] == MPI_REQUEST_NULL);
    end_many(win, got);
}

static void wait_for_any(void)
{
    int got[MANY], at, seen[MANY] = { 0 };
    MPI_Request requests[MANY];
    MPI_Win win = begin_many(got, requests);
    for (int i = 0; i < MANY; i++) {
        OK(MPI_Waitany(MANY, requests, &at, MPI_STATUS_IGNORE));
        if (CHECK(at >= 0 && at < MANY))
            EQ(seen[at]++, 0);
    }
    OK(MPI_Waitany(MANY, requests, &at, MPI_STATUS_IGNORE));
    EQ(at, MPI_UNDEFINED);
    end_many(win, got);
}

static void wait_for_some(void)
{
    int got[MANY], places[MANY], count, left_over = MANY;
    MPI_Request requests[MANY];
    MPI_Win win = begin_many(got, requests);
    while (left_over > 0) {
        OK(MPI_Waitsome(MANY, requests, &count, places, MPI_STATUSES_IGNORE));
        if (!CHECK(count > 0))
            break;
        left_over -= count;
    }
    EQ(left_over, 0);
    end_many(win, got);
}

static void test_all_any_and_some(void)
{
    int got[MANY], places[MANY], count, flag = 0, at, done = 0;
    MPI_Request requests[MANY];
    MPI_Win win = begin_many(got, requests);
    while (!flag)
        OK(MPI_Testall(MANY, requests, &flag, MPI_STATUSES_IGNORE));
    end_many(win, got);
    win = begin_many(got, requests);
    while (done < MANY) {
        OK(MPI_Testany(MANY, requests, &at, &flag, MPI_STATUS_IGNORE));
        done += flag != 0;
    }
    end_many(win, got);
    win = begin_many(got, requests);
    for (done = 0; done < MANY; done += count)
        OK(MPI_Testsome(MANY, requests, &count, places, MPI_STATUSES_IGNORE));
    end_many(win, got);
}

/* One-sided requests together with those of messages in one array. */
static void mixed_with_messages(void)
{
    int *base, value = me + 1, got = 0, sent = me, received = -1, one = 1;
    MPI_Request requests[5];
    MPI_Win win = make_ints(4, &base);
    base[3] = me + 60;
    settle(win);
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Irecv(&received, 1, MPI_INT, left(), 3, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Rput(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win, &requests[1]));
    OK(MPI_Isend(&sent, 1, MPI_INT, right(), 3, MPI_COMM_WORLD, &requests[2]));
    OK(MPI_Rget(&got, 1, MPI_INT, right(), 3, 1, MPI_INT, win, &requests[3]));
    OK(MPI_Raccumulate(&one, 1, MPI_INT, right(), 1, 1, MPI_INT, MPI_SUM, win, &requests[4]));
    OK(MPI_Waitall(5, requests, MPI_STATUSES_IGNORE));
    EQ(received, left());
    EQ(got, right() + 60);
    OK(MPI_Win_unlock_all(win));
    settle(win);
    EQ(base[0], left() + 1);
    EQ(base[1], 1);
    OK(MPI_Win_free(&win));
}

/* The status of a one-sided request is empty but for its error. */
static void status(void)
{
    int *base, got, flag = 1;
    MPI_Request request;
    MPI_Status status;
    MPI_Win win = make_ints(1, &base);
    memset(&status, 0x5a, sizeof status);
    int untouched = status.MPI_ERROR;
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Rget(&got, 1, MPI_INT, right(), 0, 1, MPI_INT, win, &request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    EQ(flag, 0);
    /* Its source and its tag are undefined; a call that completes one request leaves the error as
     * it was. */
    CHECK(status.MPI_ERROR == untouched || status.MPI_ERROR == MPI_SUCCESS);
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Rput(&me, 1, MPI_INT, right(), 1, 1, MPI_INT, win, &request));
    status.MPI_ERROR = MPI_SUCCESS;
    OK(MPI_Waitall(1, &request, &status));
    EQ(status.MPI_ERROR, MPI_SUCCESS);
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

/* More requests at once than anyone would make. */
static void thousands(void)
{
    enum { THOUSANDS = 3000 };
    int *base, *got = calloc(THOUSANDS, sizeof *got);
    MPI_Request *requests = malloc(THOUSANDS * sizeof *requests);
    MPI_Win win = make_ints(1, &base);
    base[0] = me + 9;
    settle(win);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < THOUSANDS; i++)
        OK(MPI_Rget(&got[i], 1, MPI_INT, i % ranks, 0, 1, MPI_INT, win, &requests[i]));
    OK(MPI_Waitall(THOUSANDS, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < THOUSANDS; i++)
        EQ(got[i], i % ranks + 9);
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
    free(got);
    free(requests);
}

/* Datatypes on both sides of calls with a request. */
static void with_datatypes(void)
{
    int *base, out[3] = { me, me + 1, me + 2 }, back[9];
    MPI_Datatype every_third;
    MPI_Request request;
    MPI_Type_vector(3, 1, 3, MPI_INT, &every_third);
    OK(MPI_Type_commit(&every_third));
    MPI_Win win = make_ints(9, &base);
    memset(back, 0, sizeof back);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    OK(MPI_Rput(out, 3, MPI_INT, right(), 0, 1, every_third, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_flush(right(), win));
    OK(MPI_Rget(back, 1, every_third, right(), 0, 1, every_third, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Raccumulate(back, 1, every_third, right(), 1, 1, every_third, MPI_SUM, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_unlock(right(), win));
    settle(win);
    for (int i = 0; i < 3; i++) {
        EQ(back[3 * i], me + i);
        EQ(base[3 * i], left() + i);
        EQ(base[3 * i + 1], left() + i);
        EQ(base[3 * i + 2], 0);
    }
    OK(MPI_Type_free(&every_third));
    OK(MPI_Win_free(&win));
}

static const struct test cases[] = {
    CASE(put_and_wait), CASE(get_and_wait), CASE(accumulate_and_wait), CASE(testing),
    CASE(asking_for_the_state), CASE(wait_for_all), CASE(wait_for_any), CASE(wait_for_some),
    CASE(test_all_any_and_some), CASE(mixed_with_messages), CASE(status),
    CASE(thousands), CASE(with_datatypes),
};

MAIN(cases)
