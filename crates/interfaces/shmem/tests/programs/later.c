/* Functions of version 1.6: blocks that lie apart, signals without data, prefix sums, pointers by
 * the numbers of a team, a quiet of some PEs, sessions, and whether the library is set up. */
#include "check.h"
#include "types.h"

enum { BLOCK = 2, BLOCKS = 3, DEST_STRIDE = 4, SOURCE_STRIDE = 3 };
enum { DEST_LENGTH = BLOCKS * DEST_STRIDE, SOURCE_LENGTH = BLOCKS * SOURCE_STRIDE };

#define GEOMETRY DEST_STRIDE, SOURCE_STRIDE, BLOCK, BLOCKS
#define VALUE(T, pe, i) ((T)((pe) * SOURCE_LENGTH + (i) + 1))

static shmem_ctx_t ctx;

/* Makes a transfer and looks at every element: those between the blocks stay as they were. */
#define TRANSFER(T, dest, call, from)                                                              \
    do {                                                                                           \
        memset(dest, 0, sizeof dest);                                                              \
        shmem_barrier_all();                                                                       \
        call;                                                                                      \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        for (int i = 0; i < DEST_LENGTH; i++) {                                                    \
            int block = i / DEST_STRIDE, at = i % DEST_STRIDE;                                     \
            T value = at < BLOCK ? VALUE(T, from, block * SOURCE_STRIDE + at) : (T)0;              \
            CHECK_AT(#call, from, i, (dest)[i], value);                                            \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
    } while (0)

#define DEFINE_TYPED(NAME, T, CLASS)                                                               \
    static T dest_##NAME[DEST_LENGTH], source_##NAME[SOURCE_LENGTH];                               \
    static void blocks_of_##NAME(int next, int previous)                                           \
    {                                                                                              \
        T *dest = dest_##NAME, *source = source_##NAME;                                            \
        for (int i = 0; i < SOURCE_LENGTH; i++)                                                    \
            source[i] = VALUE(T, me, i);                                                           \
        TRANSFER(T, dest_##NAME, shmem_##NAME##_ibput(dest, source, GEOMETRY, next), previous);    \
        TRANSFER(T, dest_##NAME, shmem_##NAME##_ibget(dest, source, GEOMETRY, next), next);        \
        TRANSFER(T, dest_##NAME, shmem_ctx_##NAME##_ibput(ctx, dest, source, GEOMETRY, next),      \
                 previous);                                                                        \
        TRANSFER(T, dest_##NAME, shmem_ctx_##NAME##_ibget(ctx, dest, source, GEOMETRY, next),      \
                 next);                                                                            \
        TRANSFER(T, dest_##NAME, shmem_ibput(dest, source, GEOMETRY, next), previous);             \
        TRANSFER(T, dest_##NAME, shmem_ibget(ctx, dest, source, GEOMETRY, next), next);            \
    }
RMA_TYPES(DEFINE_TYPED)

#define CALL_TYPED(NAME, T, CLASS) blocks_of_##NAME(next, previous);

/* Of elements by their size, each of which is filled with one byte. */
#define DEFINE_SIZED(SIZE)                                                                         \
    static void sized_##SIZE(int next, int previous)                                               \
    {                                                                                              \
        enum { BYTES = SIZE / 8 };                                                                 \
        static unsigned char dest[DEST_LENGTH * BYTES], source[SOURCE_LENGTH * BYTES];             \
        for (int i = 0; i < SOURCE_LENGTH * BYTES; i++)                                            \
            source[i] = VALUE(unsigned char, me, i / BYTES);                                       \
        for (int form = 0; form < 4; form++) {                                                     \
            int from = form % 2 ? next : previous;                                                 \
            memset(dest, 0, sizeof dest);                                                          \
            shmem_barrier_all();                                                                   \
            switch (form) {                                                                        \
            case 0:                                                                                \
                shmem_ibput##SIZE(dest, source, GEOMETRY, next);                                   \
                break;                                                                             \
            case 1:                                                                                \
                shmem_ibget##SIZE(dest, source, GEOMETRY, next);                                   \
                break;                                                                             \
            case 2:                                                                                \
                shmem_ctx_ibput##SIZE(ctx, dest, source, GEOMETRY, next);                          \
                break;                                                                             \
            default:                                                                               \
                shmem_ctx_ibget##SIZE(ctx, dest, source, GEOMETRY, next);                          \
            }                                                                                      \
            shmem_ctx_quiet(ctx);                                                                  \
            shmem_barrier_all();                                                                   \
            for (int i = 0; i < DEST_LENGTH * BYTES; i++) {                                        \
                int block = i / BYTES / DEST_STRIDE, at = i / BYTES % DEST_STRIDE;                 \
                int number = block * SOURCE_STRIDE + at;                                           \
                CHECK_AT("blocks of " #SIZE " bits", form, i, dest[i],                             \
                         at < BLOCK ? VALUE(unsigned char, from, number) : 0);                     \
            }                                                                                      \
            shmem_barrier_all();                                                                   \
        }                                                                                          \
    }
DEFINE_SIZED(8)
DEFINE_SIZED(16)
DEFINE_SIZED(32)
DEFINE_SIZED(64)
DEFINE_SIZED(128)

static void blocks(void)
{
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    RMA_TYPES(CALL_TYPED)
    sized_8(next, previous);
    sized_16(next, previous);
    sized_32(next, previous);
    sized_64(next, previous);
    sized_128(next, previous);
    shmem_int_ibput(NOTHING, NOTHING, DEST_STRIDE, SOURCE_STRIDE, BLOCK, 0, next);
    shmem_ctx_destroy(ctx);
}

/* Element 0 adds up numbers, element 1 counts members. In the team of all PEs backwards, those
 * before this one are those with higher numbers. */
#define DEFINE_SCAN(NAME, T, CLASS)                                                                \
    static T scan_source_##NAME[2], scan_dest_##NAME[2];                                           \
    static void scan_of_##NAME(shmem_team_t backwards)                                             \
    {                                                                                              \
        T *source = scan_source_##NAME, *dest = scan_dest_##NAME;                                  \
        int before = pes - 1 - me, higher = pes * (pes + 1) / 2 - me * (me + 1) / 2;               \
        source[0] = (T)(me + 1);                                                                   \
        source[1] = (T)1;                                                                          \
        CHECK_EQ(shmem_##NAME##_sum_inscan(SHMEM_TEAM_WORLD, dest, source, 2), 0);                 \
        CHECK(dest[0] == (T)((me + 1) * (me + 2) / 2) && dest[1] == (T)(me + 1));                  \
        CHECK(source[0] == (T)(me + 1) && source[1] == (T)1);                                      \
        CHECK_EQ(shmem_##NAME##_sum_exscan(SHMEM_TEAM_WORLD, dest, source, 2), 0);                 \
        CHECK(dest[0] == (T)(me * (me + 1) / 2) && dest[1] == (T)me);                              \
        CHECK_EQ(shmem_sum_inscan(backwards, dest, source, 2), 0);                                 \
        CHECK(dest[0] == (T)higher && dest[1] == (T)(before + 1));                                 \
        CHECK_EQ(shmem_sum_exscan(backwards, source, source, 2), 0);                               \
        CHECK(source[0] == (T)(higher - me - 1) && source[1] == (T)before);                        \
    }
RMA_TYPES(DEFINE_SCAN)
DEFINE_SCAN(complexd, double _Complex, )
DEFINE_SCAN(complexf, float _Complex, )

#define CALL_SCAN(NAME, T, CLASS) scan_of_##NAME(backwards);

static void scans(void)
{
    shmem_team_t backwards = SHMEM_TEAM_INVALID;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, pes - 1, -1, pes, NULL, 0, &backwards), 0);
    RMA_TYPES(CALL_SCAN)
    CALL_SCAN(complexd, , )
    CALL_SCAN(complexf, , )
    CHECK_EQ(shmem_long_sum_inscan(backwards, NOTHING, NOTHING, 0), 0);
    CHECK(shmem_long_sum_inscan(SHMEM_TEAM_INVALID, NOTHING, NOTHING, 0) != 0);
    shmem_team_destroy(backwards);
}

static uint64_t word, total;

static void signals(void)
{
    int next = (me + 1) % pes, all[MAX_PES];
    shmem_ctx_t own = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_ctx_create(0, &own), 0);
    for (int pe = 0; pe < pes; pe++)
        all[pe] = pe;
    shmem_signal_set(&word, 5, next);
    CHECK_EQ(shmem_signal_wait_until(&word, SHMEM_CMP_EQ, 5), 5);
    shmem_barrier_all();
    shmem_ctx_signal_set(own, &word, 6, next);
    CHECK_EQ(shmem_signal_wait_until(&word, SHMEM_CMP_EQ, 6), 6);
    shmem_barrier_all();
    for (int pe = 0; pe < pes; pe++) {
        shmem_signal_add(&total, 1, pe);
        shmem_ctx_signal_add(own, &total, 2, pe);
        (shmem_signal_add)(&total, 4, pe);
        shmem_signal_add(own, &total, 8, pe);
    }
    shmem_pe_quiet(all, (size_t)pes);
    shmem_ctx_pe_quiet(own, all, (size_t)pes);
    shmem_pe_quiet(NULL, 0);
    shmem_ctx_pe_quiet(own, NULL, 0);
    shmem_sync_all();
    CHECK_EQ(total, 15 * pes);
    shmem_signal_set(own, &word, 7, next);
    CHECK_EQ(shmem_signal_wait_until(&word, SHMEM_CMP_EQ, 7), 7);
    shmem_barrier_all();
    shmem_ctx_destroy(own);
}

static void pointers_and_sessions(void)
{
    shmem_team_t backwards = SHMEM_TEAM_INVALID;
    shmem_ctx_session_config_t config;
    config.total_ops = 3;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, pes - 1, -1, pes, NULL, 0, &backwards), 0);
    for (int pe = -1; pe <= pes; pe++)
        CHECK_PTR(shmem_team_ptr(backwards, &word, pe), shmem_ptr(&word, pes - 1 - pe));
    CHECK_PTR(shmem_team_ptr(backwards, &word, pes - 1 - me), &word);
    CHECK_PTR(shmem_team_ptr(SHMEM_TEAM_INVALID, &word, 0), NULL);
    shmem_team_destroy(backwards);
    word = 0;
    shmem_barrier_all();
    shmem_ctx_session_start(SHMEM_CTX_DEFAULT, SHMEM_CTX_SESSION_BATCH, &config,
                            SHMEM_CTX_SESSION_TOTAL_OPS);
    for (int pe = 0; pe < pes; pe++)
        shmem_uint64_atomic_add(&word, 1, pe);
    shmem_ctx_session_stop(SHMEM_CTX_DEFAULT);
    shmem_barrier_all();
    CHECK_EQ(word, pes);
    shmem_ctx_session_start(SHMEM_CTX_INVALID, 0, NULL, 0);
    shmem_ctx_session_stop(SHMEM_CTX_INVALID);
}

int main(void)
{
    int initialized = -1;
    shmem_query_initialized(&initialized);
    if (initialized != 0)
        return 1;
    check_begin();
    shmem_query_initialized(&initialized);
    CHECK(initialized != 0);
    blocks();
    scans();
    signals();
    pointers_and_sessions();
    check_end("later");
    shmem_query_initialized(&initialized);
    return initialized;
}
