/* Collectives of active sets: barrier, sync, broadcast, collect, fcollect, alltoall and alltoalls
 * of 32 and 64 bits; sets with strides, different sets at once, sets of one PE. */
#include "sets.h"

/* Hidden by the type-generic macro of the same name, but a function of the library. */
extern void(shmem_sync)(int PE_start, int logPE_stride, int PE_size, long *pSync);

enum { MOST = 3, GUARD = 123456, LENGTH = MAX_PES * MOST * 3 + 1, ROUNDS = 6 };

static sync_arrays static_syncs;

#define IN(set) (set).start, (set).log_stride, (set).size

/* Each call takes the other pSync array of its set. */
static long *next_sync(sync_arrays syncs, int i)
{
    static int turns[SETS];
    return syncs[i][turns[i]++ % 2];
}

#define DEFINE_TEST(SIZE, T)                                                                       \
    static T static_source_##SIZE[LENGTH], static_dest_##SIZE[LENGTH];                             \
                                                                                                   \
    static T value_##SIZE(int from, int to, int i)                                                 \
    {                                                                                              \
        return (T)((uint64_t)(from * 1000 + to * 10 + i + 1) * UINT64_C(0x100000003));             \
    }                                                                                              \
    static void guard_##SIZE(T *words, T guard)                                                    \
    {                                                                                              \
        for (int i = 0; i < LENGTH; i++)                                                           \
            words[i] = guard;                                                                      \
    }                                                                                              \
    static void test_##SIZE(int which, sync_arrays syncs, T *dest, T *source)                      \
    {                                                                                              \
        active_set set = set_of(which);                                                            \
        int number = index_in(set), size = set.size;                                               \
        long *sync;                                                                                \
        if (number < 0)                                                                            \
            return;                                                                                \
        guard_##SIZE(source, GUARD + 1);                                                           \
        for (int to = 0; to < size; to++)                                                          \
            for (int i = 0; i < MOST; i++)                                                         \
                source[to * MOST + i] = value_##SIZE(number, to, i);                               \
        for (int root = 0; root < size; root += size > 1 ? size - 1 : 1) {                         \
            guard_##SIZE(dest, GUARD);                                                             \
            shmem_barrier(IN(set), next_sync(syncs, which));                                       \
            sync = next_sync(syncs, which);                                                        \
            shmem_broadcast##SIZE(dest + 1, source, MOST, root, IN(set), sync);                    \
            sync_check("broadcast" #SIZE, sync, SHMEM_BCAST_SYNC_SIZE);                            \
            for (int i = -1; i <= MOST; i++) {                                                     \
                int is_data = i >= 0 && i < MOST && number != root;                                \
                CHECK_AT("broadcast" #SIZE, root, i, dest[i + 1],                                  \
                         is_data ? value_##SIZE(root, 0, i) : GUARD);                              \
            }                                                                                      \
        }                                                                                          \
        guard_##SIZE(dest, GUARD);                                                                 \
        shmem_barrier(IN(set), next_sync(syncs, which));                                           \
        sync = next_sync(syncs, which);                                                            \
        shmem_collect##SIZE(dest, source, (size_t)(number % (MOST + 1)), IN(set), sync);           \
        sync_check("collect" #SIZE, sync, SHMEM_COLLECT_SYNC_SIZE);                                \
        int at = 0;                                                                                \
        for (int from = 0; from < size; from++)                                                    \
            for (int i = 0; i < from % (MOST + 1); i++, at++)                                      \
                CHECK_AT("collect" #SIZE, from, i, dest[at], value_##SIZE(from, 0, i));            \
        CHECK_AT("collect" #SIZE, size, at, dest[at], GUARD);                                      \
        guard_##SIZE(dest, GUARD);                                                                 \
        shmem_barrier(IN(set), next_sync(syncs, which));                                           \
        sync = next_sync(syncs, which);                                                            \
        shmem_fcollect##SIZE(dest, source, 2, IN(set), sync);                                      \
        sync_check("fcollect" #SIZE, sync, SHMEM_COLLECT_SYNC_SIZE);                               \
        for (int i = 0; i <= size * 2; i++)                                                        \
            CHECK_AT("fcollect" #SIZE, i / 2, i % 2, dest[i],                                      \
                     i < size * 2 ? value_##SIZE(i / 2, 0, i % 2) : GUARD);                        \
        guard_##SIZE(dest, GUARD);                                                                 \
        shmem_barrier(IN(set), next_sync(syncs, which));                                           \
        sync = next_sync(syncs, which);                                                            \
        shmem_alltoall##SIZE(dest, source, MOST, IN(set), sync);                                   \
        sync_check("alltoall" #SIZE, sync, SHMEM_ALLTOALL_SYNC_SIZE);                              \
        for (int i = 0; i <= size * MOST; i++)                                                     \
            CHECK_AT("alltoall" #SIZE, i / MOST, i % MOST, dest[i],                                \
                     i < size * MOST ? value_##SIZE(i / MOST, number, i % MOST) : GUARD);          \
        guard_##SIZE(dest, GUARD);                                                                 \
        (shmem_sync)(IN(set), next_sync(syncs, which));                                            \
        guard_##SIZE(source, GUARD + 1);                                                           \
        for (int to = 0; to < size; to++)                                                          \
            for (int i = 0; i < MOST; i++)                                                         \
                source[(to * MOST + i) * 3] = value_##SIZE(number, to, i);                         \
        shmem_barrier(IN(set), next_sync(syncs, which));                                           \
        sync = next_sync(syncs, which);                                                            \
        shmem_alltoalls##SIZE(dest, source, 2, 3, MOST, IN(set), sync);                            \
        sync_check("alltoalls" #SIZE, sync, SHMEM_ALLTOALLS_SYNC_SIZE);                            \
        for (int i = 0; i < size * MOST * 2; i++) {                                                \
            int element = i / 2;                                                                   \
            CHECK_AT("alltoalls" #SIZE, element, i % 2, dest[i],                                   \
                     i % 2 ? GUARD : value_##SIZE(element / MOST, number, element % MOST));        \
        }                                                                                          \
        shmem_barrier(IN(set), next_sync(syncs, which));                                           \
    }                                                                                              \
                                                                                                   \
    /* Sets follow each other as their members come; those without common members overlap. */      \
    static void tests_##SIZE(sync_arrays syncs, T *dest, T *source)                                \
    {                                                                                              \
        sync_reset(syncs);                                                                         \
        for (int which = 0; which < SETS; which++) {                                               \
            test_##SIZE(which, syncs, dest, source);                                               \
            if (which != 1)                                                                        \
                shmem_barrier_all();                                                               \
        }                                                                                          \
    }

DEFINE_TEST(32, uint32_t)
DEFINE_TEST(64, uint64_t)

/* barrier completes puts of its members; the same pSync serves again at once. */
static void barriers(sync_arrays syncs, long *words)
{
    sync_reset(syncs);
    for (int which = 0; which < SETS; which++) {
        active_set set = set_of(which);
        int number = index_in(set);
        memset(words, 0, MAX_PES * sizeof *words);
        shmem_barrier_all();
        if (number >= 0)
            for (long round = 1; round <= ROUNDS; round++) {
                int next = (number + 1) % set.size;
                int pe = set.start + (next ? next << set.log_stride : 0);
                shmem_long_p(words + number, round * 10 + number, pe);
                shmem_barrier(IN(set), syncs[which][0]);
                int previous = (number + set.size - 1) % set.size;
                CHECK_EQ(*(volatile long *)&words[previous], round * 10 + previous);
                (shmem_sync)(IN(set), syncs[which][1]);
                (shmem_sync)(IN(set), syncs[which][1]);
            }
        shmem_barrier_all();
        sync_check("barrier", syncs[which][0], SHMEM_BARRIER_SYNC_SIZE);
        if (number < 0)
            for (int i = 0; i < MAX_PES; i++)
                CHECK_EQ(words[i], 0);
    }
    /* The halves of the job meet at different paces. */
    active_set lower = {0, 0, pes / 2}, upper = {pes / 2, 0, pes - pes / 2};
    active_set mine = me < pes / 2 ? lower : upper;
    shmem_barrier_all();
    for (int round = 0; round < (me < pes / 2 ? 30 : 7); round++)
        shmem_barrier(IN(mine), syncs[me < pes / 2][0]);
    shmem_barrier_all();
    for (int round = 0; round < 20; round++) {
        shmem_barrier_all();
        shmem_sync_all();
    }
}

int main(void)
{
    static long static_words[MAX_PES];
    check_begin();
    long(*heap_syncs)[2][SHMEM_SYNC_SIZE] = heap_block(sizeof static_syncs);
    uint64_t *dest = heap_block(LENGTH * sizeof *dest), *source = heap_block(LENGTH * sizeof *dest);
    long *words = heap_block(sizeof static_words);
    tests_32(static_syncs, static_dest_32, (uint32_t *)source);
    tests_32(heap_syncs, (uint32_t *)dest, static_source_32);
    tests_64(static_syncs, static_dest_64, source);
    tests_64(heap_syncs, dest, static_source_64);
    barriers(static_syncs, words);
    barriers(heap_syncs, static_words);
    shmem_free(words);
    shmem_free(source);
    shmem_free(dest);
    shmem_free(heap_syncs);
    return check_end("collectives_set");
}
