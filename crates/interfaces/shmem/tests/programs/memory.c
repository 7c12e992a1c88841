/* The symmetric heap: malloc, calloc, align, realloc, hints and free; alignment, contents, the same
 * block everywhere, exhaustion, and calls that do nothing. */
#include "check.h"

enum { BLOCKS = 40 };

/* Writes to a block's ends on the neighbour and checks what came. */
static void use(unsigned char *block, size_t size)
{
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    block[0] = block[size - 1] = 255;
    shmem_barrier_all();
    shmem_uchar_p(block, (unsigned char)me, next);
    /* Of one byte, the second put is the one that counts. */
    shmem_fence();
    shmem_uchar_p(block + size - 1, (unsigned char)(me + (size > 1 ? 100 : 0)), next);
    shmem_barrier_all();
    if (size > 1)
        CHECK_EQ(block[0], previous);
    CHECK_EQ(block[size - 1], previous + (size > 1 ? 100 : 0));
    shmem_barrier_all();
}

static void sizes(void)
{
    for (size_t size = 1; size <= 1 << 20; size = size * 3 + 1) {
        unsigned char *block = shmem_malloc(size);
        CHECK(block != NULL);
        CHECK_EQ((uintptr_t)block % 16, 0);
        use(block, size);
        shmem_free(block);
    }
}

static void alignments(void)
{
    for (size_t alignment = sizeof(void *); alignment <= 1 << 16; alignment *= 2) {
        unsigned char *first = shmem_align(alignment, 100), *second = shmem_align(alignment, 1);
        CHECK(first != NULL && second != NULL);
        CHECK_EQ((uintptr_t)first % alignment, 0);
        CHECK_EQ((uintptr_t)second % alignment, 0);
        use(first, 100);
        use(second, 1);
        shmem_free(first);
        shmem_free(second);
    }
}

static void zeroed(void)
{
    long *dirty = heap_block(50000);
    memset(dirty, 255, 50000);
    shmem_free(dirty);
    long *block = shmem_calloc(1000, 50);
    CHECK(block != NULL);
    /* Zeroes are there on every PE when this PE returns. */
    for (int pe = 0; pe < pes; pe++)
        CHECK_EQ(shmem_long_g(block + 6249, pe), 0);
    for (int i = 0; i < 6250; i++)
        CHECK_EQ(block[i], 0);
    shmem_barrier_all();
    use((unsigned char *)block, 50000);
    shmem_free(block);
    CHECK_PTR(shmem_calloc(SIZE_MAX / 2, 4), NULL);
    CHECK_PTR(shmem_calloc(SIZE_MAX, SIZE_MAX), NULL);
}

static void resized(void)
{
    int *block = shmem_realloc(NULL, 100 * sizeof *block);
    CHECK(block != NULL);
    for (int i = 0; i < 100; i++)
        block[i] = me * 1000 + i;
    size_t counts[] = {200, 50000, 300, 100, 10};
    for (int k = 0; k < 5; k++) {
        block = shmem_realloc(block, counts[k] * sizeof *block);
        CHECK(block != NULL);
        for (int i = 0; i < (counts[k] < 100 ? 10 : 100); i++)
            CHECK_EQ(block[i], me * 1000 + i);
        shmem_barrier_all();
        CHECK_EQ(shmem_int_g(block + 9, pes - 1), (pes - 1) * 1000 + 9);
        shmem_barrier_all();
    }
    /* A size that cannot be had leaves the block as it is. */
    CHECK_PTR(shmem_realloc(block, SIZE_MAX / 2), NULL);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(block[i], me * 1000 + i);
    CHECK_EQ(shmem_int_g(block + 9, pes - 1), (pes - 1) * 1000 + 9);
    shmem_barrier_all();
    CHECK_PTR(shmem_realloc(block, 0), NULL);
}

/* Calls of size zero do nothing and wait for no one: only one PE makes them here. */
static void nothing(void)
{
    if (me == pes - 1) {
        CHECK_PTR(shmem_malloc(0), NULL);
        CHECK_PTR(shmem_calloc(0, 8), NULL);
        CHECK_PTR(shmem_calloc(8, 0), NULL);
        CHECK_PTR(shmem_align(64, 0), NULL);
        CHECK_PTR(shmem_malloc_with_hints(0, SHMEM_MALLOC_ATOMICS_REMOTE), NULL);
        CHECK_PTR(shmem_realloc(NULL, 0), NULL);
        shmem_free(NULL);
    }
    shmem_barrier_all();
}

static void hints(void)
{
    long all = SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE;
    long tried[] = {0, SHMEM_MALLOC_ATOMICS_REMOTE, SHMEM_MALLOC_SIGNAL_REMOTE, all, 1l << 40};
    for (int i = 0; i < 5; i++) {
        uint64_t *block = shmem_malloc_with_hints(256, tried[i]);
        CHECK(block != NULL);
        block[5] = 0;
        shmem_barrier_all();
        shmem_uint64_atomic_add(block + 5, 1, pes - 1);
        shmem_barrier_all();
        CHECK_EQ(block[5], me == pes - 1 ? pes : 0);
        use((unsigned char *)block, 256);
        shmem_free(block);
    }
}

/* Blocks of many sizes, freed in another order and allocated again: none overlaps another, and each
 * is the same block on every PE. */
static void churn(void)
{
    unsigned *blocks[BLOCKS] = {NULL};
    size_t counts[BLOCKS];
    unsigned seed = 12345;
    for (int turn = 0; turn < 200; turn++) {
        seed = seed * 1103515245u + 12345u;
        int i = (int)(seed >> 16) % BLOCKS;
        if (blocks[i]) {
            for (size_t k = 0; k < counts[i]; k += 37)
                CHECK_AT("churn", i, k, blocks[i][k], (unsigned)(i * 1000 + me));
            shmem_free(blocks[i]);
            blocks[i] = NULL;
        } else {
            counts[i] = 1 + (seed >> 8) % 3000;
            blocks[i] = turn % 5 ? shmem_malloc(counts[i] * sizeof **blocks)
                                 : shmem_align(256, counts[i] * sizeof **blocks);
            CHECK(blocks[i] != NULL);
            for (size_t k = 0; k < counts[i]; k++)
                blocks[i][k] = (unsigned)(i * 1000 + me);
        }
    }
    shmem_barrier_all();
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i])
            for (int pe = 0; pe < pes; pe++)
                CHECK_EQ(shmem_uint_g(blocks[i] + counts[i] - 1, pe), (unsigned)(i * 1000 + pe));
    for (int i = 0; i < BLOCKS; i++)
        shmem_free(blocks[i]);
}

/* Too much is refused on all PEs alike; then the heap still works, and all of it comes back. */
static void exhausted(void)
{
    enum { MOST = 4096 };
    static void *blocks[MOST];
    int first = 0;
    CHECK_PTR(shmem_malloc(SIZE_MAX), NULL);
    CHECK_PTR(shmem_malloc(SIZE_MAX / 2), NULL);
    CHECK_PTR(shmem_align(4096, SIZE_MAX - 4096), NULL);
    for (int turn = 0; turn < 2; turn++) {
        int count = 0;
        while (count < MOST && (blocks[count] = shmem_malloc((size_t)4 << 20)) != NULL)
            count++;
        CHECK(count > 0);
        if (turn == 0)
            first = count;
        CHECK_EQ(count, first);
        static int counts;
        counts = count;
        shmem_barrier_all();
        CHECK_EQ(shmem_int_g(&counts, (me + 1) % pes), count);
        for (int i = 0; i < count; i++)
            shmem_free(blocks[i]);
    }
}

/* free completes what was put into the default context before it. */
static void completion(void)
{
    static long seen[MAX_PES];
    long *block = heap_block(64);
    memset(seen, 0, sizeof seen);
    shmem_barrier_all();
    shmem_long_p(&seen[me], 77 + me, (me + 1) % pes);
    shmem_free(block);
    int previous = (me + pes - 1) % pes;
    CHECK_EQ(seen[previous], 77 + previous);
    shmem_barrier_all();
    shmem_long_p(&seen[me], 88 + me, (me + 1) % pes);
    block = heap_block(64);
    CHECK_EQ(seen[previous], 88 + previous);
    shmem_free(block);
}

int main(void)
{
    check_begin();
    sizes();
    alignments();
    zeroed();
    resized();
    nothing();
    hints();
    churn();
    exhausted();
    completion();
    return check_end("memory");
}
