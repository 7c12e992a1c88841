/* The memory that atomics are checked with: for each kind of target and each source PE one word
 * between two guards; and one word that all PEs contend for. */
#ifndef WORDS_H
#define WORDS_H

#include "check.h"
#include "types.h"

enum { GUARD = 251 };

#define DEFINE_WORDS(N, T, C)                                                                      \
    typedef struct {                                                                               \
        T before, word, after;                                                                     \
    } cell_##N;                                                                                    \
    typedef struct {                                                                               \
        cell_##N cells[KINDS][MAX_PES];                                                            \
        cell_##N contended;                                                                        \
    } words_##N;                                                                                   \
    static words_##N static_words_##N;                                                             \
                                                                                                   \
    static inline T value_##N(int number)                                                          \
    {                                                                                              \
        return VALUE_##C(T, number);                                                               \
    }                                                                                              \
    static inline void reset_##N(words_##N *words)                                                 \
    {                                                                                              \
        cell_##N cell = {value_##N(GUARD), 0, value_##N(GUARD)};                                   \
        for (int kind = 0; kind < KINDS; kind++)                                                   \
            for (int pe = 0; pe < MAX_PES; pe++)                                                   \
                words->cells[kind][pe] = cell;                                                     \
        words->contended = cell;                                                                   \
    }                                                                                              \
    static inline void check_guards_##N(const char *call, const words_##N *words)                  \
    {                                                                                              \
        const cell_##N *cells = &words->cells[0][0];                                               \
        for (int i = 0; i < KINDS * MAX_PES; i++) {                                                \
            CHECK_AT(call, i, 0, cells[i].before, value_##N(GUARD));                               \
            CHECK_AT(call, i, 2, cells[i].after, value_##N(GUARD));                                \
        }                                                                                          \
        CHECK_AT(call, -1, 0, words->contended.before, value_##N(GUARD));                          \
        CHECK_AT(call, -1, 2, words->contended.after, value_##N(GUARD));                           \
    }                                                                                              \
    /* That the word of each source PE that aims at this PE holds `expected` of it, and that the   \
     * words of the others are as they were. */                                                    \
    static inline void check_words_##N(const char *call, const words_##N *words,                   \
                                       T (*expected)(int source, int kind))                        \
    {                                                                                              \
        check_guards_##N(call, words);                                                             \
        for (int kind = 0; kind < KINDS; kind++)                                                   \
            for (int pe = 0; pe < MAX_PES; pe++) {                                                 \
                int is_target = pe < pes && target_of(kind, pe) == me;                             \
                T value = is_target ? expected(pe, kind) : (T)0;                                   \
                CHECK_AT(call, kind, pe, words->cells[kind][pe].word, value);                      \
            }                                                                                      \
    }

/* The word after so many additions; wraps as the standard says. */
#define PLUS(T, a, b) ((T)((uint64_t)(a) + (uint64_t)(b)))
/* The largest value of an integer type. */
#define TOP(T) ((T)((T)-1 < (T)1 ? ~(UINT64_C(1) << (sizeof(T) * 8 - 1)) : ~UINT64_C(0)))

#endif
