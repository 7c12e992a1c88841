/* The type-generic calls of C11, for every type that they tell apart, with and without a context;
 * const sources, arrays, and values that convert. */
#include "check.h"
#include "types.h"

enum { COUNT = 4 };

static shmem_ctx_t ctx;
static int next, previous;

#define DEFINE_RMA(N, T, C)                                                                        \
    static T words_##N[COUNT * 2], out_##N[MAX_PES * COUNT];                                       \
    static void check_words_##N(const char *call, int from, int step)                              \
    {                                                                                              \
        for (int i = 0; i < COUNT; i++)                                                            \
            CHECK_AT(call, from, i, words_##N[i * step], VALUE_##C(T, from * 5 + i));              \
        for (int i = 0; i < COUNT * 2; i++)                                                        \
            words_##N[i] = 0;                                                                      \
        shmem_barrier_all();                                                                       \
    }                                                                                              \
    static void rma_##N(void)                                                                      \
    {                                                                                              \
        T own[COUNT * 2] = {0}, back[COUNT] = {0};                                                 \
        const T *source = own;                                                                     \
        static uint64_t signal;                                                                    \
        for (int i = 0; i < COUNT; i++)                                                            \
            own[i] = VALUE_##C(T, me * 5 + i);                                                     \
        shmem_barrier_all();                                                                       \
        shmem_put(words_##N, own, COUNT, next);                                                    \
        shmem_barrier_all();                                                                       \
        check_words_##N("put", previous, 1);                                                       \
        shmem_put(ctx, words_##N, source, COUNT, next);                                            \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        check_words_##N("ctx put", previous, 1);                                                   \
        shmem_put_nbi(words_##N, source, COUNT, next);                                             \
        shmem_barrier_all();                                                                       \
        check_words_##N("put_nbi", previous, 1);                                                   \
        shmem_put_nbi(ctx, &words_##N[0], source, COUNT, next);                                    \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        check_words_##N("ctx put_nbi", previous, 1);                                               \
        shmem_iput(words_##N, source, 2, 1, COUNT, next);                                          \
        shmem_barrier_all();                                                                       \
        check_words_##N("iput", previous, 2);                                                      \
        shmem_iput(ctx, words_##N, source, 2, 1, COUNT, next);                                     \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        check_words_##N("ctx iput", previous, 2);                                                  \
        for (int i = 0; i < COUNT; i++)                                                            \
            if (i % 2)                                                                             \
                shmem_p(words_##N + i, own[i], next);                                              \
            else                                                                                   \
                shmem_p(ctx, &words_##N[i], own[i], next);                                         \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        check_words_##N("p", previous, 1);                                                         \
        signal = 0;                                                                                \
        shmem_barrier_all();                                                                       \
        shmem_put_signal(words_##N, source, COUNT, &signal, 1, SHMEM_SIGNAL_ADD, next);            \
        shmem_put_signal(ctx, words_##N, source, COUNT, &signal, 1, SHMEM_SIGNAL_ADD, next);       \
        shmem_put_signal_nbi(words_##N, source, COUNT, &signal, 1, SHMEM_SIGNAL_ADD, next);        \
        shmem_put_signal_nbi(ctx, words_##N, source, COUNT, &signal, 1, SHMEM_SIGNAL_ADD, next);   \
        CHECK_EQ(shmem_signal_wait_until(&signal, SHMEM_CMP_EQ, 4), 4);                            \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_barrier_all();                                                                       \
        check_words_##N("put_signal", previous, 1);                                                \
        for (int i = 0; i < COUNT; i++)                                                            \
            words_##N[i] = own[i];                                                                 \
        shmem_barrier_all();                                                                       \
        const T *far = words_##N;                                                                  \
        for (int way = 0; way < 6; way++) {                                                        \
            for (int i = 0; i < COUNT; i++)                                                        \
                back[i] = 0;                                                                       \
            switch (way) {                                                                         \
            case 0:                                                                                \
                shmem_get(back, far, COUNT, next);                                                 \
                break;                                                                             \
            case 1:                                                                                \
                shmem_get(ctx, back, words_##N, COUNT, next);                                      \
                break;                                                                             \
            case 2:                                                                                \
                shmem_get_nbi(back, far, COUNT, next);                                             \
                shmem_quiet();                                                                     \
                break;                                                                             \
            case 3:                                                                                \
                shmem_get_nbi(ctx, back, far, COUNT, next);                                        \
                shmem_ctx_quiet(ctx);                                                              \
                break;                                                                             \
            case 4:                                                                                \
                shmem_iget(back, far, 1, 1, COUNT / 2, next);                                      \
                shmem_iget(ctx, back + COUNT / 2, far + COUNT / 2, 1, 1, COUNT / 2, next);         \
                break;                                                                             \
            default:                                                                               \
                for (int i = 0; i < COUNT; i++)                                                    \
                    back[i] = i % 2 ? shmem_g(far + i, next) : shmem_g(ctx, &words_##N[i], next);  \
            }                                                                                      \
            for (int i = 0; i < COUNT; i++)                                                        \
                CHECK_AT("get", way, i, back[i], VALUE_##C(T, next * 5 + i));                      \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        shmem_team_t world = SHMEM_TEAM_WORLD;                                                     \
        CHECK_EQ(shmem_fcollect(world, out_##N, words_##N, COUNT), 0);                             \
        CHECK_EQ(out_##N[(pes - 1) * COUNT], VALUE_##C(T, (pes - 1) * 5));                         \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(shmem_collect(world, out_##N, far, 1), 0);                                        \
        CHECK_EQ(out_##N[pes - 1], VALUE_##C(T, (pes - 1) * 5));                                   \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(shmem_broadcast(world, out_##N, words_##N, 2, pes - 1), 0);                       \
        CHECK_EQ(out_##N[1], VALUE_##C(T, (pes - 1) * 5 + 1));                                     \
        shmem_barrier_all();                                                                       \
        static T blocks[MAX_PES];                                                                  \
        for (int pe = 0; pe < pes; pe++)                                                           \
            blocks[pe] = VALUE_##C(T, me + pe);                                                    \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(shmem_alltoall(world, out_##N, blocks, 1), 0);                                    \
        CHECK_EQ(out_##N[pes - 1], VALUE_##C(T, me + pes - 1));                                    \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(shmem_alltoalls(world, out_##N, blocks, 2, 1, 1), 0);                             \
        CHECK_EQ(out_##N[2 * (pes - 1)], VALUE_##C(T, me + pes - 1));                              \
        shmem_barrier_all();                                                                       \
        /* Small numbers for the reductions. */                                                    \
        words_##N[0] = (T)(me + 1);                                                                \
        words_##N[1] = 1;                                                                          \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(shmem_max_reduce(world, out_##N, words_##N, 1), 0);                               \
        CHECK_EQ(out_##N[0], pes);                                                                 \
        CHECK_EQ(shmem_min_reduce(world, out_##N + 1, far, 1), 0);                                 \
        CHECK_EQ(out_##N[1], 1);                                                                   \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(shmem_sum_reduce(world, out_##N, words_##N + 1, 1), 0);                           \
        CHECK_EQ(out_##N[0], pes);                                                                 \
        CHECK_EQ(shmem_prod_reduce(world, out_##N + 1, words_##N + 1, 1), 0);                      \
        CHECK_EQ(out_##N[1], 1);                                                                   \
        shmem_barrier_all();                                                                       \
    }

#define DEFINE_SWAP(N, T, C)                                                                       \
    static void swap_##N(void)                                                                     \
    {                                                                                              \
        static T word;                                                                             \
        const T *readable = &word;                                                                 \
        T seen = 0;                                                                                \
        word = 3;                                                                                  \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(shmem_atomic_fetch(&word, next), 3);                                              \
        CHECK_EQ(shmem_atomic_fetch(ctx, readable, next), 3);                                      \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(shmem_atomic_swap(&word, 4, next), 3);                                            \
        CHECK_EQ(shmem_atomic_swap(ctx, &word, 5, next), 4);                                       \
        shmem_atomic_set(&word, 6, next);                                                          \
        shmem_quiet();                                                                             \
        CHECK_EQ(shmem_atomic_fetch(readable, next), 6);                                           \
        shmem_atomic_set(ctx, &word, 7, next);                                                     \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_atomic_fetch_nbi(&seen, readable, next);                                             \
        shmem_quiet();                                                                             \
        CHECK_EQ(seen, 7);                                                                         \
        shmem_atomic_swap_nbi(&seen, &word, 8, next);                                              \
        shmem_quiet();                                                                             \
        shmem_atomic_fetch_nbi(ctx, &seen, &word, next);                                           \
        shmem_ctx_quiet(ctx);                                                                      \
        CHECK_EQ(seen, 8);                                                                         \
        shmem_atomic_swap_nbi(ctx, &seen, &word, 9, next);                                         \
        shmem_ctx_quiet(ctx);                                                                      \
        CHECK_EQ(seen, 8);                                                                         \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(word, 9);                                                                         \
        shmem_barrier_all();                                                                       \
    }

#define DEFINE_ARITHMETIC(N, T, C)                                                                 \
    static void arithmetic_##N(void)                                                               \
    {                                                                                              \
        static T word, many[3];                                                                    \
        T seen = 0, values[3] = {0, 0, 0};                                                         \
        size_t indices[3];                                                                         \
        word = many[0] = many[1] = many[2] = 0;                                                    \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(shmem_atomic_compare_swap(&word, 0, 10, next), 0);                                \
        CHECK_EQ(shmem_atomic_compare_swap(ctx, &word, 10, 20, next), 10);                         \
        CHECK_EQ(shmem_atomic_fetch_inc(&word, next), 20);                                         \
        CHECK_EQ(shmem_atomic_fetch_inc(ctx, &word, next), 21);                                    \
        CHECK_EQ(shmem_atomic_fetch_add(&word, 3, next), 22);                                      \
        CHECK_EQ(shmem_atomic_fetch_add(ctx, &word, 5, next), 25);                                 \
        shmem_atomic_inc(&word, next);                                                             \
        shmem_atomic_inc(ctx, &word, next);                                                        \
        shmem_atomic_add(&word, 3, next);                                                          \
        shmem_atomic_add(ctx, &word, 5, next);                                                     \
        shmem_quiet();                                                                             \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_atomic_fetch_inc_nbi(&seen, &word, next);                                            \
        shmem_quiet();                                                                             \
        CHECK_EQ(seen, 40);                                                                        \
        shmem_atomic_fetch_inc_nbi(ctx, &seen, &word, next);                                       \
        shmem_ctx_quiet(ctx);                                                                      \
        CHECK_EQ(seen, 41);                                                                        \
        shmem_atomic_fetch_add_nbi(&seen, &word, 8, next);                                         \
        shmem_quiet();                                                                             \
        CHECK_EQ(seen, 42);                                                                        \
        shmem_atomic_fetch_add_nbi(ctx, &seen, &word, 50, next);                                   \
        shmem_ctx_quiet(ctx);                                                                      \
        CHECK_EQ(seen, 50);                                                                        \
        shmem_atomic_compare_swap_nbi(&seen, &word, 100, 101, next);                               \
        shmem_quiet();                                                                             \
        CHECK_EQ(seen, 100);                                                                       \
        shmem_atomic_compare_swap_nbi(ctx, &seen, &word, 101, 102, next);                          \
        shmem_ctx_quiet(ctx);                                                                      \
        CHECK_EQ(seen, 101);                                                                       \
        shmem_wait_until(&word, SHMEM_CMP_EQ, 102);                                                \
        CHECK(shmem_test(&word, SHMEM_CMP_NE, 0));                                                 \
        shmem_wait_until_all(many, 3, NULL, SHMEM_CMP_EQ, 0);                                      \
        CHECK(shmem_wait_until_any(many, 3, NULL, SHMEM_CMP_EQ, 0) < 3);                           \
        CHECK_EQ(shmem_wait_until_some(many, 3, indices, NULL, SHMEM_CMP_EQ, 0), 3);               \
        CHECK(shmem_test_all(many, 3, NULL, SHMEM_CMP_EQ, 0));                                     \
        CHECK(shmem_test_any(many, 3, NULL, SHMEM_CMP_EQ, 0) < 3);                                 \
        CHECK_EQ(shmem_test_some(many, 3, indices, NULL, SHMEM_CMP_EQ, 0), 3);                     \
        shmem_wait_until_all_vector(many, 3, NULL, SHMEM_CMP_EQ, values);                          \
        CHECK(shmem_wait_until_any_vector(many, 3, NULL, SHMEM_CMP_EQ, values) < 3);               \
        CHECK_EQ(shmem_wait_until_some_vector(many, 3, indices, NULL, SHMEM_CMP_EQ, values), 3);   \
        CHECK(shmem_test_all_vector(many, 3, NULL, SHMEM_CMP_EQ, values));                         \
        CHECK(shmem_test_any_vector(many, 3, NULL, SHMEM_CMP_EQ, values) < 3);                     \
        CHECK_EQ(shmem_test_some_vector(many, 3, indices, NULL, SHMEM_CMP_EQ, values), 3);         \
        shmem_barrier_all();                                                                       \
    }

/* The bitwise atomics know no signed long long, and the names of their types are the widths'. */
#define BITWISE_DISTINCT_TYPES(X)                                                                  \
    X(int32, int32_t, INT)                                                                         \
    X(int64, int64_t, INT)                                                                         \
    X(uint, unsigned int, INT)                                                                     \
    X(ulong, unsigned long, INT)                                                                   \
    X(ulonglong, unsigned long long, INT)

#define DEFINE_BITWISE(N, T, C)                                                                    \
    static void bitwise_##N(void)                                                                  \
    {                                                                                              \
        static T word, out;                                                                        \
        T seen = 0;                                                                                \
        word = 0xf0;                                                                               \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(shmem_atomic_fetch_or(&word, 0x0f, next), 0xf0);                                  \
        CHECK_EQ(shmem_atomic_fetch_or(ctx, &word, 0x100, next), 0xff);                            \
        CHECK_EQ(shmem_atomic_fetch_and(&word, 0x1fe, next), 0x1ff);                               \
        CHECK_EQ(shmem_atomic_fetch_and(ctx, &word, 0x1fc, next), 0x1fe);                          \
        CHECK_EQ(shmem_atomic_fetch_xor(&word, 1, next), 0x1fc);                                   \
        CHECK_EQ(shmem_atomic_fetch_xor(ctx, &word, 2, next), 0x1fd);                              \
        shmem_atomic_and(&word, 0xff, next);                                                       \
        shmem_quiet();                                                                             \
        shmem_atomic_and(ctx, &word, 0x7f, next);                                                  \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_atomic_or(&word, 0x200, next);                                                       \
        shmem_quiet();                                                                             \
        shmem_atomic_or(ctx, &word, 0x400, next);                                                  \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_atomic_xor(&word, 0x1, next);                                                        \
        shmem_quiet();                                                                             \
        shmem_atomic_xor(ctx, &word, 0x2, next);                                                   \
        shmem_ctx_quiet(ctx);                                                                      \
        shmem_atomic_fetch_or_nbi(&seen, &word, 1, next);                                          \
        shmem_quiet();                                                                             \
        CHECK_EQ(seen, 0x67c);                                                                     \
        shmem_atomic_fetch_or_nbi(ctx, &seen, &word, 2, next);                                     \
        shmem_ctx_quiet(ctx);                                                                      \
        CHECK_EQ(seen, 0x67d);                                                                     \
        shmem_atomic_fetch_and_nbi(&seen, &word, 0xff, next);                                      \
        shmem_quiet();                                                                             \
        CHECK_EQ(seen, 0x67f);                                                                     \
        shmem_atomic_fetch_and_nbi(ctx, &seen, &word, 0xf, next);                                  \
        shmem_ctx_quiet(ctx);                                                                      \
        CHECK_EQ(seen, 0x7f);                                                                      \
        shmem_atomic_fetch_xor_nbi(&seen, &word, 0xf, next);                                       \
        shmem_quiet();                                                                             \
        CHECK_EQ(seen, 0xf);                                                                       \
        shmem_atomic_fetch_xor_nbi(ctx, &seen, &word, 0xf, next);                                  \
        shmem_ctx_quiet(ctx);                                                                      \
        CHECK_EQ(seen, 0);                                                                         \
        shmem_barrier_all();                                                                       \
        word = (T)(1 << me | 1 << 20);                                                             \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(shmem_or_reduce(SHMEM_TEAM_WORLD, &out, &word, 1), 0);                            \
        CHECK_EQ(out, ((1 << pes) - 1) | 1 << 20);                                                 \
        CHECK_EQ(shmem_and_reduce(SHMEM_TEAM_WORLD, &out, &word, 1), 0);                           \
        CHECK_EQ(out, pes == 1 ? (1 | 1 << 20) : 1 << 20);                                         \
        CHECK_EQ(shmem_xor_reduce(SHMEM_TEAM_WORLD, &out, &word, 1), 0);                           \
        CHECK_EQ(out, ((1 << pes) - 1) | (pes % 2) << 20);                                         \
        shmem_barrier_all();                                                                       \
    }

#define DEFINE_OLD_SWAP(N, T, C)                                                                   \
    static void old_swap_##N(void)                                                                 \
    {                                                                                              \
        static T word;                                                                             \
        shmem_set(&word, 5, next);                                                                 \
        shmem_quiet();                                                                             \
        CHECK_EQ(shmem_fetch(&word, next), 5);                                                     \
        CHECK_EQ(shmem_swap(&word, 6, next), 5);                                                   \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(word, 6);                                                                         \
        shmem_barrier_all();                                                                       \
    }
#define DEFINE_OLD_ARITHMETIC(N, T, C)                                                             \
    static void old_arithmetic_##N(void)                                                           \
    {                                                                                              \
        static T word;                                                                             \
        CHECK_EQ(shmem_cswap(&word, 0, 5, next), 0);                                               \
        CHECK_EQ(shmem_finc(&word, next), 5);                                                      \
        CHECK_EQ(shmem_fadd(&word, 2, next), 6);                                                   \
        shmem_inc(&word, next);                                                                    \
        shmem_add(&word, 3, next);                                                                 \
        shmem_barrier_all();                                                                       \
        CHECK_EQ(word, 12);                                                                        \
        shmem_barrier_all();                                                                       \
    }

#define SWAP_DISTINCT_TYPES(X)                                                                     \
    X(float, float, REAL)                                                                          \
    X(double, double, REAL)                                                                        \
    ARITHMETIC_DISTINCT_TYPES(X)
#define ARITHMETIC_DISTINCT_TYPES(X)                                                               \
    OLD_AMO_INTEGERS(X)                                                                            \
    X(uint, unsigned int, INT)                                                                     \
    X(ulong, unsigned long, INT)                                                                   \
    X(ulonglong, unsigned long long, INT)

DISTINCT_TYPES(DEFINE_RMA)
SWAP_DISTINCT_TYPES(DEFINE_SWAP)
ARITHMETIC_DISTINCT_TYPES(DEFINE_ARITHMETIC)
BITWISE_DISTINCT_TYPES(DEFINE_BITWISE)
OLD_AMO_TYPES(DEFINE_OLD_SWAP)
OLD_AMO_INTEGERS(DEFINE_OLD_ARITHMETIC)

int main(void)
{
    check_begin();
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    next = (me + 1) % pes;
    previous = (me + pes - 1) % pes;
#define RUN(F, N) F##_##N();
#define RUN_RMA(N, T, C) RUN(rma, N)
    DISTINCT_TYPES(RUN_RMA)
#define RUN_SWAP(N, T, C) RUN(swap, N)
    SWAP_DISTINCT_TYPES(RUN_SWAP)
#define RUN_ARITHMETIC(N, T, C) RUN(arithmetic, N)
    ARITHMETIC_DISTINCT_TYPES(RUN_ARITHMETIC)
#define RUN_BITWISE(N, T, C) RUN(bitwise, N)
    BITWISE_DISTINCT_TYPES(RUN_BITWISE)
#define RUN_OLD_SWAP(N, T, C) RUN(old_swap, N)
    OLD_AMO_TYPES(RUN_OLD_SWAP)
#define RUN_OLD_ARITHMETIC(N, T, C) RUN(old_arithmetic, N)
    OLD_AMO_INTEGERS(RUN_OLD_ARITHMETIC)
    /* sync takes a team or an active set. */
    static long sync[SHMEM_SYNC_SIZE];
    for (int i = 0; i < SHMEM_SYNC_SIZE; i++)
        sync[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    CHECK_EQ(shmem_sync(SHMEM_TEAM_WORLD), 0);
    shmem_sync(0, 0, pes, sync);
    shmem_ctx_destroy(ctx);
    return check_end("generic");
}
