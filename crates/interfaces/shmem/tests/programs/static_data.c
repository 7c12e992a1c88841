/* Objects with static storage as symmetric objects, before any allocation: globals, file statics,
 * function statics, initialized or not, large ones, and neighbours of constants. The globals of
 * static_library.c, a shared library, may be symmetric or not; the library has to know which. */
#include "check.h"

enum { LARGE = (64 << 20) / sizeof(long), SYNC = SHMEM_SYNC_SIZE };

extern long library_data, library_bss[100];
long *library_static(void);

long global_bss;
long global_data = 11;
static long file_bss;
static long file_data = 22;
static long large_bss[LARGE];
static const long constant_before = 33;
static long beside_constants = 44;
static const long constant_after = 55;
static char odd_bytes[3] = {1, 2, 3};
static long shared_lock;
static uint64_t flags[MAX_PES];
static long sync_first[SYNC], sync_second[SYNC];
static long double wide = 1.5L;

static long *function_bss(void)
{
    static long object;
    return &object;
}

static long *function_data(void)
{
    static long object = 66;
    return &object;
}

/* Initial values are there on every PE; then each object is written, read, added to, waited on. */
static void object(const char *name, long *word, long initial)
{
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    for (int pe = 0; pe < pes; pe++) {
        CHECK_AT(name, pe, 0, shmem_long_g(word, pe), initial);
        CHECK_EQ(shmem_addr_accessible(word, pe), 1);
    }
    CHECK_PTR(shmem_ptr(word, me), word);
    shmem_barrier_all();
    shmem_long_p(word, 1000 + me, next);
    shmem_long_wait_until(word, SHMEM_CMP_EQ, 1000 + previous);
    CHECK_AT(name, previous, 1, *(volatile long *)word, 1000 + previous);
    shmem_barrier_all();
    CHECK_AT(name, next, 2, shmem_long_atomic_fetch_add(word, 5, next), 1000 + me);
    shmem_barrier_all();
    CHECK_AT(name, previous, 3, *(volatile long *)word, 1005 + previous);
    shmem_barrier_all();
    *word = 7 * me;
    shmem_barrier_all();
    long back[1];
    shmem_long_get(back, word, 1, pes - 1);
    CHECK_AT(name, pes - 1, 4, back[0], 7 * (pes - 1));
    long *near = shmem_ptr(word, next);
    if (near)
        CHECK_AT(name, next, 5, *near, 7 * next);
    shmem_barrier_all();
}

static void objects(void)
{
    object("global_bss", &global_bss, 0);
    object("global_data", &global_data, 11);
    object("file_bss", &file_bss, 0);
    object("file_data", &file_data, 22);
    object("function_bss", function_bss(), 0);
    object("function_data", function_data(), 66);
    object("beside_constants", &beside_constants, 44);
    CHECK_EQ(*(const volatile long *)&constant_before, 33);
    CHECK_EQ(*(const volatile long *)&constant_after, 55);
    object("large_bss[0]", &large_bss[0], 0);
    object("large_bss[middle]", &large_bss[LARGE / 2], 0);
    object("large_bss[last]", &large_bss[LARGE - 1], 0);
}

static void bytes(void)
{
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    shmem_barrier_all();
    shmem_char_p(&odd_bytes[1], (char)(40 + me), next);
    shmem_barrier_all();
    CHECK_EQ(odd_bytes[0], 1);
    CHECK_EQ(odd_bytes[1], 40 + previous);
    CHECK_EQ(odd_bytes[2], 3);
    CHECK_EQ(shmem_longdouble_g(&wide, pes - 1), 1.5L);
    shmem_barrier_all();
    shmem_longdouble_p(&wide, 2.25L + me, next);
    shmem_barrier_all();
    CHECK_EQ(wide, 2.25L + previous);
    shmem_barrier_all();
}

/* 16 MiB out of the middle of the large array, and its neighbours untouched. */
static void large(void)
{
    enum { WORDS = (16 << 20) / sizeof(long), START = LARGE / 4 + 3 };
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    long *source = malloc(WORDS * sizeof *source);
    CHECK(source != NULL);
    for (long i = 0; i < WORDS; i++)
        source[i] = i * 16 + me;
    shmem_barrier_all();
    shmem_long_put(&large_bss[START], source, WORDS, next);
    shmem_barrier_all();
    CHECK_EQ(large_bss[START - 1], 0);
    CHECK_EQ(large_bss[START + WORDS], 0);
    for (long i = 0; i < WORDS; i++)
        if (large_bss[START + i] != i * 16 + previous)
            CHECK_AT("large_bss", previous, i, large_bss[START + i], i * 16 + previous);
    shmem_long_get(source, &large_bss[START], WORDS, next);
    CHECK_EQ(source[0], me);
    CHECK_EQ(source[WORDS - 1], (WORDS - 1) * 16 + me);
    free(source);
    shmem_barrier_all();
}

static void locks(void)
{
    static long count;
    for (int i = 0; i < 10; i++) {
        shmem_set_lock(&shared_lock);
        shmem_long_p(&count, shmem_long_g(&count, 0) + 1, 0);
        shmem_clear_lock(&shared_lock);
    }
    shmem_barrier_all();
    CHECK_EQ(shmem_long_g(&count, 0), 10 * pes);
}

static void collectives(void)
{
    static int32_t source[2], broadcast[2], collected[MAX_PES * 2];
    static long sum_source, sum, work[SHMEM_REDUCE_MIN_WRKDATA_SIZE + 1];
    for (int i = 0; i < SYNC; i++)
        sync_first[i] = sync_second[i] = SHMEM_SYNC_VALUE;
    source[0] = me + 1;
    source[1] = -me;
    sum_source = me + 10;
    shmem_barrier_all();
    shmem_broadcast32(broadcast, source, 2, pes - 1, 0, 0, pes, sync_first);
    CHECK_EQ(broadcast[0], me == pes - 1 ? 0 : pes);
    shmem_fcollect32(collected, source, 2, 0, 0, pes, sync_second);
    for (int pe = 0; pe < pes; pe++) {
        CHECK_EQ(collected[2 * pe], pe + 1);
        CHECK_EQ(collected[2 * pe + 1], -pe);
    }
    shmem_barrier_all();
    shmem_long_sum_to_all(&sum, &sum_source, 1, 0, 0, pes, work, sync_first);
    CHECK_EQ(sum, 10 * pes + pes * (pes - 1) / 2);
    shmem_barrier_all();
}

/* Where the library says that such an address is accessible, it works like any other. An object
 * that the executable names may have been moved into it by the linker, so each is asked for. */
static void of_the_library(void)
{
    static int known[3];
    struct {
        const char *name;
        long *word, initial;
    } objects[3] = {{"library_data", &library_data, 4321},
                    {"library_bss", &library_bss[99], 0},
                    {"library_static", library_static(), 99}};
    for (int i = 0; i < 3; i++) {
        known[i] = shmem_addr_accessible(objects[i].word, 0);
        CHECK_EQ(*objects[i].word, objects[i].initial);
    }
    shmem_barrier_all();
    for (int i = 0; i < 3; i++) {
        for (int pe = 0; pe < pes; pe++)
            CHECK_EQ(shmem_int_g(&known[i], pe), known[i]);
        if (known[i])
            object(objects[i].name, objects[i].word, objects[i].initial);
    }
}

int main(void)
{
    check_begin();
    objects();
    bytes();
    large();
    locks();
    collectives();
    for (int pe = 0; pe < pes; pe++)
        shmem_uint64_atomic_set(&flags[me], (uint64_t)me + 1, pe);
    for (int pe = 0; pe < pes; pe++)
        shmem_uint64_wait_until(&flags[pe], SHMEM_CMP_EQ, (uint64_t)pe + 1);
    shmem_barrier_all();
    of_the_library();
    /* The heap comes after, and leaves the static objects alone. */
    global_bss = 5 + me;
    long *heap = heap_block(1 << 20);
    memset(heap, 255, 1 << 20);
    shmem_barrier_all();
    CHECK_EQ(shmem_long_g(&global_bss, pes - 1), 5 + pes - 1);
    shmem_long_put(heap, &global_bss, 1, (me + 1) % pes);
    shmem_barrier_all();
    CHECK_EQ(heap[0], 5 + (me + pes - 1) % pes);
    CHECK_EQ(heap[1], -1);
    shmem_free(heap);
    return check_end("static_data");
}
