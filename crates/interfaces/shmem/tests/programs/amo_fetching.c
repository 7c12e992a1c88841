/* Blocking atomics that return a value: fetch, swap, compare_swap, fetch_inc, fetch_add, and the
 * bitwise ones; alone and under contention, on both kinds of context. */
#include "words.h"

enum { ROUNDS = 50 };

static shmem_ctx_t ctx;
static uint64_t returned_sum;

#define CALL(on_ctx, N, OP, ...)                                                                   \
    ((on_ctx) ? shmem_ctx_##N##_atomic_##OP(ctx, __VA_ARGS__)                                      \
              : shmem_##N##_atomic_##OP(__VA_ARGS__))

/* fetch and swap: every type. */
#define DEFINE_SWAP(N, T, C)                                                                       \
    DEFINE_WORDS(N, T, C)                                                                          \
    static T swapped_##N(int source, int kind)                                                     \
    {                                                                                              \
        return value_##N(source * KINDS + kind + 1);                                               \
    }                                                                                              \
    static void swap_##N(words_##N *words, int on_ctx)                                             \
    {                                                                                              \
        reset_##N(words);                                                                          \
        shmem_barrier_all();                                                                       \
        for (int kind = 0; kind < KINDS; kind++) {                                                 \
            T *word = &words->cells[kind][me].word;                                                \
            int pe = target_of(kind, me);                                                          \
            T first = value_##N(200 + kind), second = swapped_##N(me, kind);                       \
            CHECK_EQ(CALL(on_ctx, N, fetch, word, pe), 0);                                         \
            CHECK_EQ(CALL(on_ctx, N, swap, word, first, pe), 0);                                   \
            CHECK_EQ(CALL(on_ctx, N, fetch, word, pe), first);                                     \
            CHECK_EQ(CALL(on_ctx, N, swap, word, second, pe), first);                              \
            CHECK_EQ(CALL(on_ctx, N, fetch, word, pe), second);                                    \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        check_words_##N("swap " #N, words, swapped_##N);                                           \
        shmem_barrier_all();                                                                       \
    }

/* Arithmetic and compare_swap: integers. */
#define DEFINE_ARITHMETIC(N, T, C)                                                                 \
    static T added_##N(int source, int kind)                                                       \
    {                                                                                              \
        return PLUS(T, value_##N(source * KINDS + kind + 1), 3);                                   \
    }                                                                                              \
    static void arithmetic_##N(words_##N *words, int on_ctx)                                       \
    {                                                                                              \
        reset_##N(words);                                                                          \
        shmem_barrier_all();                                                                       \
        for (int kind = 0; kind < KINDS; kind++) {                                                 \
            T *word = &words->cells[kind][me].word;                                                \
            int pe = target_of(kind, me);                                                          \
            T wanted = value_##N(me * KINDS + kind + 1), top = TOP(T);                             \
            CHECK_EQ(CALL(on_ctx, N, compare_swap, word, 1, wanted, pe), 0);                       \
            CHECK_EQ(CALL(on_ctx, N, compare_swap, word, 0, top, pe), 0);                          \
            CHECK_EQ(CALL(on_ctx, N, compare_swap, word, 0, wanted, pe), top);                     \
            CHECK_EQ(CALL(on_ctx, N, fetch_inc, word, pe), top);                                   \
            T wrapped = PLUS(T, top, 1);                                                           \
            CHECK_EQ(CALL(on_ctx, N, fetch_add, word, (T)-1, pe), wrapped);                        \
            CHECK_EQ(CALL(on_ctx, N, fetch_add, word, PLUS(T, wanted, -top), pe), top);            \
            CHECK_EQ(CALL(on_ctx, N, fetch_inc, word, pe), wanted);                                \
            CHECK_EQ(CALL(on_ctx, N, fetch_add, word, 2, pe), PLUS(T, wanted, 1));                 \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        check_words_##N("arithmetic " #N, words, added_##N);                                       \
        shmem_barrier_all();                                                                       \
    }                                                                                              \
    /* Each value below the total is returned to exactly one PE, each PE's values ascend. */       \
    static void contend_##N(words_##N *words, int on_ctx)                                          \
    {                                                                                              \
        T *word = &words->contended.word;                                                          \
        T total = (T)(ROUNDS * 3 * pes), last = 0;                                                 \
        uint64_t sum = 0;                                                                          \
        reset_##N(words);                                                                          \
        returned_sum = 0;                                                                          \
        shmem_barrier_all();                                                                       \
        for (int i = 0; i < ROUNDS * 3; i++) {                                                     \
            T old;                                                                                 \
            if (i % 3 == 0) {                                                                      \
                old = CALL(on_ctx, N, fetch_inc, word, pes - 1);                                   \
            } else if (i % 3 == 1) {                                                               \
                old = CALL(on_ctx, N, fetch_add, word, 1, pes - 1);                                \
            } else {                                                                               \
                T seen = CALL(on_ctx, N, fetch, word, pes - 1);                                    \
                while ((old = CALL(on_ctx, N, compare_swap, word, seen, (T)(seen + 1), pes - 1)) !=\
                       seen)                                                                       \
                    seen = old;                                                                    \
            }                                                                                      \
            CHECK(i == 0 || old > last);                                                           \
            CHECK(old < total);                                                                    \
            last = old;                                                                            \
            sum += (uint64_t)old;                                                                  \
        }                                                                                          \
        shmem_uint64_atomic_fetch_add(&returned_sum, sum, 0);                                      \
        shmem_barrier_all();                                                                       \
        if (me == 0)                                                                               \
            CHECK_EQ(returned_sum, (uint64_t)total * ((uint64_t)total - 1) / 2);                   \
        CHECK_EQ(*word, me == pes - 1 ? total : 0);                                                \
        check_guards_##N("contended " #N, words);                                                  \
        shmem_barrier_all();                                                                       \
    }

/* and, or, xor: each PE owns one bit of the contended word and sees all its own changes. */
#define DEFINE_BITWISE(N, T, C)                                                                    \
    static T masked_##N(int source, int kind)                                                      \
    {                                                                                              \
        return (T)(value_##N(source * KINDS + kind + 1) ^ (T)0x55);                                \
    }                                                                                              \
    static void bitwise_##N(words_##N *words, int on_ctx)                                          \
    {                                                                                              \
        T bit = (T)((T)1 << me), *all = &words->contended.word;                                    \
        reset_##N(words);                                                                          \
        shmem_barrier_all();                                                                       \
        for (int kind = 0; kind < KINDS; kind++) {                                                 \
            T *word = &words->cells[kind][me].word;                                                \
            int pe = target_of(kind, me);                                                          \
            T wanted = value_##N(me * KINDS + kind + 1), ones = (T)~UINT64_C(0);                   \
            CHECK_EQ(CALL(on_ctx, N, fetch_or, word, ones, pe), 0);                                \
            CHECK_EQ(CALL(on_ctx, N, fetch_and, word, wanted, pe), ones);                          \
            CHECK_EQ(CALL(on_ctx, N, fetch_xor, word, (T)0x55, pe), wanted);                       \
        }                                                                                          \
        for (int i = 0; i < ROUNDS; i++) {                                                         \
            CHECK_EQ(CALL(on_ctx, N, fetch_or, all, bit, pes - 1) & bit, 0);                       \
            CHECK_EQ(CALL(on_ctx, N, fetch_xor, all, bit, pes - 1) & bit, bit);                    \
            CHECK_EQ(CALL(on_ctx, N, fetch_xor, all, bit, pes - 1) & bit, 0);                      \
            CHECK_EQ(CALL(on_ctx, N, fetch_and, all, (T)~bit, pes - 1) & bit, bit);                \
        }                                                                                          \
        CHECK_EQ(CALL(on_ctx, N, fetch_or, all, bit, pes - 1) & bit, 0);                           \
        shmem_barrier_all();                                                                       \
        check_words_##N("bitwise " #N, words, masked_##N);                                         \
        CHECK_EQ(*all, me == pes - 1 ? (T)((UINT64_C(1) << pes) - 1) : 0);                         \
        shmem_barrier_all();                                                                       \
    }

EXTENDED_AMO_TYPES(DEFINE_SWAP)
STANDARD_AMO_TYPES(DEFINE_ARITHMETIC)
BITWISE_AMO_TYPES(DEFINE_BITWISE)

/* Swaps of floating values keep every bit, of a NaN too. */
static void test_nan(void)
{
    static double word;
    const uint64_t bits = UINT64_C(0x7ff8deadbeef1234);
    uint64_t seen;
    double nan;
    memcpy(&nan, &bits, sizeof nan);
    word = 0;
    shmem_barrier_all();
    CHECK_EQ(shmem_double_atomic_swap(&word, nan, me), 0);
    double fetched = shmem_double_atomic_fetch(&word, me);
    memcpy(&seen, &fetched, sizeof seen);
    CHECK_EQ(seen, bits);
    double swapped = shmem_double_atomic_swap(&word, 2.5, me);
    memcpy(&seen, &swapped, sizeof seen);
    CHECK_EQ(seen, bits);
    CHECK_EQ(word, 2.5);
}

int main(void)
{
    check_begin();
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    void *heap = heap_block(sizeof(words_long));
    for (int on_ctx = 0; on_ctx < 2; on_ctx++) {
#define RUN_SWAP(N, T, C) swap_##N(&static_words_##N, on_ctx), swap_##N(heap, on_ctx);
        EXTENDED_AMO_TYPES(RUN_SWAP)
#define RUN_ARITHMETIC(N, T, C)                                                                    \
    arithmetic_##N(&static_words_##N, on_ctx), arithmetic_##N(heap, on_ctx);                       \
    contend_##N(&static_words_##N, on_ctx), contend_##N(heap, on_ctx);
        STANDARD_AMO_TYPES(RUN_ARITHMETIC)
#define RUN_BITWISE(N, T, C) bitwise_##N(&static_words_##N, on_ctx), bitwise_##N(heap, on_ctx);
        BITWISE_AMO_TYPES(RUN_BITWISE)
    }
    test_nan();
    shmem_ctx_destroy(ctx);
    shmem_free(heap);
    return check_end("amo_fetching");
}
