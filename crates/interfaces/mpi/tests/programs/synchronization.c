/* Epochs of every kind, with every assertion, alone and one after the other. */
#include <sched.h>
#include "case.h"

static void fences_with_every_assertion(void)
{
    static const int before[] = { 0, MPI_MODE_NOPRECEDE, MPI_MODE_NOPRECEDE | MPI_MODE_NOPUT };
    static const int after[] = { 0, MPI_MODE_NOSTORE, MPI_MODE_NOSUCCEED,
                                 MPI_MODE_NOSUCCEED | MPI_MODE_NOSTORE };
    int *base, got, value;
    MPI_Win win = make_ints(2, &base);
    for (int i = 0; i < COUNT(before); i++)
        for (int k = 0; k < COUNT(after); k++) {
            bool puts = (before[i] & MPI_MODE_NOPUT) == 0;
            value = i * 10 + k + me;
            base[0] = value;
            OK(MPI_Win_fence(before[i], win));
            OK(MPI_Get(&got, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
            if (puts)
                OK(MPI_Put(&value, 1, MPI_INT, right(), 1, 1, MPI_INT, win));
            OK(MPI_Win_fence(after[k], win));
            EQ(got, i * 10 + k + right());
            if (puts)
                EQ(base[1], i * 10 + k + left());
            if ((after[k] & MPI_MODE_NOSUCCEED) == 0)
                OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
        }
    OK(MPI_Win_free(&win));
}

/* A value goes round by one rank with every fence. */
static void fences_in_a_row(void)
{
    int *base, out;
    MPI_Win win = make_ints(1, &base);
    base[0] = me;
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    for (int i = 0; i < 20; i++) {
        out = base[0];
        OK(MPI_Win_fence(0, win));
        OK(MPI_Put(&out, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
        OK(MPI_Win_fence(0, win));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    EQ(base[0], ((me - 20) % ranks + ranks) % ranks);
    OK(MPI_Win_free(&win));
}

/* What a rank stores itself between fences others get after the next. */
static void stores_between_fences(void)
{
    int *base, got;
    MPI_Win win = make_ints(1, &base);
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 10; i++) {
        base[0] = me * 100 + i;
        OK(MPI_Win_fence(0, win));
        OK(MPI_Get(&got, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
        OK(MPI_Win_fence(0, win));
        EQ(got, right() * 100 + i);
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPI_Win_free(&win));
}

static MPI_Group group_of(const int *members, int count)
{
    MPI_Group world, group;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, count, members, &group);
    MPI_Group_free(&world);
    return group;
}

/* Every rank exposes to its left neighbour and accesses its right one. */
static void post_start_ring(int post_assertion, int start_assertion, bool posts_first)
{
    int *base, value = me + 1, from = left(), to = right();
    MPI_Group origins = group_of(&from, 1), targets = group_of(&to, 1);
    MPI_Win win = make_ints(2, &base);
    for (int i = 0; i < 5; i++) {
        OK(MPI_Win_post(origins, post_assertion, win));
        if (posts_first)
            MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_Win_start(targets, start_assertion, win));
        OK(MPI_Put(&value, 1, MPI_INT, to, 1, 1, MPI_INT, win));
        OK(MPI_Accumulate(&value, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_complete(win));
        OK(MPI_Win_wait(win));
        EQ(base[0], (i + 1) * (left() + 1));
        EQ(base[1], left() + 1);
    }
    OK(MPI_Win_free(&win));
    MPI_Group_free(&origins);
    MPI_Group_free(&targets);
}

static void post_start_complete_wait(void)
{
    post_start_ring(0, 0, false);
}

static void post_and_start_with_assertions(void)
{
    post_start_ring(MPI_MODE_NOSTORE, 0, false);
    post_start_ring(MPI_MODE_NOCHECK, MPI_MODE_NOCHECK, true);
    post_start_ring(MPI_MODE_NOCHECK | MPI_MODE_NOSTORE, MPI_MODE_NOCHECK, true);
}

/* An exposure in which nothing is put. */
static void post_without_puts(void)
{
    int *base, got = 0, from = left(), to = right();
    MPI_Group origins = group_of(&from, 1), targets = group_of(&to, 1);
    MPI_Win win = make_ints(1, &base);
    base[0] = me + 7;
    OK(MPI_Win_post(origins, MPI_MODE_NOPUT, win));
    OK(MPI_Win_start(targets, 0, win));
    OK(MPI_Get(&got, 1, MPI_INT, to, 0, 1, MPI_INT, win));
    OK(MPI_Win_complete(win));
    OK(MPI_Win_wait(win));
    EQ(got, right() + 7);
    OK(MPI_Win_free(&win));
    MPI_Group_free(&origins);
    MPI_Group_free(&targets);
}

static void post_and_test(void)
{
    int *base, value = me + 1, from = left(), to = right(), flag = 0;
    MPI_Group origins = group_of(&from, 1), targets = group_of(&to, 1);
    MPI_Win win = make_ints(1, &base);
    for (int i = 0; i < 3; i++) {
        OK(MPI_Win_post(origins, 0, win));
        MPI_Barrier(MPI_COMM_WORLD);
        /* No rank has begun its access yet. */
        OK(MPI_Win_test(win, &flag));
        EQ(flag, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_Win_start(targets, 0, win));
        OK(MPI_Put(&value, 1, MPI_INT, to, 0, 1, MPI_INT, win));
        OK(MPI_Win_complete(win));
        for (flag = 0; !flag;)
            OK(MPI_Win_test(win, &flag));
        EQ(base[0], left() + 1);
    }
    OK(MPI_Win_free(&win));
    MPI_Group_free(&origins);
    MPI_Group_free(&targets);
}

static void post_and_start_of_all(void)
{
    int *base, value = 1;
    MPI_Group all;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Win win = make_ints(1, &base);
    for (int i = 0; i < 5; i++) {
        OK(MPI_Win_post(all, 0, win));
        OK(MPI_Win_start(all, 0, win));
        for (int to = 0; to < ranks; to++)
            OK(MPI_Accumulate(&value, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_complete(win));
        OK(MPI_Win_wait(win));
        EQ(base[0], (i + 1) * ranks);
    }
    OK(MPI_Win_free(&win));
    MPI_Group_free(&all);
}

static void post_and_start_of_none(void)
{
    int *base, value = 3, to = right(), from = left();
    MPI_Win win = make_ints(1, &base);
    OK(MPI_Win_post(MPI_GROUP_EMPTY, 0, win));
    OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, win));
    OK(MPI_Win_complete(win));
    OK(MPI_Win_wait(win));
    /* And a real one behind it. */
    MPI_Group origins = group_of(&from, 1), targets = group_of(&to, 1);
    OK(MPI_Win_post(origins, 0, win));
    OK(MPI_Win_start(targets, 0, win));
    OK(MPI_Put(&value, 1, MPI_INT, to, 0, 1, MPI_INT, win));
    OK(MPI_Win_complete(win));
    OK(MPI_Win_wait(win));
    EQ(base[0], 3);
    OK(MPI_Win_free(&win));
    MPI_Group_free(&origins);
    MPI_Group_free(&targets);
}

/* Even ranks expose to all odd ones, which access them all. */
static void groups_of_different_sizes(void)
{
    int *base, value = me + 1, evens[64], odds[64], even_count = 0, odd_count = 0, sum = 0;
    for (int i = 0; i < ranks && i < 128; i++) {
        if (i % 2 == 0)
            evens[even_count++] = i;
        else
            odds[odd_count++] = i;
    }
    MPI_Group even = group_of(evens, even_count), odd = group_of(odds, odd_count);
    MPI_Win win = make_ints(1, &base);
    if (me % 2 == 0) {
        OK(MPI_Win_post(odd, 0, win));
        OK(MPI_Win_wait(win));
        for (int i = 0; i < odd_count; i++)
            sum += odds[i] + 1;
        EQ(base[0], sum);
    } else {
        OK(MPI_Win_start(even, 0, win));
        for (int i = 0; i < even_count; i++)
            OK(MPI_Accumulate(&value, 1, MPI_INT, evens[i], 0, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_complete(win));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
    MPI_Group_free(&even);
    MPI_Group_free(&odd);
}

/* Rank 0 exposes to everyone, again and again; origins come when they like. */
static void one_target_many_origins(void)
{
    int *base, value = me, others[64], zero = 0, count = 0;
    for (int i = 1; i < ranks && i < 65; i++)
        others[count++] = i;
    MPI_Group origins = group_of(others, count), target = group_of(&zero, 1);
    MPI_Win win = make_ints(ranks, &base);
    for (int round = 0; round < 10; round++)
        if (me == 0) {
            OK(MPI_Win_post(origins, 0, win));
            OK(MPI_Win_wait(win));
            for (int i = 1; i < ranks; i++)
                EQ(base[i], i + round);
        } else {
            value = me + round;
            OK(MPI_Win_start(target, 0, win));
            OK(MPI_Put(&value, 1, MPI_INT, 0, me, 1, MPI_INT, win));
            OK(MPI_Win_complete(win));
        }
    OK(MPI_Win_free(&win));
    MPI_Group_free(&origins);
    MPI_Group_free(&target);
}

static void exclusive_locks_exclude(void)
{
    int *base, value;
    MPI_Win win = make_ints(1, &base);
    for (int i = 0; i < 25; i++) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        OK(MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
        OK(MPI_Win_flush(0, win));
        value++;
        OK(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
        OK(MPI_Win_unlock(0, win));
    }
    settle(win);
    if (me == 0)
        EQ(base[0], 25 * ranks);
    OK(MPI_Win_free(&win));
}

/* All ranks hold a shared lock at the same time, or the barrier would never end. */
static void shared_locks_are_shared(void)
{
    int *base, got = -1;
    MPI_Win win = make_ints(1, &base);
    for (int i = 0; i < 3; i++) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_Get(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
        OK(MPI_Win_unlock(0, win));
        EQ(got, 0);
    }
    OK(MPI_Win_lock_all(0, win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

static void shared_and_exclusive_locks(void)
{
    int *base, pair[2], values[2];
    MPI_Win win = make_ints(2, &base);
    for (int i = 0; i < 20; i++) {
        if ((me + i) % ranks == 0) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
            values[0] = values[1] = me * 100 + i;
            OK(MPI_Put(&values[0], 1, MPI_INT, 0, 0, 1, MPI_INT, win));
            OK(MPI_Win_flush(0, win));
            OK(MPI_Put(&values[1], 1, MPI_INT, 0, 1, 1, MPI_INT, win));
        } else {
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
            OK(MPI_Get(pair, 2, MPI_INT, 0, 0, 2, MPI_INT, win));
            OK(MPI_Win_flush(0, win));
            EQ(pair[0], pair[1]);
        }
        OK(MPI_Win_unlock(0, win));
    }
    OK(MPI_Win_free(&win));
}

static void locks_that_need_no_check(void)
{
    int *base, value = me + 1;
    MPI_Win win = make_ints(ranks, &base);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, MPI_MODE_NOCHECK, win));
    OK(MPI_Put(&value, 1, MPI_INT, me, 0, 1, MPI_INT, win));
    OK(MPI_Win_unlock(me, win));
    EQ(base[0], me + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, right(), MPI_MODE_NOCHECK, win));
    OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
    OK(MPI_Win_unlock(right(), win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    OK(MPI_Win_sync(win));
    EQ(base[0], left() + 1);
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

/* Locks of several targets at once, released in another order. */
static void locks_of_several_targets(void)
{
    int *base, value = 1;
    MPI_Win win = make_ints(1, &base);
    for (int i = 0; i < 5; i++) {
        for (int to = 0; to < ranks; to++)
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win));
        for (int to = 0; to < ranks; to++)
            OK(MPI_Accumulate(&value, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win));
        for (int k = 0; k < ranks; k++)
            OK(MPI_Win_unlock((k + me) % ranks, win));
    }
    settle(win);
    EQ(base[0], 5 * ranks);
    OK(MPI_Win_free(&win));
}

/* Two windows that are locked at the same time. */
static void locks_of_two_windows(void)
{
    int *a, *b, value = me + 1;
    MPI_Win first = make_ints(1, &a), second = make_ints(1, &b);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, first));
    OK(MPI_Win_lock_all(0, second));
    OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, first));
    OK(MPI_Put(&value, 1, MPI_INT, left(), 0, 1, MPI_INT, second));
    OK(MPI_Win_unlock(right(), first));
    OK(MPI_Win_unlock_all(second));
    settle(first);
    settle(second);
    EQ(a[0], left() + 1);
    EQ(b[0], right() + 1);
    OK(MPI_Win_free(&first));
    OK(MPI_Win_free(&second));
}

static void lock_all_against_exclusive(void)
{
    int *base, value, one = 1;
    MPI_Win win = make_ints(1, &base);
    for (int i = 0; i < 15; i++)
        if ((i + me) % 2 == 0) {
            OK(MPI_Win_lock_all(0, win));
            OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
            OK(MPI_Win_unlock_all(win));
        } else {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
            OK(MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
            OK(MPI_Win_flush(0, win));
            value++;
            OK(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
            OK(MPI_Win_unlock(0, win));
        }
    settle(win);
    if (me == 0)
        EQ(base[0], 15 * ranks);
    OK(MPI_Win_free(&win));
}

/* After a flush, a message may tell the target that the data is there. */
static void every_flush(void)
{
    int *base, value, token = 0;
    MPI_Win win = make_ints(1, &base);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 12; i++) {
        value = me * 100 + i;
        OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
        if (i % 4 == 2)
            OK(MPI_Win_flush_local(right(), win));
        if (i % 4 == 3)
            OK(MPI_Win_flush_local_all(win));
        if (i % 2 == 0)
            OK(MPI_Win_flush(right(), win));
        else
            OK(MPI_Win_flush_all(win));
        MPI_Sendrecv(&token, 1, MPI_INT, right(), 2, &token, 1, MPI_INT, left(), 2, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        OK(MPI_Win_sync(win));
        EQ(base[0], left() * 100 + i);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

/* A rank waits for a word that another puts, without any other message. */
static void waiting_for_a_put(void)
{
    int *base, value = 1, seen;
    MPI_Win win = make_ints(2, &base);
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Accumulate(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, MPI_REPLACE, win));
    OK(MPI_Win_flush(right(), win));
    do {
        OK(MPI_Fetch_and_op(NULL, &seen, MPI_INT, me, 0, MPI_NO_OP, win));
        OK(MPI_Win_flush(me, win));
    } while (seen == 0);
    EQ(seen, 1);
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

/* The same by loads of its own memory. */
static void waiting_by_loads(void)
{
    int *base, value = 1;
    MPI_Win win = make_ints(2, &base);
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
    OK(MPI_Win_flush(right(), win));
    while (*(volatile int *)base == 0) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        OK(MPI_Win_sync(win));
    }
    EQ(base[0], 1);
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

/* Epochs of every kind one after the other on the same window. */
static void one_kind_after_the_other(void)
{
    int *base, one = 1, from = left(), to = right();
    MPI_Group origins = group_of(&from, 1), targets = group_of(&to, 1);
    MPI_Win win = make_ints(1, &base);
    for (int i = 0; i < 4; i++) {
        OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
        OK(MPI_Accumulate(&one, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
        OK(MPI_Win_post(origins, 0, win));
        OK(MPI_Win_start(targets, 0, win));
        OK(MPI_Accumulate(&one, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_complete(win));
        OK(MPI_Win_wait(win));
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win));
        OK(MPI_Accumulate(&one, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_unlock(to, win));
        OK(MPI_Win_lock_all(0, win));
        OK(MPI_Accumulate(&one, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_unlock_all(win));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    settle(win);
    EQ(base[0], 16);
    OK(MPI_Win_free(&win));
    MPI_Group_free(&origins);
    MPI_Group_free(&targets);
}

/* A writer changes two words of rank 0 one after the other, and rank 0 reads them by loads: where
 * lock_all locks its own part, they are equal. */
static void load_beside_a_writer(MPI_Win win, const volatile int *base, bool reads, bool writes)
{
    int torn = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i < 2000; i++)
        if (reads) {
            OK(MPI_Win_lock_all(0, win));
            int first = base[0];
            sched_yield();
            torn += first != base[1];
            OK(MPI_Win_unlock_all(win));
        } else if (writes) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
            OK(MPI_Put(&i, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
            OK(MPI_Win_flush(0, win));
            OK(MPI_Put(&i, 1, MPI_INT, 0, 1, 1, MPI_INT, win));
            OK(MPI_Win_unlock(0, win));
        }
    EQ(torn, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void lock_all_locks_the_own_part(void)
{
    int *base;
    MPI_Win win = make_ints(2, &base);
    load_beside_a_writer(win, base, me == 0, me == 1);
    OK(MPI_Win_free(&win));
}

/* Of a shared window every member loads every part. */
static void lock_all_locks_every_shared_part(void)
{
    int *base, unit, mine;
    MPI_Aint bytes;
    MPI_Win win;
    MPI_Comm near = node_comm();
    MPI_Comm_rank(near, &mine);
    OK(MPI_Win_allocate_shared(SMALLEST, sizeof(int), MPI_INFO_NULL, near, &base, &win));
    base[0] = base[1] = 0;
    settle_in(win, near);
    OK(MPI_Win_shared_query(win, 0, &bytes, &unit, &base));
    load_beside_a_writer(win, base, mine == 1, mine == 0);
    OK(MPI_Win_free(&win));
    MPI_Comm_free(&near);
}

static const struct test cases[] = {
    CASE(fences_with_every_assertion), CASE(fences_in_a_row), CASE(stores_between_fences),
    CASE(post_start_complete_wait), CASE(post_and_start_with_assertions), CASE(post_without_puts),
    CASE(post_and_test), CASE(post_and_start_of_all), CASE(post_and_start_of_none),
    CASE(groups_of_different_sizes), CASE(one_target_many_origins), CASE(exclusive_locks_exclude),
    CASE(shared_locks_are_shared), CASE(shared_and_exclusive_locks),
    CASE(locks_that_need_no_check), CASE(locks_of_several_targets), CASE(locks_of_two_windows),
    CASE(lock_all_against_exclusive), CASE(every_flush), CASE(waiting_for_a_put),
    CASE(waiting_by_loads), CASE(one_kind_after_the_other),
    CASE(lock_all_locks_the_own_part), CASE(lock_all_locks_every_shared_part),
};

MAIN(cases)
