/* iput and iget of every type and size, with different strides on both sides. */
#include "rows.h"

static shmem_ctx_t ctx;

typedef struct {
    uint64_t low, high;
} pair;

#define CALLS_TYPED(N, T)                                                                          \
    static void iput_##N(int on_ctx, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,       \
                         int pe)                                                                   \
    {                                                                                              \
        if (on_ctx)                                                                                \
            shmem_ctx_##N##_iput(ctx, dest, source, dst, sst, COUNT, pe);                          \
        else                                                                                       \
            shmem_##N##_iput(dest, source, dst, sst, COUNT, pe);                                   \
    }                                                                                              \
    static void iget_##N(int on_ctx, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,       \
                         int pe)                                                                   \
    {                                                                                              \
        if (on_ctx)                                                                                \
            shmem_ctx_##N##_iget(ctx, dest, source, dst, sst, COUNT, pe);                          \
        else                                                                                       \
            shmem_##N##_iget(dest, source, dst, sst, COUNT, pe);                                   \
    }

#define CALLS_SIZED(N, T, SIZE)                                                                    \
    static void iput_##N(int on_ctx, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,       \
                         int pe)                                                                   \
    {                                                                                              \
        if (on_ctx)                                                                                \
            shmem_ctx_iput##SIZE(ctx, dest, source, dst, sst, COUNT, pe);                          \
        else                                                                                       \
            shmem_iput##SIZE(dest, source, dst, sst, COUNT, pe);                                   \
    }                                                                                              \
    static void iget_##N(int on_ctx, T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst,       \
                         int pe)                                                                   \
    {                                                                                              \
        if (on_ctx)                                                                                \
            shmem_ctx_iget##SIZE(ctx, dest, source, dst, sst, COUNT, pe);                          \
        else                                                                                       \
            shmem_iget##SIZE(dest, source, dst, sst, COUNT, pe);                                   \
    }

/* The stride of the side that is checked is 1 or 2; the other side's is 1 to 3. */
#define TESTS(N, T, C)                                                                             \
    DEFINE_ROWS(N, T, C)                                                                           \
    static T static_rows_##N[KINDS][MAX_PES][LEN];                                                 \
                                                                                                   \
    static void spread_##N(T *wide, int kind, int source, int step)                                \
    {                                                                                              \
        for (int i = 0; i < COUNT * 3; i++)                                                        \
            wide[i] = value_##N(GUARD - 1);                                                        \
        for (int i = 0; i < COUNT; i++)                                                            \
            wide[i * step] = value_##N(number_of(source, kind, i));                                \
    }                                                                                              \
                                                                                                   \
    static void iputs_##N(T (*rows)[MAX_PES][LEN], int on_ctx, int dst, int sst)                   \
    {                                                                                              \
        T wide[COUNT * 3];                                                                         \
        reset_##N(rows);                                                                           \
        shmem_barrier_all();                                                                       \
        for (int kind = 0; kind < KINDS; kind++) {                                                 \
            spread_##N(wide, kind, me, sst);                                                       \
            iput_##N(on_ctx, &rows[kind][me][1], wide, dst, sst, target_of(kind, me));             \
            memset(wide, 0, sizeof wide);                                                          \
        }                                                                                          \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        check_rows_##N("iput " #N, rows, dst);                                                     \
        shmem_barrier_all();                                                                       \
    }                                                                                              \
                                                                                                   \
    static void igets_##N(T (*rows)[MAX_PES][LEN], int on_ctx, int dst, int sst)                   \
    {                                                                                              \
        T back[LEN];                                                                               \
        reset_##N(rows);                                                                           \
        for (int kind = 0; kind < KINDS; kind++)                                                   \
            fill_##N(rows[kind][me], me, kind, sst);                                               \
        shmem_barrier_all();                                                                       \
        for (int kind = 0; kind < KINDS; kind++) {                                                 \
            int pe = target_of(kind, me);                                                          \
            guard_##N(back);                                                                       \
            iget_##N(on_ctx, back + 1, &rows[kind][pe][1], dst, sst, pe);                          \
            check_row_##N("iget " #N, back, pe, kind, dst, 1);                                     \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
    }                                                                                              \
                                                                                                   \
    static void test_##N(void *heap)                                                               \
    {                                                                                              \
        for (int round = 0; round < 4; round++) {                                                  \
            int on_ctx = round / 2;                                                                \
            T(*rows)[MAX_PES][LEN] = round % 2 ? heap : static_rows_##N;                           \
            iputs_##N(rows, on_ctx, 1, 1);                                                         \
            iputs_##N(rows, on_ctx, 2, 1);                                                         \
            iputs_##N(rows, on_ctx, 1, 3);                                                         \
            iputs_##N(rows, on_ctx, 2, 3);                                                         \
            igets_##N(rows, on_ctx, 1, 2);                                                         \
            igets_##N(rows, on_ctx, 2, 1);                                                         \
        }                                                                                          \
    }

#define DEFINE_TYPED(N, T, C) CALLS_TYPED(N, T) TESTS(N, T, C)
#define DEFINE_SIZED(N, T, SIZE) CALLS_SIZED(N, T, SIZE) TESTS(N, T, INT)

RMA_TYPES(DEFINE_TYPED)
DEFINE_SIZED(size8, uint8_t, 8)
DEFINE_SIZED(size16, uint16_t, 16)
DEFINE_SIZED(size32, uint32_t, 32)
DEFINE_SIZED(size64, uint64_t, 64)

/* Elements of 128 bits. */
static pair static_pairs[COUNT * 2 + 2];
CALLS_SIZED(size128, pair, 128)

static void test_128(pair *pairs)
{
    pair wide[COUNT * 3], back[COUNT * 2];
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    for (int on_ctx = 0; on_ctx < 2; on_ctx++) {
        for (int i = 0; i < COUNT * 2 + 2; i++)
            pairs[i] = (pair){GUARD, GUARD};
        for (int i = 0; i < COUNT * 3; i++)
            wide[i] = (pair){(uint64_t)(me * 1000 + i), (uint64_t)(me * 1000 + i + 500)};
        for (int i = 0; i < COUNT * 2; i++)
            back[i] = (pair){GUARD, GUARD};
        shmem_barrier_all();
        iput_size128(on_ctx, pairs + 1, wide, 2, 3, next);
        shmem_ctx_quiet(ctx);
        shmem_barrier_all();
        for (int i = 0; i < COUNT * 2 + 2; i++) {
            int position = position_of(i, 2);
            uint64_t low = position < 0 ? GUARD : (uint64_t)(previous * 1000 + position * 3);
            CHECK_AT("iput128", 0, i, pairs[i].low, low);
            CHECK_AT("iput128", 1, i, pairs[i].high, position < 0 ? GUARD : low + 500);
        }
        iget_size128(on_ctx, back, pairs + 1, 1, 2, next);
        for (int i = 0; i < COUNT * 2; i++) {
            uint64_t low = i < COUNT ? (uint64_t)(me * 1000 + i * 3) : GUARD;
            CHECK_AT("iget128", 0, i, back[i].low, low);
            CHECK_AT("iget128", 1, i, back[i].high, i < COUNT ? low + 500 : GUARD);
        }
        shmem_barrier_all();
    }
}

int main(void)
{
    check_begin();
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    void *heap = heap_block(sizeof(long double) * KINDS * MAX_PES * LEN);
#define RUN(N, T, C) test_##N(heap);
    RMA_TYPES(RUN)
    test_size8(heap);
    test_size16(heap);
    test_size32(heap);
    test_size64(heap);
    test_128(static_pairs);
    test_128(heap);
    shmem_int_iput(NOTHING, NOTHING, 1, 1, 0, pes - 1);
    shmem_int_iget(NOTHING, NOTHING, 1, 1, 0, pes - 1);
    shmem_ctx_destroy(ctx);
    shmem_free(heap);
    return check_end("strided");
}
