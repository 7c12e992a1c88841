/* Puts and gets of plain data: lengths, places, targets that are none, and requests. */
#include "case.h"

enum { LENGTH = 256 };

static void fill(unsigned char *bytes, int count, int seed)
{
    for (int i = 0; i < count; i++)
        bytes[i] = (unsigned char)(seed * 37 + i * 11 + 1);
}

/* Every start and length within some words, which all kinds of copies must get right. */
static void every_offset_and_length(void)
{
    enum { ROOM = 48 };
    unsigned char *base, out[ROOM], back[ROOM], expected[ROOM];
    MPI_Win win = make_bytes(ROOM, &base);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win));
    memset(expected, 0, ROOM);
    for (int first = 0; first < 12; first++)
        for (int length = 0; length < 34; length++) {
            fill(out, length, first + length);
            memcpy(expected + first, out, (size_t)length);
            OK(MPI_Put(out, length, MPI_BYTE, me, first, length, MPI_BYTE, win));
            OK(MPI_Win_flush(me, win));
            OK(MPI_Get(back, ROOM, MPI_BYTE, me, 0, ROOM, MPI_BYTE, win));
            OK(MPI_Win_flush(me, win));
            SAME(back, expected, ROOM);
        }
    OK(MPI_Win_unlock(me, win));
    OK(MPI_Win_free(&win));
}

static void every_length_far(void)
{
    unsigned char *base, out[LENGTH], back[LENGTH];
    MPI_Win win = make_bytes(LENGTH, &base);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    for (int length = 1; length <= LENGTH; length += 13) {
        int first = LENGTH - length;
        fill(out, length, me + length);
        OK(MPI_Put(out, length, MPI_BYTE, right(), first, length, MPI_BYTE, win));
        OK(MPI_Win_flush(right(), win));
        OK(MPI_Get(back, length, MPI_BYTE, right(), first, length, MPI_BYTE, win));
        OK(MPI_Win_flush(right(), win));
        SAME(back, out, (size_t)length);
    }
    OK(MPI_Win_unlock(right(), win));
    OK(MPI_Win_free(&win));
}

/* Lengths around the sizes at which fabrics change the way they send. */
static void lengths_around_powers_of_two(void)
{
    enum { ROOM = 1 << 18 };
    unsigned char *base, *out = malloc(ROOM), *back = malloc(ROOM);
    MPI_Win win = make_bytes(ROOM, &base);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    for (int bit = 6; bit < 18; bit++)
        for (int length = (1 << bit) - 1; length <= (1 << bit) + 1; length++) {
            fill(out, length, me + length);
            OK(MPI_Put(out, length, MPI_BYTE, right(), ROOM - length, length, MPI_BYTE, win));
            OK(MPI_Win_flush(right(), win));
            OK(MPI_Get(back, length, MPI_BYTE, right(), ROOM - length, length, MPI_BYTE, win));
            OK(MPI_Win_flush(right(), win));
            SAME(back, out, (size_t)length);
        }
    OK(MPI_Win_unlock(right(), win));
    OK(MPI_Win_free(&win));
    free(out);
    free(back);
}

/* The whole window in one transfer, up to its last byte. */
static void whole_window(void)
{
    unsigned char *base, out[LENGTH], back[LENGTH];
    MPI_Win win = make_bytes(LENGTH, &base);
    fill(out, LENGTH, me);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(out, LENGTH, MPI_BYTE, right(), 0, LENGTH, MPI_BYTE, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get(back, LENGTH, MPI_BYTE, left(), 0, LENGTH, MPI_BYTE, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    fill(out, LENGTH, left());
    SAME(base, out, LENGTH);
    fill(out, LENGTH, (me + 2 * ranks - 2) % ranks);
    SAME(back, out, LENGTH);
    OK(MPI_Win_free(&win));
}

static void to_this_rank(void)
{
    int *base, value = me + 40, got = 0, one = 1, old = 0, next = 7;
    MPI_Win win = make_ints(4, &base);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win));
    OK(MPI_Put(&value, 1, MPI_INT, me, 2, 1, MPI_INT, win));
    OK(MPI_Win_flush(me, win));
    EQ(base[2], me + 40);
    OK(MPI_Get(&got, 1, MPI_INT, me, 2, 1, MPI_INT, win));
    OK(MPI_Accumulate(&one, 1, MPI_INT, me, 2, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_flush(me, win));
    EQ(got, me + 40);
    value = me + 41;
    OK(MPI_Compare_and_swap(&next, &value, &old, MPI_INT, me, 2, win));
    OK(MPI_Win_unlock(me, win));
    EQ(old, me + 41);
    EQ(base[2], 7);
    OK(MPI_Win_free(&win));
}

/* From one part of a window's memory into another, the window being the buffer. */
static void from_window_memory(void)
{
    int *base;
    MPI_Win win = make_ints(64, &base);
    for (int i = 0; i < 16; i++)
        base[i] = me * 100 + i;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(base, 16, MPI_INT, right(), 16, 16, MPI_INT, win));
    OK(MPI_Get(base + 32, 16, MPI_INT, left(), 0, 16, MPI_INT, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int i = 0; i < 16; i++) {
        EQ(base[i], me * 100 + i);
        EQ(base[16 + i], left() * 100 + i);
        EQ(base[32 + i], left() * 100 + i);
        EQ(base[48 + i], 0);
    }
    OK(MPI_Win_free(&win));
}

static void to_no_process(void)
{
    int *base, value = 5, got = 6, old = 7;
    MPI_Win win = make_ints(4, &base);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
    OK(MPI_Get(&got, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
    OK(MPI_Accumulate(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Get_accumulate(&value, 1, MPI_INT, &old, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT,
                          MPI_SUM, win));
    OK(MPI_Fetch_and_op(&value, &old, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, win));
    OK(MPI_Compare_and_swap(&value, &value, &old, MPI_INT, MPI_PROC_NULL, 0, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    EQ(got, 6);
    EQ(old, 7);
    for (int i = 0; i < 4; i++)
        EQ(base[i], 0);
    OK(MPI_Win_free(&win));
}

static void requests_to_no_process(void)
{
    int *base, value = 5, got = 6;
    MPI_Request requests[4];
    MPI_Win win = make_ints(4, &base);
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Rput(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &requests[0]));
    OK(MPI_Rget(&got, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &requests[1]));
    OK(MPI_Raccumulate(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win,
                       &requests[2]));
    OK(MPI_Rget_accumulate(&value, 1, MPI_INT, &got, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT,
                           MPI_SUM, win, &requests[3]));
    OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Win_unlock_all(win));
    EQ(got, 6);
    OK(MPI_Win_free(&win));
}

static void nothing_at_all(void)
{
    int *base, value = 5;
    MPI_Win win = make_ints(4, &base);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(NULL, 0, MPI_INT, right(), 0, 0, MPI_INT, win));
    OK(MPI_Get(NULL, 0, MPI_INT, right(), 3, 0, MPI_INT, win));
    OK(MPI_Put(&value, 0, MPI_INT, right(), 4, 0, MPI_INT, win));
    OK(MPI_Accumulate(&value, 0, MPI_INT, right(), 0, 0, MPI_INT, MPI_SUM, win));
    OK(MPI_Get_accumulate(&value, 0, MPI_INT, NULL, 0, MPI_INT, right(), 0, 0, MPI_INT, MPI_SUM,
                          win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int i = 0; i < 4; i++)
        EQ(base[i], 0);
    OK(MPI_Win_free(&win));
}

/* Small transfers to every rank in one epoch. */
static void many_small(void)
{
    enum { EACH = 100 };
    int *base, *values = malloc(sizeof(int) * EACH);
    MPI_Win win = make_ints(EACH * ranks, &base);
    for (int i = 0; i < EACH; i++)
        values[i] = me * 1000 + i;
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < EACH; i++)
        for (int to = 0; to < ranks; to++)
            OK(MPI_Put(&values[i], 1, MPI_INT, to, me * EACH + i, 1, MPI_INT, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < EACH; i++)
            EQ(base[from * EACH + i], from * 1000 + i);
    OK(MPI_Win_free(&win));
    free(values);
}

/* All ranks read the whole of all others. */
static void transpose(void)
{
    int *base, *all = calloc((size_t)ranks * 32, sizeof *all);
    MPI_Win win = make_ints(32, &base);
    for (int i = 0; i < 32; i++)
        base[i] = me * 32 + i;
    settle(win);
    OK(MPI_Win_lock_all(0, win));
    for (int k = 0; k < ranks; k++) {
        int from = (me + k) % ranks;
        OK(MPI_Get(all + from * 32, 32, MPI_INT, from, 0, 32, MPI_INT, win));
    }
    OK(MPI_Win_unlock_all(win));
    for (int i = 0; i < ranks * 32; i++)
        EQ(all[i], i);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
    free(all);
}

/* The origin's buffer may be used again after a local flush. */
static void buffers_come_back(void)
{
    enum { MANY = 64, EACH = 500 };
    int *base, buffer[EACH];
    MPI_Win win = make_ints(MANY * EACH, &base);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, win));
    for (int i = 0; i < MANY; i++) {
        for (int k = 0; k < EACH; k++)
            buffer[k] = i * EACH + k + me;
        OK(MPI_Put(buffer, EACH, MPI_INT, right(), i * EACH, EACH, MPI_INT, win));
        OK(i % 2 == 0 ? MPI_Win_flush_local(right(), win) : MPI_Win_flush_local_all(win));
        memset(buffer, 0xff, sizeof buffer);
    }
    OK(MPI_Win_unlock(right(), win));
    settle(win);
    for (int i = 0; i < MANY * EACH; i++)
        EQ(base[i], i + left());
    OK(MPI_Win_free(&win));
}

#if MPI_VERSION >= 4
/* The forms with large counts. */
static void large_count_forms(void)
{
    int *base, out[8], back[8] = { 0 }, one[8], old[8] = { 0 };
    MPI_Request requests[4];
    MPI_Win win = make_ints(32, &base);
    for (int i = 0; i < 8; i++) {
        out[i] = me * 10 + i;
        one[i] = 1;
    }
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    OK(MPI_Put_c(out, 8, MPI_INT, right(), 0, 8, MPI_INT, win));
    OK(MPI_Win_flush(right(), win));
    OK(MPI_Accumulate_c(one, 8, MPI_INT, right(), 0, 8, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_flush(right(), win));
    OK(MPI_Get_c(back, 8, MPI_INT, right(), 0, 8, MPI_INT, win));
    OK(MPI_Win_flush(right(), win));
    for (int i = 0; i < 8; i++)
        EQ(back[i], out[i] + 1);
    OK(MPI_Get_accumulate_c(one, 8, MPI_INT, old, 8, MPI_INT, right(), 0, 8, MPI_INT, MPI_SUM,
                            win));
    OK(MPI_Win_flush(right(), win));
    for (int i = 0; i < 8; i++)
        EQ(old[i], out[i] + 1);
    OK(MPI_Rput_c(out, 8, MPI_INT, right(), 8, 8, MPI_INT, win, &requests[0]));
    OK(MPI_Rget_c(back, 8, MPI_INT, right(), 0, 8, MPI_INT, win, &requests[1]));
    OK(MPI_Raccumulate_c(one, 8, MPI_INT, right(), 16, 8, MPI_INT, MPI_SUM, win, &requests[2]));
    OK(MPI_Rget_accumulate_c(one, 8, MPI_INT, old, 8, MPI_INT, right(), 24, 8, MPI_INT, MPI_SUM,
                             win, &requests[3]));
    OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Win_unlock(right(), win));
    for (int i = 0; i < 8; i++) {
        EQ(back[i], out[i] + 2);
        EQ(old[i], 0);
    }
    settle(win);
    for (int i = 0; i < 8; i++) {
        EQ(base[8 + i], left() * 10 + i);
        EQ(base[16 + i], 1);
        EQ(base[24 + i], 1);
    }
    OK(MPI_Win_free(&win));
}

static void windows_with_large_units(void)
{
    int *base, memory[8], *shared;
    MPI_Win win;
    OK(MPI_Win_allocate_c(8 * sizeof(int), (MPI_Aint)sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                          &base, &win));
    check_ring(win, MPI_COMM_WORLD, base, 8, 0);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_create_c(memory, sizeof memory, (MPI_Aint)sizeof(int), MPI_INFO_NULL,
                        MPI_COMM_WORLD, &win));
    check_ring(win, MPI_COMM_WORLD, memory, 8, 0);
    OK(MPI_Win_free(&win));
    MPI_Comm near = node_comm();
    MPI_Aint bytes, unit;
    int *first;
    OK(MPI_Win_allocate_shared_c(8 * sizeof(int), (MPI_Aint)sizeof(int), MPI_INFO_NULL, near,
                                 &shared, &win));
    OK(MPI_Win_shared_query_c(win, 0, &bytes, &unit, &first));
    EQ(bytes, 8 * sizeof(int));
    EQ(unit, sizeof(int));
    check_ring(win, near, shared, 8, 0);
    OK(MPI_Win_free(&win));
    MPI_Comm_free(&near);
}

/* Both forms of a call mean the same window. */
static void forms_of_one_window(void)
{
    int *own, *there, unit, size;
    MPI_Aint bytes, large_unit;
    MPI_Win win;
    MPI_Comm near = node_comm();
    MPI_Comm_size(near, &size);
    for (int round = 0; round < 2; round++) {
        if (round == 0)
            OK(MPI_Win_allocate_shared(64, 4, MPI_INFO_NULL, near, &own, &win));
        else
            OK(MPI_Win_allocate_shared_c(64, 4, MPI_INFO_NULL, near, &own, &win));
        for (int i = 0; i < size; i++) {
            OK(MPI_Win_shared_query_c(win, i, &bytes, &large_unit, &there));
            EQ(bytes, 64);
            EQ(large_unit, 4);
            int *same;
            OK(MPI_Win_shared_query(win, i, &bytes, &unit, &same));
            CHECK(same == there);
            EQ(unit, 4);
        }
        OK(MPI_Win_free(&win));
    }
    MPI_Comm_free(&near);
}
#endif

static const struct test cases[] = {
    CASE(every_offset_and_length), CASE(every_length_far), CASE(lengths_around_powers_of_two),
    CASE(whole_window), CASE(to_this_rank), CASE(from_window_memory), CASE(to_no_process),
    CASE(requests_to_no_process), CASE(nothing_at_all),
    CASE(many_small), CASE(transpose), CASE(buffers_come_back),
#if MPI_VERSION >= 4
    CASE(large_count_forms), CASE(windows_with_large_units), CASE(forms_of_one_window),
#endif
};

MAIN(cases)
