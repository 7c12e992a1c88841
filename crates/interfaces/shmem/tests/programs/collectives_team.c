/* Collectives of teams for every type: broadcast, collect, fcollect, alltoall, alltoalls; of the
 * world, of every second PE, and of the world in reverse; one after another without any
 * synchronization in between. */
#include "check.h"
#include "types.h"

enum { MOST = 4, GUARD = 251, TEAMS = 3, LENGTH = MAX_PES * MOST * 3 + 1 };

static shmem_team_t teams[TEAMS];

#define DEFINE_VALUE(N, T, C)                                                                      \
    static inline T value_##N(int number)                                                          \
    {                                                                                              \
        return VALUE_##C(T, number);                                                               \
    }                                                                                              \
    static T static_source_##N[LENGTH], static_dest_##N[LENGTH];                                   \
    static void guard_##N(T *words, int number)                                                    \
    {                                                                                              \
        for (int i = 0; i < LENGTH; i++)                                                           \
            words[i] = value_##N(number);                                                          \
    }

/* An element that PE `from` of a team has for PE `to`. */
static int number_of(int from, int to, int i)
{
    return (from * 16 + to * 3 + i * 7) % 250;
}

#define CALLS_TYPED(N, T)                                                                          \
    static int broadcast_##N(shmem_team_t t, T *d, const T *s, size_t n, int root)                 \
    {                                                                                              \
        return shmem_##N##_broadcast(t, d, s, n, root);                                            \
    }                                                                                              \
    static int collect_##N(shmem_team_t t, T *d, const T *s, size_t n)                             \
    {                                                                                              \
        return shmem_##N##_collect(t, d, s, n);                                                    \
    }                                                                                              \
    static int fcollect_##N(shmem_team_t t, T *d, const T *s, size_t n)                            \
    {                                                                                              \
        return shmem_##N##_fcollect(t, d, s, n);                                                   \
    }                                                                                              \
    static int alltoall_##N(shmem_team_t t, T *d, const T *s, size_t n)                            \
    {                                                                                              \
        return shmem_##N##_alltoall(t, d, s, n);                                                   \
    }                                                                                              \
    static int alltoalls_##N(shmem_team_t t, T *d, const T *s, int dst, int sst, size_t n)         \
    {                                                                                              \
        return shmem_##N##_alltoalls(t, d, s, dst, sst, n);                                        \
    }

#define CALLS_OF_BYTES(N, T)                                                                       \
    static int broadcast_##N(shmem_team_t t, T *d, const T *s, size_t n, int root)                 \
    {                                                                                              \
        return shmem_broadcastmem(t, d, s, n * sizeof(T), root);                                   \
    }                                                                                              \
    static int collect_##N(shmem_team_t t, T *d, const T *s, size_t n)                             \
    {                                                                                              \
        return shmem_collectmem(t, d, s, n * sizeof(T));                                           \
    }                                                                                              \
    static int fcollect_##N(shmem_team_t t, T *d, const T *s, size_t n)                            \
    {                                                                                              \
        return shmem_fcollectmem(t, d, s, n * sizeof(T));                                          \
    }                                                                                              \
    static int alltoall_##N(shmem_team_t t, T *d, const T *s, size_t n)                            \
    {                                                                                              \
        return shmem_alltoallmem(t, d, s, n * sizeof(T));                                          \
    }                                                                                              \
    static int alltoalls_##N(shmem_team_t t, T *d, const T *s, int dst, int sst, size_t n)         \
    {                                                                                              \
        return shmem_alltoallsmem(t, d, s, dst, sst, n * sizeof(T));                               \
    }

/* Every collective once, checked with what lies behind its result. */
#define TESTS(N, T, C)                                                                             \
    DEFINE_VALUE(N, T, C)                                                                          \
    static void test_in_##N(shmem_team_t team, T *dest, T *source)                                 \
    {                                                                                              \
        int number = shmem_team_my_pe(team), size = shmem_team_n_pes(team);                        \
        guard_##N(source, GUARD + 1);                                                              \
        for (int to = 0; to < size; to++)                                                          \
            for (int i = 0; i < MOST; i++)                                                         \
                source[to * MOST + i] = value_##N(number_of(number, to, i));                       \
        for (int root = 0; root < size; root += size > 1 ? size - 1 : 1) {                         \
            guard_##N(dest, GUARD);                                                                \
            shmem_team_sync(team);                                                                 \
            CHECK_EQ(broadcast_##N(team, dest + 1, source, MOST, root), 0);                        \
            for (int i = -1; i <= MOST; i++) {                                                     \
                int is_data = i >= 0 && i < MOST;                                                  \
                CHECK_AT("broadcast " #N, root, i, dest[i + 1],                                    \
                         value_##N(is_data ? number_of(root, 0, i) : GUARD));                      \
            }                                                                                      \
        }                                                                                          \
        /* PE i gives i % 4 elements. */                                                           \
        guard_##N(dest, GUARD);                                                                    \
        shmem_team_sync(team);                                                                     \
        CHECK_EQ(collect_##N(team, dest, source, (size_t)(number % 4)), 0);                        \
        int at = 0;                                                                                \
        for (int from = 0; from < size; from++)                                                    \
            for (int i = 0; i < from % 4; i++, at++)                                               \
                CHECK_AT("collect " #N, from, i, dest[at], value_##N(number_of(from, 0, i)));      \
        CHECK_AT("collect " #N, size, at, dest[at], value_##N(GUARD));                             \
        guard_##N(dest, GUARD);                                                                    \
        shmem_team_sync(team);                                                                     \
        CHECK_EQ(fcollect_##N(team, dest, source, 3), 0);                                          \
        for (int from = 0; from < size; from++)                                                    \
            for (int i = 0; i < 3; i++)                                                            \
                CHECK_AT("fcollect " #N, from, i, dest[from * 3 + i],                              \
                         value_##N(number_of(from, 0, i)));                                        \
        CHECK_AT("fcollect " #N, size, 0, dest[size * 3], value_##N(GUARD));                       \
        guard_##N(dest, GUARD);                                                                    \
        shmem_team_sync(team);                                                                     \
        CHECK_EQ(alltoall_##N(team, dest, source, MOST), 0);                                       \
        for (int from = 0; from < size; from++)                                                    \
            for (int i = 0; i < MOST; i++)                                                         \
                CHECK_AT("alltoall " #N, from, i, dest[from * MOST + i],                           \
                         value_##N(number_of(from, number, i)));                                   \
        CHECK_AT("alltoall " #N, size, 0, dest[size * MOST], value_##N(GUARD));                    \
        guard_##N(dest, GUARD);                                                                    \
        shmem_team_sync(team);                                                                     \
        /* Calls with no elements still match, and write nothing. */                               \
        CHECK_EQ(broadcast_##N(team, dest, source, 0, 0), 0);                                      \
        CHECK_EQ(collect_##N(team, dest, source, 0), 0);                                           \
        CHECK_EQ(fcollect_##N(team, dest, source, 0), 0);                                          \
        CHECK_EQ(alltoall_##N(team, dest, source, 0), 0);                                          \
        CHECK_EQ(alltoalls_##N(team, dest, source, 1, 1, 0), 0);                                   \
        CHECK_EQ(alltoalls_##N(team, dest, source, 1, 1, MOST), 0);                                \
        for (int i = 0; i < size * MOST; i++)                                                      \
            CHECK_AT("alltoalls " #N, i, 0, dest[i],                                               \
                     value_##N(number_of(i / MOST, number, i % MOST)));                            \
        CHECK_AT("alltoalls " #N, size, 0, dest[size * MOST], value_##N(GUARD));                   \
        shmem_team_sync(team);                                                                     \
    }                                                                                              \
    static void test_##N(void *heap_dest, void *heap_source)                                       \
    {                                                                                              \
        for (int i = 0; i < TEAMS; i++)                                                            \
            if (teams[i] != SHMEM_TEAM_INVALID) {                                                  \
                test_in_##N(teams[i], static_dest_##N, heap_source);                               \
                test_in_##N(teams[i], heap_dest, static_source_##N);                               \
            }                                                                                      \
    }

/* Elements two apart in the source and three apart in the destination. */
#define TESTS_OF_STRIDES(N, T, C)                                                                  \
    static void strides_in_##N(shmem_team_t team, T *dest, T *source)                              \
    {                                                                                              \
        int number = shmem_team_my_pe(team), size = shmem_team_n_pes(team);                        \
        guard_##N(dest, GUARD);                                                                    \
        guard_##N(source, GUARD + 1);                                                              \
        for (int to = 0; to < size; to++)                                                          \
            for (int i = 0; i < MOST; i++)                                                         \
                source[(to * MOST + i) * 2] = value_##N(number_of(number, to, i));                 \
        shmem_team_sync(team);                                                                     \
        CHECK_EQ(alltoalls_##N(team, dest, source, 3, 2, MOST), 0);                                \
        for (int i = 0; i < size * MOST * 3; i++) {                                                \
            int element = i / 3;                                                                   \
            CHECK_AT("alltoalls " #N, element, i % 3, dest[i],                                     \
                     value_##N(i % 3 ? GUARD                                                       \
                                     : number_of(element / MOST, number, element % MOST)));        \
        }                                                                                          \
        shmem_team_sync(team);                                                                     \
    }                                                                                              \
    static void strides_##N(void *heap_dest, void *heap_source)                                    \
    {                                                                                              \
        for (int i = 0; i < TEAMS; i++)                                                            \
            if (teams[i] != SHMEM_TEAM_INVALID) {                                                  \
                strides_in_##N(teams[i], static_dest_##N, heap_source);                            \
                strides_in_##N(teams[i], heap_dest, static_source_##N);                            \
            }                                                                                      \
    }

#define DEFINE_TYPED(N, T, C) CALLS_TYPED(N, T) TESTS(N, T, C) TESTS_OF_STRIDES(N, T, C)
RMA_TYPES(DEFINE_TYPED)
CALLS_OF_BYTES(words, uint64_t)
TESTS(words, uint64_t, INT)
CALLS_OF_BYTES(bytes, uint8_t)
TESTS(bytes, uint8_t, INT)
TESTS_OF_STRIDES(bytes, uint8_t, INT)

/* Collectives back to back, on two overlapping teams, in place, and large. */
static void sequences(long *dest, long *source)
{
    for (long round = 0; round < 50; round++) {
        int root = (int)(round % pes);
        source[0] = round * 100 + me;
        CHECK_EQ(shmem_long_broadcast(SHMEM_TEAM_WORLD, dest, source, 1, root), 0);
        CHECK_EQ(dest[0], round * 100 + root);
        CHECK_EQ(shmem_long_fcollect(teams[2], dest + 1, dest, 1), 0);
        for (int pe = 0; pe < pes; pe++)
            CHECK_EQ(dest[1 + pe], round * 100 + root);
        shmem_sync_all();
    }
    source[0] = 77 + me;
    shmem_barrier_all();
    CHECK_EQ(shmem_long_broadcast(SHMEM_TEAM_WORLD, source, source, 1, pes - 1), 0);
    CHECK_EQ(source[0], 77 + pes - 1);
    shmem_barrier_all();
    enum { LARGE = 1 << 17 };
    long *large = heap_block(LARGE * sizeof *large), *all;
    all = heap_block(LARGE * sizeof *all * (size_t)pes);
    for (long i = 0; i < LARGE; i++)
        large[i] = i * 16 + me;
    shmem_barrier_all();
    CHECK_EQ(shmem_long_fcollect(SHMEM_TEAM_WORLD, all, large, LARGE), 0);
    for (long i = 0; i < (long)LARGE * pes; i++)
        if (all[i] != i % LARGE * 16 + i / LARGE)
            CHECK_AT("large fcollect", i / LARGE, i % LARGE, all[i], i % LARGE * 16 + i / LARGE);
    shmem_free(all);
    shmem_free(large);
}

int main(void)
{
    check_begin();
    teams[0] = SHMEM_TEAM_WORLD;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (pes + 1) / 2, NULL, 0, &teams[1]),
             0);
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, pes - 1, -1, pes, NULL, 0, &teams[2]), 0);
    void *dest = heap_block(LENGTH * sizeof(long double));
    void *source = heap_block(LENGTH * sizeof(long double));
#define RUN(N, T, C) test_##N(dest, source), strides_##N(dest, source);
    RMA_TYPES(RUN)
    test_words(dest, source);
    test_bytes(dest, source);
    strides_bytes(dest, source);
    shmem_barrier_all();
    sequences(dest, source);
    static long static_dest[MAX_PES + 1], static_source[1];
    sequences(static_dest, static_source);
    shmem_team_destroy(teams[1]);
    shmem_team_destroy(teams[2]);
    shmem_free(source);
    shmem_free(dest);
    return check_end("collectives_team");
}
