/* put_signal and put_signal_nbi of every type and size, SET and ADD, on both kinds of context: who
 * sees the signal sees the data, without any other synchronization. */
#include "rows.h"

typedef struct {
    uint64_t low, high;
} pair;

typedef uint64_t signals[KINDS][MAX_PES];

static shmem_ctx_t ctx;
static signals static_signals;

enum { PLAIN, NBI, CTX, CTX_NBI, FORMS };

#define SWITCH(PLAIN_NAME, CTX_NAME, dest, source, nelems, sig, op, pe)                            \
    switch (form) {                                                                                \
    case PLAIN:                                                                                    \
        shmem_##PLAIN_NAME##_signal(dest, source, nelems, sig, value, op, pe);                     \
        break;                                                                                     \
    case NBI:                                                                                      \
        shmem_##PLAIN_NAME##_signal_nbi(dest, source, nelems, sig, value, op, pe);                 \
        break;                                                                                     \
    case CTX:                                                                                      \
        shmem_ctx_##CTX_NAME##_signal(ctx, dest, source, nelems, sig, value, op, pe);              \
        break;                                                                                     \
    default:                                                                                       \
        shmem_ctx_##CTX_NAME##_signal_nbi(ctx, dest, source, nelems, sig, value, op, pe);          \
    }

static void reset_signals(signals sigs)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int pe = 0; pe < MAX_PES; pe++)
            sigs[kind][pe] = 1000;
}

/* What the signal is after the call: SET stores 40 + kind, ADD adds it to 1000. */
static uint64_t expected_of(int kind, int is_add)
{
    return (uint64_t)(40 + kind) + (is_add ? 1000 : 0);
}

static void check_signals(const char *call, signals sigs, int is_add)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int pe = 0; pe < MAX_PES; pe++) {
            int is_target = pe < pes && target_of(kind, pe) == me;
            CHECK_AT(call, kind, pe, shmem_signal_fetch(&sigs[kind][pe]),
                     is_target ? expected_of(kind, is_add) : 1000);
        }
}

#define DEFINE_TEST(N, T, C, PLAIN_NAME, CTX_NAME, times)                                          \
    DEFINE_ROWS(N, T, C)                                                                           \
    static T static_rows_##N[KINDS][MAX_PES][LEN];                                                 \
                                                                                                   \
    static void test_in_##N(T (*rows)[MAX_PES][LEN], signals sigs, int form, int is_add)           \
    {                                                                                              \
        T own[KINDS][LEN];                                                                         \
        reset_##N(rows);                                                                           \
        reset_signals(sigs);                                                                       \
        shmem_barrier_all();                                                                       \
        for (int kind = 0; kind < KINDS; kind++) {                                                 \
            uint64_t value = (uint64_t)(40 + kind);                                                \
            int op = is_add ? SHMEM_SIGNAL_ADD : SHMEM_SIGNAL_SET;                                 \
            fill_##N(own[kind], me, kind, 1);                                                      \
            SWITCH(PLAIN_NAME, CTX_NAME, &rows[kind][me][1], own[kind] + 1, COUNT * (times),       \
                   &sigs[kind][me], op, target_of(kind, me))                                       \
        }                                                                                          \
        for (int pe = 0; pe < pes; pe++)                                                           \
            for (int kind = 0; kind < KINDS; kind++)                                               \
                if (target_of(kind, pe) == me) {                                                   \
                    uint64_t wanted = expected_of(kind, is_add);                                   \
                    CHECK_EQ(shmem_signal_wait_until(&sigs[kind][pe], SHMEM_CMP_EQ, wanted),       \
                             wanted);                                                              \
                    check_row_##N("signal " #N, rows[kind][pe], pe, kind, 1, 1);                   \
                }                                                                                  \
        shmem_quiet();                                                                             \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        check_rows_##N("signal " #N, rows, 1);                                                     \
        check_signals(#N, sigs, is_add);                                                           \
        shmem_barrier_all();                                                                       \
    }                                                                                              \
                                                                                                   \
    static void test_##N(void *heap, signals heap_signals)                                         \
    {                                                                                              \
        for (int form = 0; form < FORMS; form++) {                                                 \
            test_in_##N(static_rows_##N, heap_signals, form, 0);                                   \
            test_in_##N(heap, static_signals, form, 1);                                            \
        }                                                                                          \
    }

#define DEFINE_TYPED(N, T, C) DEFINE_TEST(N, T, C, N##_put, N##_put, 1)
RMA_TYPES(DEFINE_TYPED)
DEFINE_TEST(size8, uint8_t, INT, put8, put8, 1)
DEFINE_TEST(size16, uint16_t, INT, put16, put16, 1)
DEFINE_TEST(size32, uint32_t, INT, put32, put32, 1)
DEFINE_TEST(size64, uint64_t, INT, put64, put64, 1)
DEFINE_TEST(mem, uint64_t, INT, putmem, putmem, 8)

/* Elements of 128 bits. */
static void test_128(pair *pairs, uint64_t *sig, int form)
{
    pair own[COUNT];
    uint64_t value = 9;
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    for (int i = 0; i < LEN; i++)
        pairs[i] = (pair){GUARD, GUARD};
    for (int i = 0; i < COUNT; i++)
        own[i] = (pair){(uint64_t)(me * 100 + i), ~(uint64_t)(me * 100 + i)};
    *sig = 0;
    shmem_barrier_all();
    SWITCH(put128, put128, pairs + 1, own, COUNT, sig, SHMEM_SIGNAL_ADD, next)
    CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_NE, 0), 9);
    for (int i = 0; i < LEN; i++) {
        int is_data = i >= 1 && i <= COUNT;
        uint64_t low = is_data ? (uint64_t)(previous * 100 + i - 1) : GUARD;
        CHECK_AT("put128_signal", 0, i, pairs[i].low, low);
        CHECK_AT("put128_signal", 1, i, pairs[i].high, is_data ? ~low : GUARD);
    }
    shmem_quiet();
    shmem_ctx_quiet(ctx);
    shmem_barrier_all();
}

/* A transfer of nothing still signals; signals mix with atomics and waits of 64 bits. */
static void test_without_data(uint64_t *sig)
{
    *sig = 5;
    shmem_barrier_all();
    shmem_putmem_signal(NOTHING, NOTHING, 0, sig, 10, SHMEM_SIGNAL_ADD, (me + 1) % pes);
    CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_GT, 5), 15);
    shmem_barrier_all();
    for (int pe = 0; pe < pes; pe++)
        shmem_uint64_atomic_add(sig, 100, pe);
    shmem_uint64_wait_until(sig, SHMEM_CMP_EQ, 15 + 100 * (uint64_t)pes);
    CHECK_EQ(shmem_signal_fetch(sig), 15 + 100 * pes);
    shmem_barrier_all();
    /* Every PE adds to the last PE's word; the sum is there when all have. */
    for (int i = 0; i < 20; i++)
        shmem_int_put_signal_nbi(NOTHING, NOTHING, 0, sig, 1, SHMEM_SIGNAL_ADD, pes - 1);
    if (me == pes - 1) {
        uint64_t wanted = 15 + 120 * (uint64_t)pes;
        CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_GE, wanted), wanted);
    }
    shmem_barrier_all();
    shmem_putmem_signal(NOTHING, NOTHING, 0, sig, UINT64_MAX, SHMEM_SIGNAL_SET, (me + 1) % pes);
    CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_EQ, UINT64_MAX), UINT64_MAX);
    CHECK(shmem_signal_wait_until(sig, SHMEM_CMP_GT, INT64_MAX) == UINT64_MAX);
    shmem_barrier_all();
}

int main(void)
{
    check_begin();
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    void *heap = heap_block(sizeof(long double) * KINDS * MAX_PES * LEN);
    uint64_t(*heap_signals)[MAX_PES] = heap_block(sizeof static_signals);
#define RUN(N, T, C) test_##N(heap, heap_signals);
    RMA_TYPES(RUN)
    test_size8(heap, heap_signals);
    test_size16(heap, heap_signals);
    test_size32(heap, heap_signals);
    test_size64(heap, heap_signals);
    test_mem(heap, heap_signals);
    static pair static_pairs[LEN];
    for (int form = 0; form < FORMS; form++) {
        test_128(static_pairs, heap_signals[0], form);
        test_128(heap, static_signals[0], form);
    }
    test_without_data(static_signals[0]);
    test_without_data(heap_signals[0]);
    shmem_ctx_destroy(ctx);
    shmem_free(heap_signals);
    shmem_free(heap);
    return check_end("signal");
}
