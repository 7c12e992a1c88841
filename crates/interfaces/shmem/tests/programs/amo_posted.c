/* Atomics that return nothing: set, inc, add, and, or, xor; alone and under contention, on both
 * kinds of context. Quiet completes them. */
#include "words.h"

enum { ROUNDS = 60 };

static shmem_ctx_t ctx;

#define CALL(on_ctx, N, OP, ...)                                                                   \
    do {                                                                                           \
        if (on_ctx)                                                                                \
            shmem_ctx_##N##_atomic_##OP(ctx, __VA_ARGS__);                                         \
        else                                                                                       \
            shmem_##N##_atomic_##OP(__VA_ARGS__);                                                  \
    } while (0)

static void quiet(int on_ctx)
{
    if (on_ctx)
        shmem_ctx_quiet(ctx);
    else
        shmem_quiet();
}

#define DEFINE_SET(N, T, C)                                                                        \
    DEFINE_WORDS(N, T, C)                                                                          \
    static T set_to_##N(int source, int kind)                                                      \
    {                                                                                              \
        return value_##N(source * KINDS + kind + 1);                                               \
    }                                                                                              \
    static void set_##N(words_##N *words, int on_ctx)                                              \
    {                                                                                              \
        reset_##N(words);                                                                          \
        shmem_barrier_all();                                                                       \
        for (int kind = 0; kind < KINDS; kind++)                                                   \
            CALL(on_ctx, N, set, &words->cells[kind][me].word, set_to_##N(me, kind),               \
                 target_of(kind, me));                                                             \
        quiet(on_ctx);                                                                             \
        for (int kind = 0; kind < KINDS; kind++)                                                   \
            CHECK_EQ(shmem_##N##_g(&words->cells[kind][me].word, target_of(kind, me)),             \
                     set_to_##N(me, kind));                                                        \
        shmem_barrier_all();                                                                       \
        check_words_##N("set " #N, words, set_to_##N);                                             \
        shmem_barrier_all();                                                                       \
    }

#define DEFINE_ARITHMETIC(N, T, C)                                                                 \
    static T added_##N(int source, int kind)                                                       \
    {                                                                                              \
        return PLUS(T, PLUS(T, TOP(T), 1), value_##N(source * KINDS + kind + 1));                  \
    }                                                                                              \
    static void arithmetic_##N(words_##N *words, int on_ctx)                                       \
    {                                                                                              \
        reset_##N(words);                                                                          \
        shmem_barrier_all();                                                                       \
        for (int kind = 0; kind < KINDS; kind++) {                                                 \
            T *word = &words->cells[kind][me].word;                                                \
            int pe = target_of(kind, me);                                                          \
            CALL(on_ctx, N, add, word, TOP(T), pe);                                                \
            CALL(on_ctx, N, inc, word, pe);                                                        \
            CALL(on_ctx, N, add, word, value_##N(me * KINDS + kind + 1), pe);                      \
        }                                                                                          \
        for (int i = 0; i < ROUNDS; i++) {                                                         \
            CALL(on_ctx, N, inc, &words->contended.word, pes - 1);                                 \
            CALL(on_ctx, N, add, &words->contended.word, (T)(me + 2), pes - 1);                    \
        }                                                                                          \
        quiet(on_ctx);                                                                             \
        shmem_barrier_all();                                                                       \
        check_words_##N("add " #N, words, added_##N);                                              \
        T total = (T)(ROUNDS * (3 * pes + pes * (pes - 1) / 2));                                   \
        CHECK_EQ(words->contended.word, me == pes - 1 ? total : 0);                                \
        shmem_barrier_all();                                                                       \
    }

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
            CALL(on_ctx, N, or, word, (T)~UINT64_C(0), pe);                                        \
            quiet(on_ctx);                                                                         \
            CALL(on_ctx, N, and, word, value_##N(me * KINDS + kind + 1), pe);                      \
            quiet(on_ctx);                                                                         \
            CALL(on_ctx, N, xor, word, (T)0x55, pe);                                               \
        }                                                                                          \
        for (int i = 0; i < ROUNDS; i++) {                                                         \
            CALL(on_ctx, N, or, all, bit, pes - 1);                                                \
            quiet(on_ctx);                                                                         \
            CALL(on_ctx, N, and, all, (T)~bit, pes - 1);                                           \
            quiet(on_ctx);                                                                         \
            CALL(on_ctx, N, xor, all, bit, pes - 1);                                               \
            quiet(on_ctx);                                                                         \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        check_words_##N("bitwise " #N, words, masked_##N);                                         \
        CHECK_EQ(*all, me == pes - 1 ? (T)((UINT64_C(1) << pes) - 1) : 0);                         \
        shmem_barrier_all();                                                                       \
    }

EXTENDED_AMO_TYPES(DEFINE_SET)
STANDARD_AMO_TYPES(DEFINE_ARITHMETIC)
BITWISE_AMO_TYPES(DEFINE_BITWISE)

int main(void)
{
    check_begin();
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    void *heap = heap_block(sizeof(words_long));
    for (int on_ctx = 0; on_ctx < 2; on_ctx++) {
#define RUN_SET(N, T, C) set_##N(&static_words_##N, on_ctx), set_##N(heap, on_ctx);
        EXTENDED_AMO_TYPES(RUN_SET)
#define RUN_ARITHMETIC(N, T, C)                                                                    \
    arithmetic_##N(&static_words_##N, on_ctx), arithmetic_##N(heap, on_ctx);
        STANDARD_AMO_TYPES(RUN_ARITHMETIC)
#define RUN_BITWISE(N, T, C) bitwise_##N(&static_words_##N, on_ctx), bitwise_##N(heap, on_ctx);
        BITWISE_AMO_TYPES(RUN_BITWISE)
    }
    shmem_ctx_destroy(ctx);
    shmem_free(heap);
    return check_end("amo_posted");
}
