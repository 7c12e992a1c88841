/* Updates by many ranks at once: none is lost, none is seen in halves, those of one rank to one
 * place happen in order. */
#include "case.h"

enum { ROUNDS = 200 };

static MPI_Win make(MPI_Aint bytes, bool is_created, void *memory, void *base)
{
    MPI_Win win;
    if (is_created) {
        *(void **)base = memory;
        OK(MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    } else {
        OK(MPI_Win_allocate(at_least(bytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, base, &win));
    }
    memset(*(void **)base, 0, (size_t)bytes);
    settle(win);
    return win;
}

static _Alignas(16) unsigned char memory[4096];

/* Everyone adds to the same counters of rank 0. */
#define COUNTER(name, c, type, is_created) \
    static void name(void) \
    { \
        c *base, one = 1; \
        MPI_Win win = make(2 * sizeof(c), is_created, memory, &base); \
        OK(MPI_Win_lock_all(0, win)); \
        for (int i = 0; i < 60; i++) \
            OK(MPI_Accumulate(&one, 1, type, 0, sizeof(c), 1, type, MPI_SUM, win)); \
        OK(MPI_Win_unlock_all(win)); \
        settle(win); \
        if (me == 0) { \
            CHECK(base[0] == 0); \
            CHECK(base[1] == (c)(60 * ranks)); \
        } \
        OK(MPI_Win_free(&win)); \
    }

COUNTER(count_in_chars, unsigned char, MPI_UNSIGNED_CHAR, false)
COUNTER(count_in_shorts, short, MPI_SHORT, false)
COUNTER(count_in_ints, int, MPI_INT, false)
COUNTER(count_in_longs, long, MPI_LONG, false)
COUNTER(count_in_floats, float, MPI_FLOAT, false)
COUNTER(count_in_doubles, double, MPI_DOUBLE, false)
COUNTER(count_in_long_doubles, long double, MPI_LONG_DOUBLE, false)
COUNTER(count_in_created_ints, int, MPI_INT, true)
COUNTER(count_in_created_doubles, double, MPI_DOUBLE, true)

/* Tickets: every number is drawn once. */
static void draw(bool is_created, bool by_get_accumulate)
{
    int *base, one = 1, mine[ROUNDS], *all = calloc((size_t)(ranks * ROUNDS), sizeof *all);
    MPI_Win win = make(sizeof(int), is_created, memory, &base);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    for (int i = 0; i < ROUNDS; i++) {
        if (by_get_accumulate)
            OK(MPI_Get_accumulate(&one, 1, MPI_INT, &mine[i], 1, MPI_INT, 0, 0, 1, MPI_INT,
                                  MPI_SUM, win));
        else
            OK(MPI_Fetch_and_op(&one, &mine[i], MPI_INT, 0, 0, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
        if (i > 0)
            CHECK(mine[i] > mine[i - 1]);
    }
    OK(MPI_Win_unlock(0, win));
    MPI_Allgather(mine, ROUNDS, MPI_INT, all, ROUNDS, MPI_INT, MPI_COMM_WORLD);
    char *seen = calloc((size_t)(ranks * ROUNDS), 1);
    for (int i = 0; i < ranks * ROUNDS; i++)
        if (CHECK(all[i] >= 0 && all[i] < ranks * ROUNDS))
            EQ(seen[all[i]]++, 0);
    OK(MPI_Win_free(&win));
    free(all);
    free(seen);
}

static void tickets_by_fetch_and_op(void)
{
    draw(false, false);
}

static void tickets_by_get_accumulate(void)
{
    draw(false, true);
}

static void tickets_in_created_memory(void)
{
    draw(true, false);
    draw(true, true);
}

/* A counter that is raised by compare-and-swap until it succeeds. */
#define SWAPPER(name, c, type, is_created) \
    static void name(void) \
    { \
        c *base, old, next, got; \
        MPI_Win win = make(2 * sizeof(c), is_created, memory, &base); \
        OK(MPI_Win_lock_all(0, win)); \
        for (int i = 0; i < 25; i++) \
            for (old = 0, got = 1; got != old;) { \
                OK(MPI_Fetch_and_op(NULL, &old, type, 0, sizeof(c), MPI_NO_OP, win)); \
                OK(MPI_Win_flush(0, win)); \
                next = (c)(old + 1); \
                OK(MPI_Compare_and_swap(&next, &old, &got, type, 0, sizeof(c), win)); \
                OK(MPI_Win_flush(0, win)); \
            } \
        OK(MPI_Win_unlock_all(win)); \
        settle(win); \
        if (me == 0) { \
            CHECK(base[0] == 0); \
            CHECK(base[1] == (c)(25 * ranks)); \
        } \
        OK(MPI_Win_free(&win)); \
    }

SWAPPER(swaps_of_chars, unsigned char, MPI_UNSIGNED_CHAR, false)
SWAPPER(swaps_of_shorts, short, MPI_SHORT, false)
SWAPPER(swaps_of_ints, int, MPI_INT, false)
SWAPPER(swaps_of_longs, long, MPI_LONG, false)
SWAPPER(swaps_of_created_longs, long, MPI_LONG, true)

/* Neighbours of different sizes in one word do not disturb each other. */
static void mixed_sizes_side_by_side(void)
{
    struct numbers { int i; short s; unsigned char a, b; long l; } *base;
    MPI_Win win = make(sizeof *base, false, memory, &base);
    int one = 1;
    short one_short = 1;
    unsigned char one_char = 1;
    long one_long = 1;
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 40; i++) {
        OK(MPI_Accumulate(&one, 1, MPI_INT, 0, offsetof(struct numbers, i), 1, MPI_INT, MPI_SUM,
                          win));
        OK(MPI_Accumulate(&one_short, 1, MPI_SHORT, 0, offsetof(struct numbers, s), 1, MPI_SHORT,
                          MPI_SUM, win));
        OK(MPI_Accumulate(&one_char, 1, MPI_UNSIGNED_CHAR, 0, offsetof(struct numbers, a), 1,
                          MPI_UNSIGNED_CHAR, MPI_SUM, win));
        OK(MPI_Accumulate(&one_char, 1, MPI_UNSIGNED_CHAR, 0, offsetof(struct numbers, b), 1,
                          MPI_UNSIGNED_CHAR, MPI_SUM, win));
        OK(MPI_Accumulate(&one_long, 1, MPI_LONG, 0, offsetof(struct numbers, l), 1, MPI_LONG,
                          MPI_SUM, win));
    }
    OK(MPI_Win_unlock_all(win));
    settle(win);
    if (me == 0) {
        EQ(base->i, 40 * ranks);
        EQ(base->s, 40 * ranks);
        EQ(base->a, 40 * ranks);
        EQ(base->b, 40 * ranks);
        EQ(base->l, 40 * ranks);
    }
    OK(MPI_Win_free(&win));
}

/* Values of 16 bytes whose halves belong together. */
static void pairs_are_whole(void)
{
    struct { double value; int index; } *base, mine, old;
    MPI_Win win = make(sizeof *base, false, memory, &base);
    memset(&mine, 0, sizeof mine);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 100; i++) {
        mine.value = mine.index = me * 1000 + i;
        OK(MPI_Fetch_and_op(&mine, &old, MPI_DOUBLE_INT, 0, 0, MPI_REPLACE, win));
        OK(MPI_Win_flush(0, win));
        EQ(old.value, old.index);
    }
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

/* Different operations of one type on one place. */
static void different_operations(void)
{
    int *base, bit = 1 << me, sum = 1 << 10, old;
    MPI_Win win = make(2 * sizeof(int), false, memory, &base);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 50; i++) {
        OK(MPI_Accumulate(&sum, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Fetch_and_op(&bit, &old, MPI_INT, 0, 0, MPI_BOR, win));
        OK(MPI_Win_flush(0, win));
    }
    OK(MPI_Win_unlock_all(win));
    settle(win);
    if (me == 0)
        EQ(base[0], (50 * ranks << 10) + (1 << ranks) - 1);
    OK(MPI_Win_free(&win));
}

/* Largest and smallest of what all ranks offer. */
static void maxima_and_minima(void)
{
    long *base;
    MPI_Win win = make(4 * sizeof(long), false, memory, &base);
    OK(MPI_Win_lock_all(0, win));
    for (long i = 0; i < 100; i++) {
        long high = i * ranks + me, low = -high;
        OK(MPI_Accumulate(&high, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_MAX, win));
        OK(MPI_Accumulate(&low, 1, MPI_LONG, 0, sizeof(long), 1, MPI_LONG, MPI_MIN, win));
        OK(MPI_Win_flush_local(0, win));
    }
    OK(MPI_Win_unlock_all(win));
    settle(win);
    if (me == 0) {
        EQ(base[0], 100 * ranks - 1);
        EQ(base[1], -(100 * ranks - 1));
    }
    OK(MPI_Win_free(&win));
}

/* Accumulates of one rank to one place happen in the order of the calls, without a flush. */
static void order_of_replacements(void)
{
    int *base, values[100], before[100];
    MPI_Win win = make(ranks * (MPI_Aint)sizeof(int), false, memory, &base);
    MPI_Aint at = me * (MPI_Aint)sizeof(int);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 100; i++) {
        values[i] = i + 1;
        before[i] = -1;
        OK(MPI_Get_accumulate(&values[i], 1, MPI_INT, &before[i], 1, MPI_INT, right(), at, 1,
                              MPI_INT, MPI_REPLACE, win));
    }
    OK(MPI_Win_unlock_all(win));
    for (int i = 0; i < 100; i++)
        EQ(before[i], i);
    settle(win);
    EQ(base[left()], 100);
    OK(MPI_Win_free(&win));
}

/* Reads after writes and writes after reads, of overlapping pieces. */
static void order_of_overlapping_pieces(void)
{
    int *base, ones[8], reads[20][8];
    MPI_Win win = make(8 * sizeof(int), false, memory, &base);
    for (int i = 0; i < 8; i++)
        ones[i] = 1;
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    for (int i = 0; i < 20; i++) {
        int first = i % 4, count = 8 - first;
        OK(MPI_Accumulate(ones, count, MPI_INT, right(), first * (MPI_Aint)sizeof(int), count,
                          MPI_INT, MPI_SUM, win));
        OK(MPI_Get_accumulate(NULL, 0, MPI_INT, reads[i], 8, MPI_INT, right(), 0, 8, MPI_INT,
                              MPI_NO_OP, win));
    }
    OK(MPI_Win_unlock(right(), win));
    int now[8] = { 0 };
    for (int i = 0; i < 20; i++) {
        for (int k = i % 4; k < 8; k++)
            now[k]++;
        SAME(reads[i], now, sizeof now);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

/* A lock that is made of a word, which guards another. */
static void lock_made_of_a_word(void)
{
    int *base, zero = 0, one = 1, held, value;
    MPI_Win win = make(2 * sizeof(int), false, memory, &base);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 20; i++) {
        do {
            OK(MPI_Compare_and_swap(&one, &zero, &held, MPI_INT, 0, 0, win));
            OK(MPI_Win_flush(0, win));
        } while (held != 0);
        OK(MPI_Get(&value, 1, MPI_INT, 0, sizeof(int), 1, MPI_INT, win));
        OK(MPI_Win_flush(0, win));
        value++;
        OK(MPI_Put(&value, 1, MPI_INT, 0, sizeof(int), 1, MPI_INT, win));
        OK(MPI_Win_flush(0, win));
        OK(MPI_Fetch_and_op(&zero, &held, MPI_INT, 0, 0, MPI_REPLACE, win));
        OK(MPI_Win_flush(0, win));
        EQ(held, 1);
    }
    OK(MPI_Win_unlock_all(win));
    settle(win);
    if (me == 0)
        EQ(base[1], 20 * ranks);
    OK(MPI_Win_free(&win));
}

/* Every rank to every rank, with vectors. */
static void all_to_all(void)
{
    double *base, *out = malloc(64 * sizeof *out);
    MPI_Win win = make(64 * sizeof(double), false, memory, &base);
    for (int i = 0; i < 64; i++)
        out[i] = i;
    OK(MPI_Win_fence(0, win));
    for (int round = 0; round < 10; round++)
        for (int to = 0; to < ranks; to++)
            OK(MPI_Accumulate(out, 64, MPI_DOUBLE, to, 0, 64, MPI_DOUBLE, MPI_SUM, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int i = 0; i < 64; i++)
        EQ(base[i], 10.0 * ranks * i);
    OK(MPI_Win_free(&win));
    free(out);
}

/* The owner of the memory takes part like the others. */
static void owner_takes_part(void)
{
    long *base, one = 1, old;
    MPI_Win win = make(sizeof(long), false, memory, &base);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 50; i++)
        for (int to = 0; to < ranks; to++) {
            OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, to, 0, MPI_SUM, win));
            OK(MPI_Win_flush(to, win));
        }
    OK(MPI_Win_unlock_all(win));
    settle(win);
    EQ(base[0], 50 * ranks);
    OK(MPI_Win_free(&win));
}

/* A number that some update alone, and others with one that is not aligned. */
static void with_and_without_a_misaligned_one(void)
{
    unsigned char *base;
    long ones[2] = {1, 1}, aligned, misaligned;
    MPI_Aint displacements[2] = {0, 12};
    MPI_Datatype both;
    MPI_Win win = make(24, false, memory, &base);
    OK(MPI_Type_create_hindexed_block(2, 1, displacements, MPI_LONG, &both));
    OK(MPI_Type_commit(&both));
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 20 * ROUNDS; i++) {
        if (me % 2 == 0) {
            OK(MPI_Accumulate(ones, 2, MPI_LONG, 0, 0, 1, both, MPI_SUM, win));
        } else {
            OK(MPI_Accumulate(ones, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win));
            OK(MPI_Accumulate(ones, 1, MPI_LONG, 0, 12, 1, MPI_LONG, MPI_SUM, win));
        }
    }
    OK(MPI_Win_unlock_all(win));
    settle(win);
    if (me == 0) {
        memcpy(&aligned, base, sizeof aligned);
        memcpy(&misaligned, base + 12, sizeof misaligned);
        EQ(aligned, 20 * ROUNDS * ranks);
        EQ(misaligned, 20 * ROUNDS * ranks);
    }
    OK(MPI_Type_free(&both));
    OK(MPI_Win_free(&win));
}

static const struct test cases[] = {
    CASE(count_in_chars), CASE(count_in_shorts), CASE(count_in_ints), CASE(count_in_longs),
    CASE(count_in_floats), CASE(count_in_doubles), CASE(count_in_long_doubles),
    CASE(count_in_created_ints), CASE(count_in_created_doubles), CASE(tickets_by_fetch_and_op),
    CASE(tickets_by_get_accumulate), CASE(tickets_in_created_memory), CASE(swaps_of_chars),
    CASE(swaps_of_shorts), CASE(swaps_of_ints), CASE(swaps_of_longs), CASE(swaps_of_created_longs),
    CASE(mixed_sizes_side_by_side), CASE(pairs_are_whole), CASE(different_operations),
    CASE(maxima_and_minima), CASE(order_of_replacements), CASE(order_of_overlapping_pieces),
    CASE(lock_made_of_a_word), CASE(all_to_all), CASE(owner_takes_part),
    CASE(with_and_without_a_misaligned_one),
};

MAIN(cases)
