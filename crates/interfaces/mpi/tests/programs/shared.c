/* Shared and dynamic windows, and windows over communicators of every kind. */
#define _GNU_SOURCE     /* for processors */
#include "case.h"
#include <sched.h>
#include <time.h>

static MPI_Win make_shared(MPI_Comm comm, MPI_Aint bytes, bool is_apart, int **base)
{
    MPI_Info info;
    MPI_Win win;
    MPI_Info_create(&info);
    if (is_apart)
        MPI_Info_set(info, "alloc_shared_noncontig", "true");
    OK(MPI_Win_allocate_shared(bytes, sizeof(int), info, comm, base, &win));
    MPI_Info_free(&info);
    return win;
}

/* Stores to the right neighbour's part, loads from the left one's. */
static void store_and_load(bool is_apart)
{
    MPI_Comm near = node_comm();
    int rank, size, *base, *other, unit;
    MPI_Aint bytes;
    MPI_Comm_rank(near, &rank);
    MPI_Comm_size(near, &size);
    MPI_Win win = make_shared(near, 16 * sizeof(int), is_apart, &base);
    for (int i = 0; i < 16; i++)
        base[i] = rank;
    settle_in(win, near);
    for (int peer = 0; peer < size; peer++) {
        OK(MPI_Win_shared_query(win, peer, &bytes, &unit, &other));
        EQ(bytes, 16 * sizeof(int));
        EQ(unit, sizeof(int));
        for (int i = 0; i < 16; i++)
            EQ(other[i], peer);
        if (!is_apart)
            EQ(other - base, (peer - rank) * 16);
    }
    settle_in(win, near);
    OK(MPI_Win_shared_query(win, (rank + 1) % size, &bytes, &unit, &other));
    for (int i = 0; i < 16; i++)
        other[i] = 100 * rank + i;
    settle_in(win, near);
    for (int i = 0; i < 16; i++)
        EQ(base[i], 100 * ((rank + size - 1) % size) + i);
    check_ring(win, near, base, 16, 0);
    OK(MPI_Win_free(&win));
    MPI_Comm_free(&near);
}

static void shared_contiguous(void)
{
    store_and_load(false);
}

static void shared_apart(void)
{
    store_and_load(true);
}

/* Sizes differ, some are zero; MPI_PROC_NULL finds the first that is not. */
static void shared_with_mixed_sizes(void)
{
    MPI_Comm near = node_comm();
    int rank, size, *base, *other, *first, unit;
    MPI_Aint bytes;
    MPI_Comm_rank(near, &rank);
    MPI_Comm_size(near, &size);
    for (int empty = 0; empty < size; empty++) {
        MPI_Aint mine = rank == empty ? 0 : (MPI_Aint)sizeof(int) * 4 * (rank + 1);
        MPI_Win win = make_shared(near, mine, false, &base);
        int position = 0;
        OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &first));
        if (size > 1)
            EQ(bytes, sizeof(int) * 4 * (empty == 0 ? 2 : 1));
        for (int peer = 0; peer < size; peer++) {
            OK(MPI_Win_shared_query(win, peer, &bytes, &unit, &other));
            EQ(bytes, peer == empty ? 0 : sizeof(int) * 4 * (size_t)(peer + 1));
            if (bytes > 0)
                EQ(other - first, position);
            position += (int)(bytes / (MPI_Aint)sizeof(int));
        }
        OK(MPI_Win_free(&win));
    }
    MPI_Comm_free(&near);
}

static void shared_of_the_first_alone(void)
{
    MPI_Comm near = node_comm();
    int rank, size, *base, *all, unit;
    MPI_Aint bytes;
    MPI_Comm_rank(near, &rank);
    MPI_Comm_size(near, &size);
    MPI_Win win = make_shared(near, rank == 0 ? (MPI_Aint)sizeof(int) * size : 0, false, &base);
    OK(MPI_Win_shared_query(win, 0, &bytes, &unit, &all));
    EQ(bytes, (MPI_Aint)sizeof(int) * size);
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    all[rank] = rank + 1;
    OK(MPI_Win_sync(win));
    MPI_Barrier(near);
    OK(MPI_Win_sync(win));
    for (int i = 0; i < size; i++)
        EQ(all[i], i + 1);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    MPI_Comm_free(&near);
}

/* One-sided updates and loads meet in the same memory. */
static void shared_accumulates_and_loads(void)
{
    MPI_Comm near = node_comm();
    int rank, size, *base, one = 1, unit, *first;
    MPI_Aint bytes;
    MPI_Comm_rank(near, &rank);
    MPI_Comm_size(near, &size);
    MPI_Win win = make_shared(near, 4 * sizeof(int), false, &base);
    memset(base, 0, 4 * sizeof(int));
    settle_in(win, near);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 50; i++)
        OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_flush_all(win));
    MPI_Barrier(near);
    OK(MPI_Win_sync(win));
    OK(MPI_Win_shared_query(win, 0, &bytes, &unit, &first));
    EQ(first[1], 50 * size);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    MPI_Comm_free(&near);
}

/* All parts are memory of the first member, and what was combined with another member's is there
 * after a flush of that one. */
static void shared_accumulates_to_the_last(void)
{
    MPI_Comm near = node_comm();
    int rank, size, *base, *last, one = 1, unit;
    MPI_Aint bytes;
    MPI_Comm_rank(near, &rank);
    MPI_Comm_size(near, &size);
    MPI_Win win = make_shared(near, 4 * sizeof(int), false, &base);
    memset(base, 0, 4 * sizeof(int));
    settle_in(win, near);
    OK(MPI_Win_shared_query(win, size - 1, &bytes, &unit, &last));
    for (int turn = 0; turn < size; turn++) {
        OK(MPI_Win_lock_all(0, win));
        for (int i = 1; turn == rank && i <= 50; i++) {
            OK(MPI_Accumulate(&one, 1, MPI_INT, size - 1, 1, 1, MPI_INT, MPI_SUM, win));
            OK(MPI_Win_flush(size - 1, win));
            EQ(last[1], 50 * rank + i);
        }
        MPI_Barrier(near);
        OK(MPI_Win_unlock_all(win));
    }
    OK(MPI_Win_free(&win));
    MPI_Comm_free(&near);
}

/* Keeps this rank on one of two processors; where there are fewer, it returns false. */
static bool stay_on(int number, cpu_set_t *before)
{
    cpu_set_t one;
    if (sched_getaffinity(0, sizeof *before, before) != 0 || CPU_COUNT(before) < 2)
        return false;
    CPU_ZERO(&one);
    for (int at = 0, found = 0; found <= number; at++)
        if (CPU_ISSET(at, before) && found++ == number)
            CPU_SET(at, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

static int complete_by_sync(int target, MPI_Win win)
{
    (void)target;
    return MPI_Win_sync(win);
}

/* Two members store to each other's part at the same moment, and look at their own after a call
 * that completes stores: one of the two finds what the other has stored. */
static void store_and_look(int (*complete)(int target, MPI_Win win))
{
    enum { ROUND_MAX = 100000, TIME_S = 3, OVER = -1, LINE = 16, COLD = 8 << 20 };
    volatile int *cold = malloc(COLD * sizeof *cold);
    MPI_Comm near = node_comm();
    int rank, size, *base, *theirs, unit, stale = 0;
    MPI_Aint bytes;
    MPI_Comm_rank(near, &rank);
    MPI_Comm_size(near, &size);
    MPI_Win win = make_shared(near, 4 * LINE * sizeof(int), false, &base);
    memset(base, 0, 4 * LINE * sizeof(int));
    settle_in(win, near);
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Win_shared_query(win, rank == 0 ? size - 1 : 0, &bytes, &unit, &theirs));
    int *go = base + LINE, *found = base + 2 * LINE, *done = base + 3 * LINE;
    time_t begin = time(NULL);
    cpu_set_t processors;
    bool is_first = rank == 0, takes_part = size > 1 && (is_first || rank == size - 1);
    /* Open MPI may have bound a rank to one processor. */
    bool stays = takes_part && stay_on(!is_first, &processors);
    int is_ready = stays || !takes_part, are_ready;
    MPI_Allreduce(&is_ready, &are_ready, 1, MPI_INT, MPI_MIN, near);
    takes_part = takes_part && are_ready;
    for (int round = 1; takes_part; round++) {
        int begins = time(NULL) - begin < TIME_S && round < ROUND_MAX ? round : OVER;
        if (is_first) {
            __atomic_store_n(theirs + LINE, begins, __ATOMIC_RELEASE);
            /* The other one takes a while to see it. */
            for (volatile int i = 0; i < round % 256; i++)
                continue;
        } else {
            begins = 0;
            for (int i = 1; begins != round && begins != OVER; i++) {
                begins = __atomic_load_n(go, __ATOMIC_ACQUIRE);
                if (i % 1000 == 0)
                    sched_yield();
            }
        }
        if (begins == OVER)
            break;
        /* Stores leave a processor in order, and these take a while. */
        for (long i = 0; i < 8; i++)
            cold[(round * 8 + i) * 15838 % COLD] = round;
        __atomic_store_n(theirs, round, __ATOMIC_RELAXED);
        if (complete(rank, win) != MPI_SUCCESS)
            stale++;
        int mine = __atomic_load_n(base, __ATOMIC_RELAXED);
        if (!is_first) {
            theirs[2 * LINE] = mine;
            __atomic_store_n(theirs + 3 * LINE, round, __ATOMIC_RELEASE);
            continue;
        }
        for (int i = 1; __atomic_load_n(done, __ATOMIC_ACQUIRE) != round; i++)
            if (i % 1000 == 0)
                sched_yield();
        stale += mine != round && *found != round;
    }
    if (stays)
        sched_setaffinity(0, sizeof processors, &processors);
    free((void *)cold);
    EQ(stale, 0);
    MPI_Barrier(near);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    MPI_Comm_free(&near);
}

static void shared_stores_and_syncs(void)
{
    store_and_look(complete_by_sync);
}

static void shared_stores_and_flushes(void)
{
    store_and_look(MPI_Win_flush);
}

/* A dynamic window's displacements are addresses, which its owner tells. */
static MPI_Aint address_of(const void *memory)
{
    MPI_Aint address;
    OK(MPI_Get_address(memory, &address));
    return address;
}

static MPI_Aint address_at_right(const void *memory)
{
    MPI_Aint mine = address_of(memory), theirs;
    MPI_Sendrecv(&mine, 1, MPI_AINT, left(), 1, &theirs, 1, MPI_AINT, right(), 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return theirs;
}

static MPI_Win make_dynamic(void)
{
    MPI_Win win;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    return win;
}

static void ring_over_attached(MPI_Win win, int *memory, int count)
{
    OK(MPI_Win_attach(win, memory, (MPI_Aint)sizeof(int) * count));
    MPI_Aint there = address_at_right(memory);
    int *out = malloc((size_t)count * sizeof *out), *back = malloc((size_t)count * sizeof *back);
    for (int i = 0; i < count; i++)
        out[i] = me * 1000 + i;
    settle(win);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    OK(MPI_Put(out, count, MPI_INT, right(), there, count, MPI_INT, win));
    OK(MPI_Win_flush(right(), win));
    OK(MPI_Get(back, count, MPI_INT, right(), there, count, MPI_INT, win));
    OK(MPI_Win_unlock(right(), win));
    SAME(back, out, (size_t)count * sizeof *out);
    settle(win);
    for (int i = 0; i < count; i++)
        EQ(memory[i], left() * 1000 + i);
    settle(win);
    OK(MPI_Win_detach(win, memory));
    free(out);
    free(back);
}

static int static_memory[32];

static void dynamic_over_every_memory(void)
{
    int stack[32], *heap = malloc(sizeof stack), *special;
    OK(MPI_Alloc_mem(sizeof stack, MPI_INFO_NULL, &special));
    MPI_Win win = make_dynamic();
    ring_over_attached(win, stack, 32);
    ring_over_attached(win, heap, 32);
    ring_over_attached(win, static_memory, 32);
    ring_over_attached(win, special, 32);
    OK(MPI_Win_free(&win));
    free(heap);
    OK(MPI_Free_mem(special));
}

static void dynamic_attached_again(void)
{
    MPI_Win win = make_dynamic();
    for (int i = 0; i < 10; i++) {
        int *memory = malloc((size_t)(i + 1) * 16 * sizeof *memory);
        ring_over_attached(win, memory, (i + 1) * 16);
        free(memory);
    }
    OK(MPI_Win_free(&win));
}

/* Many pieces of memory at once, some next to each other, one transfer into each. */
static void dynamic_with_many_pieces(void)
{
    enum { PIECES = 12, EACH = 8 };
    int *pieces[PIECES], *block = calloc(PIECES / 2 * EACH, sizeof *block), value;
    MPI_Aint there[PIECES];
    MPI_Win win = make_dynamic();
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = i % 2 == 0 ? block + i / 2 * EACH : calloc(EACH, sizeof(int));
        OK(MPI_Win_attach(win, pieces[i], EACH * sizeof(int)));
        there[i] = address_at_right(pieces[i]);
    }
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < PIECES; i++) {
        value = me * 100 + i;
        OK(MPI_Accumulate(&value, 1, MPI_INT, right(), MPI_Aint_add(there[i], 3 * sizeof(int)), 1,
                          MPI_INT, MPI_SUM, win));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int i = 0; i < PIECES; i++)
        for (int k = 0; k < EACH; k++)
            EQ(pieces[i][k], k == 3 ? left() * 100 + i : 0);
    for (int i = PIECES - 1; i >= 0; i--)
        OK(MPI_Win_detach(win, pieces[i]));
    for (int i = 1; i < PIECES; i += 2)
        free(pieces[i]);
    free(block);
    OK(MPI_Win_free(&win));
}

/* A target that attaches while an origin has the window locked. */
static void dynamic_attached_in_an_epoch(void)
{
    MPI_Win win = make_dynamic();
    int *memory = calloc(4, sizeof *memory), value = me + 9, got = 0;
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Win_attach(win, memory, 4 * sizeof(int)));
    MPI_Aint there = address_at_right(memory);
    OK(MPI_Put(&value, 1, MPI_INT, right(), MPI_Aint_add(there, sizeof(int)), 1, MPI_INT, win));
    OK(MPI_Win_flush(right(), win));
    OK(MPI_Fetch_and_op(NULL, &got, MPI_INT, right(), MPI_Aint_add(there, sizeof(int)), MPI_NO_OP,
                        win));
    OK(MPI_Win_flush(right(), win));
    EQ(got, me + 9);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_detach(win, memory));
    OK(MPI_Win_free(&win));
    free(memory);
}

static void over_self(void)
{
    int *base;
    MPI_Win win;
    OK(MPI_Win_allocate(8 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &base, &win));
    check_ring(win, MPI_COMM_SELF, base, 8, 0);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_allocate_shared(8 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &base,
                               &win));
    check_ring(win, MPI_COMM_SELF, base, 8, 0);
    OK(MPI_Win_free(&win));
}

/* A ring over a window that is made over a communicator. */
static void ring_over_comm(MPI_Comm comm)
{
    int *base, memory[8];
    MPI_Win win;
    OK(MPI_Win_allocate(8 * sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win));
    check_ring(win, comm, base, 8, 0);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, comm, &win));
    check_ring(win, comm, memory, 8, 0);
    OK(MPI_Win_free(&win));
}

static void over_halves(void)
{
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half);
    ring_over_comm(half);
    MPI_Comm_free(&half);
}

static void over_reversed_ranks(void)
{
    MPI_Comm reversed;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &reversed);
    ring_over_comm(reversed);
    MPI_Comm_free(&reversed);
}

/* All but the first rank, which does something else meanwhile. */
static void over_a_subset(void)
{
    MPI_Comm some;
    MPI_Comm_split(MPI_COMM_WORLD, me == 0 ? MPI_UNDEFINED : 1, me, &some);
    if (some != MPI_COMM_NULL) {
        ring_over_comm(some);
        MPI_Comm_free(&some);
    }
}

static void over_a_group_of_a_few(void)
{
    MPI_Group world, some;
    MPI_Comm comm;
    int members[] = { ranks - 1, 0 };
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, ranks > 1 ? 2 : 1, members, &some);
    if (me == 0 || me == ranks - 1) {
        MPI_Comm_create_group(MPI_COMM_WORLD, some, 5, &comm);
        ring_over_comm(comm);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&some);
    MPI_Group_free(&world);
}

static void over_duplicates(void)
{
    MPI_Comm copies[4];
    for (int i = 0; i < 4; i++) {
        MPI_Comm_dup(i == 0 ? MPI_COMM_WORLD : copies[i - 1], &copies[i]);
        ring_over_comm(copies[i]);
    }
    for (int i = 0; i < 4; i++) {
        ring_over_comm(copies[3 - i]);
        MPI_Comm_free(&copies[3 - i]);
    }
}

static void over_a_cartesian_grid(void)
{
    int dimensions[1] = { ranks }, periods[1] = { 1 };
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dimensions, periods, 1, &grid);
    ring_over_comm(grid);
    MPI_Comm_free(&grid);
}

static void outlives_its_communicator(void)
{
    MPI_Comm copy;
    MPI_Win win;
    int *base;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    OK(MPI_Win_allocate(8 * sizeof(int), sizeof(int), MPI_INFO_NULL, copy, &base, &win));
    MPI_Comm_free(&copy);
    check_ring(win, MPI_COMM_WORLD, base, 8, 0);
    OK(MPI_Win_free(&win));
}

/* Communicators that come and go with a window each. */
static void over_communicators_one_after_the_other(void)
{
    for (int i = 0; i < 12; i++) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, i % 2 == 0 ? 0 : me % 2, i % 3 == 0 ? -me : me, &comm);
        ring_over_comm(comm);
        MPI_Comm_free(&comm);
    }
}

/* Windows of different communicators in use at the same time. */
static void over_crossing_communicators(void)
{
    MPI_Comm half, reversed;
    MPI_Win wins[2];
    int *bases[2], rank, size, value = me + 1;
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &reversed);
    OK(MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, half, &bases[0], &wins[0]));
    OK(MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, reversed, &bases[1],
                        &wins[1]));
    bases[0][1] = bases[1][1] = 0;
    MPI_Comm_rank(half, &rank);
    MPI_Comm_size(half, &size);
    OK(MPI_Win_fence(0, wins[0]));
    OK(MPI_Win_fence(0, wins[1]));
    OK(MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 1, 1, MPI_INT, wins[0]));
    OK(MPI_Put(&value, 1, MPI_INT, ranks - 1 - right(), 1, 1, MPI_INT, wins[1]));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, wins[1]));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, wins[0]));
    EQ(bases[0][1], (rank + size - 1) % size * 2 + me % 2 + 1);
    EQ(bases[1][1], left() + 1);
    OK(MPI_Win_free(&wins[0]));
    OK(MPI_Win_free(&wins[1]));
    MPI_Comm_free(&half);
    MPI_Comm_free(&reversed);
}

static const struct test cases[] = {
    CASE(shared_contiguous), CASE(shared_apart), CASE(shared_with_mixed_sizes),
    CASE(shared_of_the_first_alone), CASE(shared_accumulates_and_loads),
    CASE(shared_accumulates_to_the_last), CASE(shared_stores_and_syncs),
    CASE(shared_stores_and_flushes),
    CASE(dynamic_over_every_memory), CASE(dynamic_attached_again), CASE(dynamic_with_many_pieces),
    CASE(dynamic_attached_in_an_epoch), CASE(over_self), CASE(over_halves),
    CASE(over_reversed_ranks), CASE(over_a_subset), CASE(over_a_group_of_a_few),
    CASE(over_duplicates), CASE(over_a_cartesian_grid), CASE(outlives_its_communicator),
    CASE(over_communicators_one_after_the_other), CASE(over_crossing_communicators),
};

MAIN(cases)
