/* Start, numbers, versions, accessibility, addresses, cache calls, profiling control, and the names
 * of before 1.2. */
#include "check.h"

static int in_bss, in_data = 7;

static void versions(void)
{
    int major = -1, minor = -1;
    char name[SHMEM_MAX_NAME_LEN + 1];
    memset(name, 'x', sizeof name);
    shmem_info_get_version(&major, &minor);
    CHECK_EQ(major, SHMEM_MAJOR_VERSION);
    CHECK_EQ(minor, SHMEM_MINOR_VERSION);
    CHECK_EQ(OSHMEM_SPEC_VERSION, major * 10000 + minor * 100);
    shmem_info_get_name(name);
    CHECK_EQ(name[SHMEM_MAX_NAME_LEN], 'x');
    CHECK(memchr(name, 0, SHMEM_MAX_NAME_LEN) != NULL);
    CHECK_EQ(strcmp(name, SHMEM_VENDOR_STRING), 0);
    CHECK_EQ(_SHMEM_MAJOR_VERSION, SHMEM_MAJOR_VERSION);
    CHECK_EQ(_SHMEM_MINOR_VERSION, SHMEM_MINOR_VERSION);
    CHECK_EQ(_SHMEM_MAX_NAME_LEN, SHMEM_MAX_NAME_LEN);
    CHECK_EQ(strcmp(_SHMEM_VENDOR_STRING, SHMEM_VENDOR_STRING), 0);
}

static void constants(void)
{
    CHECK(SHMEM_THREAD_SINGLE < SHMEM_THREAD_FUNNELED);
    CHECK(SHMEM_THREAD_FUNNELED < SHMEM_THREAD_SERIALIZED);
    CHECK(SHMEM_THREAD_SERIALIZED < SHMEM_THREAD_MULTIPLE);
    CHECK((SHMEM_CTX_PRIVATE & SHMEM_CTX_SERIALIZED) == 0);
    CHECK((SHMEM_CTX_PRIVATE & SHMEM_CTX_NOSTORE) == 0);
    CHECK((SHMEM_CTX_SERIALIZED & SHMEM_CTX_NOSTORE) == 0);
    CHECK(SHMEM_CTX_PRIVATE && SHMEM_CTX_SERIALIZED && SHMEM_CTX_NOSTORE);
    CHECK(SHMEM_SYNC_SIZE >= SHMEM_BARRIER_SYNC_SIZE && SHMEM_SYNC_SIZE >= SHMEM_BCAST_SYNC_SIZE);
    CHECK(SHMEM_SYNC_SIZE >= SHMEM_COLLECT_SYNC_SIZE && SHMEM_SYNC_SIZE >= SHMEM_REDUCE_SYNC_SIZE);
    CHECK(SHMEM_SYNC_SIZE >= SHMEM_ALLTOALL_SYNC_SIZE);
    CHECK(SHMEM_SYNC_SIZE >= SHMEM_ALLTOALLS_SYNC_SIZE);
    CHECK(SHMEM_REDUCE_MIN_WRKDATA_SIZE >= 1);
    CHECK_EQ(_SHMEM_SYNC_VALUE, SHMEM_SYNC_VALUE);
    CHECK_EQ(_SHMEM_BARRIER_SYNC_SIZE, SHMEM_BARRIER_SYNC_SIZE);
    CHECK_EQ(_SHMEM_BCAST_SYNC_SIZE, SHMEM_BCAST_SYNC_SIZE);
    CHECK_EQ(_SHMEM_COLLECT_SYNC_SIZE, SHMEM_COLLECT_SYNC_SIZE);
    CHECK_EQ(_SHMEM_REDUCE_SYNC_SIZE, SHMEM_REDUCE_SYNC_SIZE);
    CHECK_EQ(_SHMEM_REDUCE_MIN_WRKDATA_SIZE, SHMEM_REDUCE_MIN_WRKDATA_SIZE);
    CHECK(SHMEM_SIGNAL_SET != SHMEM_SIGNAL_ADD);
    CHECK((SHMEM_MALLOC_ATOMICS_REMOTE & SHMEM_MALLOC_SIGNAL_REMOTE) == 0);
    int comparisons[] = {SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_GT,
                         SHMEM_CMP_GE, SHMEM_CMP_LT, SHMEM_CMP_LE};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++)
            CHECK(comparisons[i] != comparisons[j]);
}

static void accessible(void)
{
    static char in_function;
    int on_stack = 0;
    char *in_heap = heap_block(4096);
    void *private = malloc(64);
    for (int pe = 0; pe < pes; pe++) {
        CHECK_EQ(shmem_pe_accessible(pe), 1);
        CHECK_EQ(shmem_addr_accessible(&in_bss, pe), 1);
        CHECK_EQ(shmem_addr_accessible(&in_data, pe), 1);
        CHECK_EQ(shmem_addr_accessible(&in_function, pe), 1);
        CHECK_EQ(shmem_addr_accessible(in_heap, pe), 1);
        CHECK_EQ(shmem_addr_accessible(in_heap + 4095, pe), 1);
        CHECK_EQ(shmem_addr_accessible(&on_stack, pe), 0);
        CHECK_EQ(shmem_addr_accessible(private, pe), 0);
        CHECK_EQ(shmem_addr_accessible(NULL, pe), 0);
    }
    int strange[] = {-1, pes, pes + 1, -1000000, 1 << 30};
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(shmem_pe_accessible(strange[i]), 0);
        CHECK_EQ(shmem_addr_accessible(&in_data, strange[i]), 0);
        CHECK_EQ(shmem_addr_accessible(in_heap, strange[i]), 0);
    }
    free(private);
    shmem_free(in_heap);
}

/* Loads and stores through shmem_ptr reach the other PE, where there is an address at all. */
static void pointers(void)
{
    int on_stack = 0;
    int *in_heap = heap_block(2 * sizeof *in_heap);
    int *objects[] = {&in_bss, &in_data, in_heap, in_heap + 1};
    CHECK_PTR(shmem_ptr(&on_stack, pes - 1), NULL);
    for (int i = 0; i < 4; i++) {
        CHECK_PTR(shmem_ptr(objects[i], me), objects[i]);
        *objects[i] = 100 * me + i;
    }
    shmem_barrier_all();
    for (int i = 0; i < 4; i++) {
        int next = (me + 1) % pes, *near = shmem_ptr(objects[i], next);
        if (near) {
            CHECK_EQ(*near, 100 * next + i);
            *near = -100 * me - i;
        }
        shmem_barrier_all();
        int previous = (me + pes - 1) % pes;
        if (shmem_ptr(objects[i], previous))
            CHECK_EQ(*(volatile int *)objects[i], -100 * previous - i);
        shmem_barrier_all();
    }
    shmem_free(in_heap);
}

static void old_names(void)
{
    start_pes(0);
    start_pes(12345);
    CHECK_EQ(_my_pe(), me);
    CHECK_EQ(_num_pes(), pes);
    long *block = shmalloc(64);
    CHECK(block != NULL);
    block[0] = me;
    shmem_barrier_all();
    CHECK_EQ(shmem_long_g(block, pes - 1), pes - 1);
    block = shrealloc(block, 8192);
    CHECK(block != NULL);
    CHECK_EQ(block[0], me);
    shfree(block);
    block = shmemalign(512, 64);
    CHECK_EQ((uintptr_t)block % 512, 0);
    shfree(block);
}

static void without_effect(void)
{
    long word = 5;
    shmem_pcontrol(0);
    shmem_pcontrol(1);
    shmem_pcontrol(2, 3, "four");
    shmem_pcontrol(-17);
    shmem_clear_cache_inv();
    shmem_set_cache_inv();
    shmem_set_cache_line_inv(&in_data);
    shmem_clear_cache_line_inv(&in_data);
    shmem_udcflush();
    shmem_udcflush_line(&in_data);
    CHECK_EQ(word, 5);
}

int main(void)
{
    int level = -1;
    check_begin();
    CHECK(pes >= 1);
    CHECK(me >= 0 && me < pes);
    CHECK_EQ(shmem_my_pe(), me);
    CHECK_EQ(shmem_n_pes(), pes);
    shmem_query_thread(&level);
    CHECK(level >= SHMEM_THREAD_SINGLE && level <= SHMEM_THREAD_MULTIPLE);
    versions();
    constants();
    accessible();
    pointers();
    old_names();
    without_effect();
    /* Every number is taken exactly once. */
    static int taken[MAX_PES];
    for (int pe = 0; pe < pes; pe++)
        shmem_int_atomic_inc(&taken[me], pe);
    shmem_barrier_all();
    for (int pe = 0; pe < MAX_PES; pe++)
        CHECK_EQ(taken[pe], pe < pes);
    return check_end("setup_query");
}
