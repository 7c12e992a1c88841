/* The atomics by their names of before 1.4. */
#include "words.h"

/* Hidden by the type-generic macro of the same name, but a function of the library. */
extern long(shmem_swap)(long *dest, long value, int pe);

enum { ROUNDS = 50 };

#define DEFINE_SWAP(N, T, C)                                                                       \
    DEFINE_WORDS(N, T, C)                                                                          \
    static T swapped_##N(int source, int kind)                                                     \
    {                                                                                              \
        return value_##N(source * KINDS + kind + 1);                                               \
    }                                                                                              \
    static void swap_##N(words_##N *words)                                                         \
    {                                                                                              \
        reset_##N(words);                                                                          \
        shmem_barrier_all();                                                                       \
        for (int kind = 0; kind < KINDS; kind++) {                                                 \
            T *word = &words->cells[kind][me].word;                                                \
            int pe = target_of(kind, me);                                                          \
            shmem_##N##_set(word, value_##N(99), pe);                                              \
            shmem_quiet();                                                                         \
            CHECK_EQ(shmem_##N##_fetch(word, pe), value_##N(99));                                  \
            CHECK_EQ(shmem_##N##_swap(word, swapped_##N(me, kind), pe), value_##N(99));            \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        check_words_##N("swap " #N, words, swapped_##N);                                           \
        shmem_barrier_all();                                                                       \
    }

#define DEFINE_ARITHMETIC(N, T, C)                                                                 \
    static T added_##N(int source, int kind)                                                       \
    {                                                                                              \
        return PLUS(T, value_##N(source * KINDS + kind + 1), 8);                                   \
    }                                                                                              \
    static void arithmetic_##N(words_##N *words)                                                   \
    {                                                                                              \
        reset_##N(words);                                                                          \
        shmem_barrier_all();                                                                       \
        for (int kind = 0; kind < KINDS; kind++) {                                                 \
            T *word = &words->cells[kind][me].word;                                                \
            int pe = target_of(kind, me);                                                          \
            T wanted = value_##N(me * KINDS + kind + 1);                                           \
            CHECK_EQ(shmem_##N##_cswap(word, 1, wanted, pe), 0);                                   \
            CHECK_EQ(shmem_##N##_cswap(word, 0, wanted, pe), 0);                                   \
            CHECK_EQ(shmem_##N##_finc(word, pe), wanted);                                          \
            CHECK_EQ(shmem_##N##_fadd(word, 2, pe), PLUS(T, wanted, 1));                           \
            shmem_##N##_inc(word, pe);                                                             \
            shmem_##N##_add(word, 4, pe);                                                          \
        }                                                                                          \
        for (int i = 0; i < ROUNDS; i++) {                                                         \
            CHECK(shmem_##N##_finc(&words->contended.word, pes - 1) < (T)(ROUNDS * 4 * pes));      \
            CHECK(shmem_##N##_fadd(&words->contended.word, 1, pes - 1) < (T)(ROUNDS * 4 * pes));   \
            shmem_##N##_inc(&words->contended.word, pes - 1);                                      \
            shmem_##N##_add(&words->contended.word, 1, pes - 1);                                   \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        check_words_##N("arithmetic " #N, words, added_##N);                                       \
        CHECK_EQ(words->contended.word, me == pes - 1 ? (T)(ROUNDS * 4 * pes) : 0);                \
        shmem_barrier_all();                                                                       \
    }

OLD_AMO_TYPES(DEFINE_SWAP)
OLD_AMO_INTEGERS(DEFINE_ARITHMETIC)

static void swap_of_long(words_long *words)
{
    reset_long(words);
    shmem_barrier_all();
    for (int kind = 0; kind < KINDS; kind++) {
        long *word = &words->cells[kind][me].word;
        CHECK_EQ((shmem_swap)(word, 99, target_of(kind, me)), 0);
        CHECK_EQ((shmem_swap)(word, swapped_long(me, kind), target_of(kind, me)), 99);
    }
    shmem_barrier_all();
    check_words_long("shmem_swap", words, swapped_long);
    shmem_barrier_all();
}

int main(void)
{
    check_begin();
    void *heap = heap_block(sizeof(words_long));
#define RUN_SWAP(N, T, C) swap_##N(&static_words_##N), swap_##N(heap);
    OLD_AMO_TYPES(RUN_SWAP)
#define RUN_ARITHMETIC(N, T, C) arithmetic_##N(&static_words_##N), arithmetic_##N(heap);
    OLD_AMO_INTEGERS(RUN_ARITHMETIC)
    swap_of_long(&static_words_long);
    swap_of_long(heap);
    shmem_free(heap);
    return check_end("amo_deprecated");
}
