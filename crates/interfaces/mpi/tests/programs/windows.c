/* Windows over memory that MPI brings, and over memory of every kind that the program brings. */
#include "case.h"
#include <sys/wait.h>

enum { LENGTH = 64 };

static int static_memory[LENGTH];
static int initialized_memory[LENGTH] = { 7 };

/* Makes a window over memory of the program, uses it in a ring and frees it. */
static void ring_over(int *memory)
{
    MPI_Win win;
    OK(MPI_Win_create(memory, LENGTH * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                      &win));
    check_ring(win, MPI_COMM_WORLD, memory, LENGTH, 0);
    OK(MPI_Win_free(&win));
    CHECK(win == MPI_WIN_NULL);
}

static void allocate(void)
{
    int *base;
    MPI_Win win = make_ints(LENGTH, &base);
    CHECK(base != NULL);
    EQ((uintptr_t)base % 8, 0);
    check_ring(win, MPI_COMM_WORLD, base, LENGTH, 0);
    OK(MPI_Win_free(&win));
    CHECK(win == MPI_WIN_NULL);
}

static void allocate_on_one_rank(void)
{
    int *base, got = 0, mine = me + 1;
    MPI_Win win;
    MPI_Aint size = me == 0 ? (MPI_Aint)sizeof(int) * ranks : 0;
    OK(MPI_Win_allocate(size, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    if (me == 0)
        memset(base, 0, (size_t)size);
    settle(win);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    OK(MPI_Put(&mine, 1, MPI_INT, 0, me, 1, MPI_INT, win));
    OK(MPI_Win_flush(0, win));
    OK(MPI_Get(&got, 1, MPI_INT, 0, me, 1, MPI_INT, win));
    OK(MPI_Win_unlock(0, win));
    EQ(got, me + 1);
    settle(win);
    for (int i = 0; me == 0 && i < ranks; i++)
        EQ(base[i], i + 1);
    settle(win);
    OK(MPI_Win_free(&win));
}

static void allocate_nothing(void)
{
    void *base;
    MPI_Win win;
    OK(MPI_Win_allocate(0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&base, 0, MPI_BYTE, right(), 0, 0, MPI_BYTE, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPI_Win_free(&win));
}

/* A few bytes on each rank, and another number on each. */
static void allocate_very_little(void)
{
    unsigned char *base, value = (unsigned char)(me + 1);
    MPI_Win win;
    for (int bytes = 1; bytes < 20; bytes++) {
        MPI_Aint mine = bytes + me, theirs = bytes + right();
        OK(MPI_Win_allocate(mine, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
        memset(base, 0, (size_t)mine);
        settle(win);
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
        OK(MPI_Put(&value, 1, MPI_BYTE, right(), theirs - 1, 1, MPI_BYTE, win));
        OK(MPI_Win_unlock(right(), win));
        settle(win);
        for (MPI_Aint i = 0; i < mine; i++)
            EQ(base[i], i == mine - 1 ? left() + 1 : 0);
        OK(MPI_Win_free(&win));
    }
}

/* Sizes and displacement units that differ between ranks: that of the target counts. */
static void allocate_with_different_units(void)
{
    static const int units[] = { 1, 2, 4, 8 };
    int unit = units[me % 4], theirs = units[right() % 4];
    MPI_Aint size = 64 * (me + 1), far = 64 * (right() + 1);
    unsigned char *base, out[8], back[8];
    MPI_Win win;
    OK(MPI_Win_allocate(size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    memset(base, 0xee, (size_t)size);
    memset(out, me + 1, 8);
    settle(win);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, win));
    OK(MPI_Put(out, 8, MPI_BYTE, right(), far / theirs - 8 / theirs, 8, MPI_BYTE, win));
    OK(MPI_Win_flush(right(), win));
    OK(MPI_Get(back, 8, MPI_BYTE, right(), far / theirs - 8 / theirs, 8, MPI_BYTE, win));
    OK(MPI_Win_unlock(right(), win));
    SAME(back, out, 8);
    settle(win);
    for (MPI_Aint i = 0; i < size; i++)
        EQ(base[i], i < size - 8 ? 0xee : left() + 1);
    OK(MPI_Win_free(&win));
}

static void allocate_with_odd_units(void)
{
    unsigned char *base, value = (unsigned char)(me + 3);
    MPI_Win win;
    OK(MPI_Win_allocate(70, 7, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    memset(base, 0, 70);
    settle(win);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    for (int i = 0; i < 10; i++)
        OK(MPI_Put(&value, 1, MPI_BYTE, right(), i, 1, MPI_BYTE, win));
    OK(MPI_Win_unlock(right(), win));
    settle(win);
    for (int i = 0; i < 70; i++)
        EQ(base[i], i % 7 == 0 ? left() + 3 : 0);
    OK(MPI_Win_free(&win));
}

/* A unit that is larger than the window reaches displacement 0 alone. */
static void allocate_with_a_large_unit(void)
{
    int *base, value = me + 5;
    MPI_Win win;
    OK(MPI_Win_allocate(4 * sizeof(int), 1 << 20, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    memset(base, 0, 4 * sizeof(int));
    settle(win);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
    OK(MPI_Win_unlock(right(), win));
    settle(win);
    EQ(base[0], left() + 5);
    OK(MPI_Win_free(&win));
}

static void allocate_much(void)
{
    enum { MANY = 1 << 20 };
    int *base, *out = malloc(MANY * sizeof *out), *back = malloc(MANY * sizeof *back);
    MPI_Win win = make_ints(MANY, &base);
    for (int i = 0; i < MANY; i++)
        out[i] = i ^ me;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(out, MANY, MPI_INT, right(), 0, MANY, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get(back, MANY, MPI_INT, right(), 0, MANY, MPI_INT, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    SAME(back, out, MANY * sizeof *out);
    for (int i = 0; i < MANY; i++)
        out[i] = i ^ left();
    SAME(base, out, MANY * sizeof *out);
    OK(MPI_Win_free(&win));
    free(out);
    free(back);
}

static void create_over_heap(void)
{
    int *memory = malloc(LENGTH * sizeof *memory);
    ring_over(memory);
    free(memory);
}

static void create_over_stack(void)
{
    int memory[LENGTH];
    ring_over(memory);
}

static void create_over_static_data(void)
{
    ring_over(static_memory);
    ring_over(initialized_memory);
}

static void create_over_alloc_mem(void)
{
    int *memory;
    OK(MPI_Alloc_mem(LENGTH * sizeof(int), MPI_INFO_NULL, &memory));
    ring_over(memory);
    OK(MPI_Free_mem(memory));
}

static void create_over_inner_part(void)
{
    int *memory, *heap = malloc(4 * LENGTH * sizeof *heap);
    OK(MPI_Alloc_mem(4 * LENGTH * sizeof(int), MPI_INFO_NULL, &memory));
    for (int i = 0; i < 4 * LENGTH; i++)
        memory[i] = heap[i] = -1;
    ring_over(memory + LENGTH);
    ring_over(heap + LENGTH);
    for (int i = 0; i < LENGTH; i++) {
        EQ(memory[i], -1);
        EQ(memory[2 * LENGTH + i], -1);
        EQ(heap[i], -1);
        EQ(heap[2 * LENGTH + i], -1);
    }
    free(heap);
    OK(MPI_Free_mem(memory));
}

/* Every rank another kind of memory. */
static void create_over_mixed_memory(void)
{
    int stack[LENGTH], *heap = malloc(LENGTH * sizeof *heap), *special;
    OK(MPI_Alloc_mem(LENGTH * sizeof(int), MPI_INFO_NULL, &special));
    int *kinds[] = { special, heap, stack, static_memory };
    for (int turn = 0; turn < 4; turn++)
        ring_over(kinds[(me + turn) % 4]);
    free(heap);
    OK(MPI_Free_mem(special));
}

static void create_with_mixed_sizes(void)
{
    int count = me == 0 ? 0 : 4 * me, got = -1;
    int *memory = malloc((size_t)(count + 1) * sizeof *memory);
    MPI_Win win;
    for (int i = 0; i < count; i++)
        memory[i] = me * 100 + i;
    OK(MPI_Win_create(count == 0 ? NULL : memory, (MPI_Aint)sizeof(int) * count, sizeof(int),
                      MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    settle(win);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 1; i < ranks; i++) {
        OK(MPI_Get(&got, 1, MPI_INT, i, 4 * i - 1, 1, MPI_INT, win));
        OK(MPI_Win_flush(i, win));
        EQ(got, i * 100 + 4 * i - 1);
    }
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
    free(memory);
}

static void create_without_memory(void)
{
    MPI_Win win;
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, win));
    OK(MPI_Get(NULL, 0, MPI_INT, right(), 0, 0, MPI_INT, win));
    OK(MPI_Win_unlock(right(), win));
    OK(MPI_Win_free(&win));
}

/* Memory that begins at an odd address. */
static void create_over_unaligned_memory(void)
{
    unsigned char *memory = calloc(64, 1), out[32], *special;
    OK(MPI_Alloc_mem(64, MPI_INFO_NULL, &special));
    memset(special, 0, 64);
    for (int turn = 0; turn < 2; turn++) {
        unsigned char *base = turn == 0 ? memory : special;
        MPI_Win win;
        OK(MPI_Win_create(base + 3, 32, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        memset(out, 0x40 + me, sizeof out);
        OK(MPI_Win_fence(0, win));
        OK(MPI_Put(out, 29, MPI_BYTE, right(), 3, 29, MPI_BYTE, win));
        OK(MPI_Win_fence(0, win));
        for (int i = 0; i < 64; i++)
            EQ(base[i], i >= 6 && i < 35 ? 0x40 + left() : 0);
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
        OK(MPI_Win_free(&win));
    }
    free(memory);
    OK(MPI_Free_mem(special));
}

/* Two windows over the same memory, of which each is used for one half. */
static void create_twice_over_the_same(void)
{
    int *memory = calloc(LENGTH, sizeof *memory), one = me + 1, two = me + 50;
    MPI_Win first, second;
    OK(MPI_Win_create(memory, LENGTH * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                      &first));
    OK(MPI_Win_create(memory, LENGTH * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                      &second));
    OK(MPI_Win_fence(0, first));
    OK(MPI_Win_fence(0, second));
    OK(MPI_Put(&one, 1, MPI_INT, right(), 3, 1, MPI_INT, first));
    OK(MPI_Put(&two, 1, MPI_INT, right(), LENGTH / 2 + 3, 1, MPI_INT, second));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, first));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, second));
    EQ(memory[3], left() + 1);
    EQ(memory[LENGTH / 2 + 3], left() + 50);
    OK(MPI_Win_free(&first));
    OK(MPI_Win_free(&second));
    free(memory);
}

/* A window over memory that another window has brought. */
static void create_over_an_allocated_window(void)
{
    int *base;
    MPI_Win outer = make_ints(LENGTH, &base);
    ring_over(base);
    check_ring(outer, MPI_COMM_WORLD, base, LENGTH, 0);
    OK(MPI_Win_free(&outer));
}

static void alloc_mem_of_many_sizes(void)
{
    enum { BLOCKS = 24 };
    unsigned char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        OK(MPI_Alloc_mem((MPI_Aint)1 << i % 18, MPI_INFO_NULL, &blocks[i]));
        EQ((uintptr_t)blocks[i] % 8, 0);
        memset(blocks[i], i, (size_t)1 << i % 18);
    }
    for (int i = 0; i < BLOCKS; i++) {
        EQ(blocks[i][0], i);
        EQ(blocks[i][((size_t)1 << i % 18) - 1], i);
    }
    for (int i = 0; i < BLOCKS; i += 2)
        OK(MPI_Free_mem(blocks[i]));
    for (int i = 1; i < BLOCKS; i += 2) {
        EQ(blocks[i][0], i);
        OK(MPI_Free_mem(blocks[i]));
    }
}

static void many_at_once(void)
{
    enum { MANY = 40 };
    MPI_Win wins[MANY];
    int *bases[MANY], value;
    for (int i = 0; i < MANY; i++) {
        wins[i] = make_ints(4, &bases[i]);
        for (int k = 0; k < i; k++)
            CHECK(wins[k] != wins[i]);
    }
    for (int i = 0; i < MANY; i++) {
        value = i * 10 + me;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, wins[i]));
        OK(MPI_Put(&value, 1, MPI_INT, right(), i % 4, 1, MPI_INT, wins[i]));
        OK(MPI_Win_unlock(right(), wins[i]));
    }
    /* Freed in another order. */
    for (int k = 0; k < MANY; k++) {
        int i = (k * 7 + 3) % MANY;
        settle(wins[i]);
        for (int j = 0; j < 4; j++)
            EQ(bases[i][j], j == i % 4 ? i * 10 + left() : 0);
        OK(MPI_Win_free(&wins[i]));
    }
}

static void made_and_freed_often(void)
{
    for (int i = 0; i < 60; i++) {
        int *base, memory[8] = { 0 }, value = me + i;
        MPI_Win win;
        if (i % 3 == 0)
            OK(MPI_Win_allocate(1 << 16, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
        else
            OK(MPI_Win_create(base = memory, sizeof memory, sizeof(int), MPI_INFO_NULL,
                              MPI_COMM_WORLD, &win));
        OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
        OK(MPI_Put(&value, 1, MPI_INT, right(), 5, 1, MPI_INT, win));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
        EQ(base[5], left() + i);
        OK(MPI_Win_free(&win));
    }
}

/* What a freed window had is there for the next: no more than two at a time are needed. */
static void memory_comes_back(void)
{
    for (int i = 0; i < 24; i++) {
        char *base;
        MPI_Win win;
        OK(MPI_Win_allocate(32 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
        base[(32 << 20) - 1] = 1;
        OK(MPI_Win_free(&win));
    }
}

/* A child that a rank forks, and that exits as programs do, is not the rank. */
static void children_that_exit(void)
{
    int *base, value = me + 1, status = 1;
    MPI_Win win = make_ints(1, &base);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(0);
    EQ(waitpid(child, &status, 0), child);
    EQ(status, 0);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    EQ(base[0], left() + 1);
    OK(MPI_Win_free(&win));
}

/* Memory is aligned as the hint says. */
static void memory_with_an_alignment(void)
{
    static const char *const alignments[] = { "4096", "1024", "64" };
    for (int i = 0; i < COUNT(alignments); i++) {
        uintptr_t mask = (uintptr_t)atoi(alignments[i]) - 1;
        MPI_Info info;
        void *blocks[3], *base;
        MPI_Win win;
        MPI_Info_create(&info);
        MPI_Info_set(info, "mpi_minimum_memory_alignment", alignments[i]);
        for (int k = 0; k < 3; k++) {
            OK(MPI_Alloc_mem(100, info, &blocks[k]));
            EQ((uintptr_t)blocks[k] & mask, 0);
            memset(blocks[k], k, 100);
        }
        OK(MPI_Win_allocate(100, 1, info, MPI_COMM_WORLD, &base, &win));
        EQ((uintptr_t)base & mask, 0);
        OK(MPI_Win_free(&win));
        for (int k = 0; k < 3; k++)
            OK(MPI_Free_mem(blocks[k]));
        MPI_Info_free(&info);
    }
}

static const struct test cases[] = {
    CASE(allocate), CASE(allocate_on_one_rank), CASE(allocate_nothing),
    CASE(allocate_very_little),
    CASE(allocate_with_different_units), CASE(allocate_with_odd_units),
    CASE(allocate_with_a_large_unit), CASE(allocate_much), CASE(create_over_heap),
    CASE(create_over_stack), CASE(create_over_static_data), CASE(create_over_alloc_mem),
    CASE(create_over_inner_part), CASE(create_over_mixed_memory), CASE(create_with_mixed_sizes),
    CASE(create_without_memory), CASE(create_over_unaligned_memory),
    CASE(create_twice_over_the_same), CASE(create_over_an_allocated_window),
    CASE(alloc_mem_of_many_sizes), CASE(many_at_once), CASE(made_and_freed_often),
    CASE(memory_comes_back),
    CASE(children_that_exit),
    CASE(memory_with_an_alignment),
};

MAIN(cases)
