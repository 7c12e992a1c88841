/* Blocking put, get, p and g of every type, on the default context and on another one. */
#include "rows.h"

static shmem_ctx_t ctx;

enum { PUT, CTX_PUT, P, CTX_P, PUTS };
enum { GET, CTX_GET, G, CTX_G, GETS };

#define DEFINE_TEST(N, T, C)                                                                       \
    DEFINE_ROWS(N, T, C)                                                                           \
    static T static_rows_##N[KINDS][MAX_PES][LEN];                                                 \
                                                                                                   \
    static void put_##N(int op, T *dest, const T *source, int pe)                                  \
    {                                                                                              \
        switch (op) {                                                                              \
        case PUT:                                                                                  \
            shmem_##N##_put(dest, source, COUNT, pe);                                              \
            break;                                                                                 \
        case CTX_PUT:                                                                              \
            shmem_ctx_##N##_put(ctx, dest, source, COUNT, pe);                                     \
            break;                                                                                 \
        default:                                                                                   \
            for (int i = 0; i < COUNT; i++)                                                        \
                if (op == P)                                                                       \
                    shmem_##N##_p(dest + i, source[i], pe);                                        \
                else                                                                               \
                    shmem_ctx_##N##_p(ctx, dest + i, source[i], pe);                               \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void get_##N(int op, T *dest, const T *source, int pe)                                  \
    {                                                                                              \
        switch (op) {                                                                              \
        case GET:                                                                                  \
            shmem_##N##_get(dest, source, COUNT, pe);                                              \
            break;                                                                                 \
        case CTX_GET:                                                                              \
            shmem_ctx_##N##_get(ctx, dest, source, COUNT, pe);                                     \
            break;                                                                                 \
        default:                                                                                   \
            for (int i = 0; i < COUNT; i++)                                                        \
                dest[i] = op == G ? shmem_##N##_g(source + i, pe)                                  \
                                  : shmem_ctx_##N##_g(ctx, source + i, pe);                        \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void puts_##N(T (*rows)[MAX_PES][LEN])                                                  \
    {                                                                                              \
        T row[LEN];                                                                                \
        for (int op = 0; op < PUTS; op++) {                                                        \
            reset_##N(rows);                                                                       \
            shmem_barrier_all();                                                                   \
            for (int kind = 0; kind < KINDS; kind++) {                                             \
                fill_##N(row, me, kind, 1);                                                        \
                put_##N(op, &rows[kind][me][1], row + 1, target_of(kind, me));                     \
                fill_##N(row, me, 0, 2);                                                           \
            }                                                                                      \
            shmem_ctx_quiet(ctx);                                                                  \
            shmem_barrier_all();                                                                   \
            check_rows_##N("put " #N, rows, 1);                                                    \
            shmem_barrier_all();                                                                   \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void gets_##N(T (*rows)[MAX_PES][LEN])                                                  \
    {                                                                                              \
        T row[LEN];                                                                                \
        reset_##N(rows);                                                                           \
        for (int kind = 0; kind < KINDS; kind++)                                                   \
            fill_##N(rows[kind][me], me, kind, 1);                                                 \
        shmem_barrier_all();                                                                       \
        for (int op = 0; op < GETS; op++)                                                          \
            for (int kind = 0; kind < KINDS; kind++) {                                             \
                int pe = target_of(kind, me);                                                      \
                guard_##N(row);                                                                    \
                get_##N(op, row + 1, &rows[kind][pe][1], pe);                                      \
                check_row_##N("get " #N, row, pe, kind, 1, 1);                                     \
            }                                                                                      \
        shmem_barrier_all();                                                                       \
    }                                                                                              \
                                                                                                   \
    static void test_##N(void *heap)                                                               \
    {                                                                                              \
        puts_##N(static_rows_##N);                                                                 \
        puts_##N(heap);                                                                            \
        gets_##N(static_rows_##N);                                                                 \
        gets_##N(heap);                                                                            \
        shmem_##N##_put(NOTHING, NOTHING, 0, me);                                                  \
        shmem_##N##_get(NOTHING, NOTHING, 0, pes - 1);                                             \
        shmem_ctx_##N##_put(ctx, NOTHING, NOTHING, 0, pes - 1);                                    \
        shmem_ctx_##N##_get(ctx, NOTHING, NOTHING, 0, me);                                         \
    }

RMA_TYPES(DEFINE_TEST)

int main(void)
{
    check_begin();
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    void *heap = heap_block(sizeof(long double) * KINDS * MAX_PES * LEN);
#define RUN(N, T, C) test_##N(heap);
    RMA_TYPES(RUN)
    shmem_ctx_destroy(ctx);
    shmem_free(heap);
    return check_end("rma_typed");
}
