/* put_nbi and get_nbi: of every type and size, of bytes, on both kinds of context. */
#include "rows.h"

static shmem_ctx_t ctx;

typedef struct {
    uint64_t low, high;
} pair;

#define DEFINE_TYPED(N, T, C)                                                                      \
    static void put_##N(int on_ctx, T *dest, const T *source, int pe)                              \
    {                                                                                              \
        if (on_ctx)                                                                                \
            shmem_ctx_##N##_put_nbi(ctx, dest, source, COUNT, pe);                                 \
        else                                                                                       \
            shmem_##N##_put_nbi(dest, source, COUNT, pe);                                          \
    }                                                                                              \
    static void get_##N(int on_ctx, T *dest, const T *source, int pe)                              \
    {                                                                                              \
        if (on_ctx)                                                                                \
            shmem_ctx_##N##_get_nbi(ctx, dest, source, COUNT, pe);                                 \
        else                                                                                       \
            shmem_##N##_get_nbi(dest, source, COUNT, pe);                                          \
    }                                                                                              \
    DEFINE_TEST(N, T, C)

/* Sized calls; `times` elements of the call make one of T. */
#define DEFINE_SIZED(N, T, SUFFIX, times)                                                          \
    static void put_##N(int on_ctx, T *dest, const T *source, int pe)                              \
    {                                                                                              \
        if (on_ctx)                                                                                \
            shmem_ctx_put##SUFFIX##_nbi(ctx, dest, source, COUNT * (times), pe);                   \
        else                                                                                       \
            shmem_put##SUFFIX##_nbi(dest, source, COUNT * (times), pe);                            \
    }                                                                                              \
    static void get_##N(int on_ctx, T *dest, const T *source, int pe)                              \
    {                                                                                              \
        if (on_ctx)                                                                                \
            shmem_ctx_get##SUFFIX##_nbi(ctx, dest, source, COUNT * (times), pe);                   \
        else                                                                                       \
            shmem_get##SUFFIX##_nbi(dest, source, COUNT * (times), pe);                            \
    }                                                                                              \
    DEFINE_TEST(N, T, INT)

/* Many transfers are under way at once, all from sources of their own; quiet ends them. */
#define DEFINE_TEST(N, T, C)                                                                       \
    DEFINE_ROWS(N, T, C)                                                                           \
    static T static_rows_##N[KINDS][MAX_PES][LEN];                                                 \
                                                                                                   \
    static void test_in_##N(T (*rows)[MAX_PES][LEN], int on_ctx)                                   \
    {                                                                                              \
        T own[KINDS][LEN];                                                                         \
        reset_##N(rows);                                                                           \
        shmem_barrier_all();                                                                       \
        for (int kind = 0; kind < KINDS; kind++) {                                                 \
            fill_##N(own[kind], me, kind, 1);                                                      \
            put_##N(on_ctx, &rows[kind][me][1], own[kind] + 1, target_of(kind, me));               \
        }                                                                                          \
        if (on_ctx)                                                                                \
            shmem_ctx_quiet(ctx);                                                                  \
        else                                                                                       \
            shmem_quiet();                                                                         \
        shmem_sync_all();                                                                          \
        check_rows_##N("put_nbi " #N, rows, 1);                                                    \
        shmem_barrier_all();                                                                       \
        reset_##N(rows);                                                                           \
        for (int kind = 0; kind < KINDS; kind++)                                                   \
            fill_##N(rows[kind][me], me, kind, 1);                                                 \
        shmem_barrier_all();                                                                       \
        for (int kind = 0; kind < KINDS; kind++) {                                                 \
            int pe = target_of(kind, me);                                                          \
            guard_##N(own[kind]);                                                                  \
            get_##N(on_ctx, own[kind] + 1, &rows[kind][pe][1], pe);                                \
        }                                                                                          \
        if (on_ctx)                                                                                \
            shmem_ctx_quiet(ctx);                                                                  \
        else                                                                                       \
            shmem_quiet();                                                                         \
        for (int kind = 0; kind < KINDS; kind++)                                                   \
            check_row_##N("get_nbi " #N, own[kind], target_of(kind, me), kind, 1, 1);              \
        shmem_barrier_all();                                                                       \
    }                                                                                              \
                                                                                                   \
    static void test_##N(void *heap)                                                               \
    {                                                                                              \
        for (int on_ctx = 0; on_ctx < 2; on_ctx++) {                                               \
            test_in_##N(static_rows_##N, on_ctx);                                                  \
            test_in_##N(heap, on_ctx);                                                             \
        }                                                                                          \
    }

RMA_TYPES(DEFINE_TYPED)
DEFINE_SIZED(size8, uint8_t, 8, 1)
DEFINE_SIZED(size16, uint16_t, 16, 1)
DEFINE_SIZED(size32, uint32_t, 32, 1)
DEFINE_SIZED(size64, uint64_t, 64, 1)
DEFINE_SIZED(mem, uint64_t, mem, 8)
DEFINE_SIZED(mem_of_bytes, uint8_t, mem, 1)

static pair static_pairs[MAX_PES][LEN];

/* Elements of 128 bits. */
static void test_128(pair (*rows)[LEN])
{
    pair own[LEN], back[LEN];
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    for (int on_ctx = 0; on_ctx < 2; on_ctx++) {
        memset(rows, GUARD, sizeof static_pairs);
        memset(back, GUARD, sizeof back);
        for (int i = 0; i < LEN; i++)
            own[i] = (pair){(uint64_t)(me * 100 + i), ~(uint64_t)(me * 100 + i)};
        shmem_barrier_all();
        if (on_ctx) {
            shmem_ctx_put128_nbi(ctx, &rows[me][1], own, COUNT, next);
            shmem_ctx_quiet(ctx);
        } else {
            shmem_put128_nbi(&rows[me][1], own, COUNT, next);
        }
        shmem_barrier_all();
        for (int pe = 0; pe < MAX_PES; pe++)
            for (int i = 0; i < LEN; i++) {
                int is_data = pe == previous && i >= 1 && i <= COUNT;
                uint64_t guard;
                memset(&guard, GUARD, sizeof guard);
                uint64_t low = is_data ? (uint64_t)(pe * 100 + i - 1) : guard;
                CHECK_AT("put128_nbi", pe, i, rows[pe][i].low, low);
                CHECK_AT("put128_nbi", pe, i, rows[pe][i].high, is_data ? ~low : guard);
            }
        if (on_ctx) {
            shmem_ctx_get128_nbi(ctx, back + 1, &rows[me][1], COUNT, next);
            shmem_ctx_quiet(ctx);
        } else {
            shmem_get128_nbi(back + 1, &rows[me][1], COUNT, next);
            shmem_quiet();
        }
        CHECK_EQ(memcmp(back + 1, own, COUNT * sizeof *own), 0);
        CHECK_EQ(((unsigned char *)back)[sizeof *back - 1], GUARD);
        CHECK_EQ(((unsigned char *)&back[COUNT + 1])[0], GUARD);
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
    test_mem(heap);
    test_mem_of_bytes(heap);
    test_128(static_pairs);
    test_128(heap);
    shmem_putmem_nbi(NOTHING, NOTHING, 0, pes - 1);
    shmem_getmem_nbi(NOTHING, NOTHING, 0, pes - 1);
    shmem_ctx_destroy(ctx);
    shmem_free(heap);
    return check_end("rma_nonblocking");
}
