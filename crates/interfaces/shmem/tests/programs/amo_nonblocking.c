/* Non-blocking atomics: the fetched values are there after quiet. Each PE has many under way at
 * once, on words of its own and on one that all contend for. */
#include "words.h"

enum { ROUNDS = 40 };

static shmem_ctx_t ctx;

#define CALL(on_ctx, N, OP, ...)                                                                   \
    do {                                                                                           \
        if (on_ctx)                                                                                \
            shmem_ctx_##N##_atomic_##OP##_nbi(ctx, __VA_ARGS__);                                   \
        else                                                                                       \
            shmem_##N##_atomic_##OP##_nbi(__VA_ARGS__);                                            \
    } while (0)

static void quiet(int on_ctx)
{
    if (on_ctx)
        shmem_ctx_quiet(ctx);
    else
        shmem_quiet();
}

/* Puts one operation to each kind of target, quiets, and checks what was fetched. */
#define EACH(on_ctx, N, OP, expected, ...)                                                         \
    do {                                                                                           \
        for (int kind = 0; kind < KINDS; kind++) {                                                 \
            fetched[kind + 1] = value_##N(GUARD);                                                  \
            CALL(on_ctx, N, OP, &fetched[kind + 1], &words->cells[kind][me].word, __VA_ARGS__);    \
        }                                                                                          \
        quiet(on_ctx);                                                                             \
        for (int kind = 0; kind < KINDS; kind++)                                                   \
            CHECK_AT(#OP " " #N, kind, 0, fetched[kind + 1], expected);                            \
        CHECK_EQ(fetched[0], value_##N(GUARD));                                                    \
        CHECK_EQ(fetched[KINDS + 1], value_##N(GUARD));                                            \
    } while (0)
#define PE target_of(kind, me)

#define DEFINE_SWAP(N, T, C)                                                                       \
    DEFINE_WORDS(N, T, C)                                                                          \
    static T swapped_##N(int source, int kind)                                                     \
    {                                                                                              \
        return value_##N(source * KINDS + kind + 1);                                               \
    }                                                                                              \
    static void swap_##N(words_##N *words, int on_ctx)                                             \
    {                                                                                              \
        T fetched[KINDS + 2] = {value_##N(GUARD)};                                                 \
        fetched[KINDS + 1] = value_##N(GUARD);                                                     \
        reset_##N(words);                                                                          \
        shmem_barrier_all();                                                                       \
        EACH(on_ctx, N, fetch, (T)0, PE);                                                          \
        EACH(on_ctx, N, swap, (T)0, value_##N(100 + kind), PE);                                    \
        EACH(on_ctx, N, fetch, value_##N(100 + kind), PE);                                         \
        EACH(on_ctx, N, swap, value_##N(100 + kind), swapped_##N(me, kind), PE);                   \
        shmem_barrier_all();                                                                       \
        check_words_##N("swap_nbi " #N, words, swapped_##N);                                       \
        shmem_barrier_all();                                                                       \
    }

#define DEFINE_ARITHMETIC(N, T, C)                                                                 \
    static T added_##N(int source, int kind)                                                       \
    {                                                                                              \
        return PLUS(T, PLUS(T, TOP(T), 1), value_##N(source * KINDS + kind + 1));                  \
    }                                                                                              \
    static void arithmetic_##N(words_##N *words, int on_ctx)                                       \
    {                                                                                              \
        T fetched[KINDS + 2] = {value_##N(GUARD)}, many[ROUNDS];                                   \
        fetched[KINDS + 1] = value_##N(GUARD);                                                     \
        reset_##N(words);                                                                          \
        shmem_barrier_all();                                                                       \
        EACH(on_ctx, N, compare_swap, (T)0, (T)5, (T)7, PE);                                       \
        EACH(on_ctx, N, compare_swap, (T)0, (T)0, TOP(T), PE);                                     \
        EACH(on_ctx, N, fetch_inc, TOP(T), PE);                                                    \
        EACH(on_ctx, N, fetch_add, PLUS(T, TOP(T), 1), value_##N(me * KINDS + kind + 1), PE);      \
        for (int i = 0; i < ROUNDS; i++)                                                           \
            if (i % 2)                                                                             \
                CALL(on_ctx, N, fetch_inc, &many[i], &words->contended.word, pes - 1);             \
            else                                                                                   \
                CALL(on_ctx, N, fetch_add, &many[i], &words->contended.word, 1, pes - 1);          \
        quiet(on_ctx);                                                                             \
        for (int i = 0; i < ROUNDS; i++) {                                                         \
            CHECK(many[i] < (T)(ROUNDS * pes));                                                    \
            for (int j = 0; j < i; j++)                                                            \
                CHECK(many[i] != many[j]);                                                         \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        check_words_##N("fetch_add_nbi " #N, words, added_##N);                                    \
        CHECK_EQ(words->contended.word, me == pes - 1 ? (T)(ROUNDS * pes) : 0);                    \
        shmem_barrier_all();                                                                       \
    }

#define DEFINE_BITWISE(N, T, C)                                                                    \
    static T masked_##N(int source, int kind)                                                      \
    {                                                                                              \
        return (T)(value_##N(source * KINDS + kind + 1) ^ (T)0x55);                                \
    }                                                                                              \
    static void bitwise_##N(words_##N *words, int on_ctx)                                          \
    {                                                                                              \
        T fetched[KINDS + 2] = {value_##N(GUARD)}, bit = (T)((T)1 << me), ones = (T)-1;            \
        fetched[KINDS + 1] = value_##N(GUARD);                                                     \
        reset_##N(words);                                                                          \
        shmem_barrier_all();                                                                       \
        EACH(on_ctx, N, fetch_or, (T)0, ones, PE);                                                 \
        EACH(on_ctx, N, fetch_and, ones, value_##N(me * KINDS + kind + 1), PE);                    \
        EACH(on_ctx, N, fetch_xor, value_##N(me * KINDS + kind + 1), (T)0x55, PE);                 \
        CALL(on_ctx, N, fetch_or, &fetched[1], &words->contended.word, bit, pes - 1);              \
        quiet(on_ctx);                                                                             \
        CHECK_EQ(fetched[1] & bit, 0);                                                             \
        shmem_barrier_all();                                                                       \
        check_words_##N("bitwise_nbi " #N, words, masked_##N);                                     \
        CHECK_EQ(words->contended.word, me == pes - 1 ? (T)((UINT64_C(1) << pes) - 1) : 0);        \
        shmem_barrier_all();                                                                       \
    }

EXTENDED_AMO_TYPES(DEFINE_SWAP)
STANDARD_AMO_TYPES(DEFINE_ARITHMETIC)
BITWISE_AMO_TYPES(DEFINE_BITWISE)

int main(void)
{
    check_begin();
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    void *heap = heap_block(sizeof(words_long));
    for (int on_ctx = 0; on_ctx < 2; on_ctx++) {
#define RUN_SWAP(N, T, C) swap_##N(&static_words_##N, on_ctx), swap_##N(heap, on_ctx);
        EXTENDED_AMO_TYPES(RUN_SWAP)
#define RUN_ARITHMETIC(N, T, C)                                                                    \
    arithmetic_##N(&static_words_##N, on_ctx), arithmetic_##N(heap, on_ctx);
        STANDARD_AMO_TYPES(RUN_ARITHMETIC)
#define RUN_BITWISE(N, T, C) bitwise_##N(&static_words_##N, on_ctx), bitwise_##N(heap, on_ctx);
        BITWISE_AMO_TYPES(RUN_BITWISE)
    }
    shmem_ctx_destroy(ctx);
    shmem_free(heap);
    return check_end("amo_nonblocking");
}
