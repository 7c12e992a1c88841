/* The memory that transfers are checked with: for each kind of target and each source PE one row,
 * of which the source writes COUNT elements, `step` apart, from element 1. Everything else of the
 * rows holds a guard value and must keep it. */
#ifndef ROWS_H
#define ROWS_H

#include "check.h"
#include "types.h"

enum { LEN = 12, COUNT = 5, GUARD = 251 };

/* Different for each source PE, kind and position, and never GUARD or GUARD - 1. */
static inline int number_of(int source, int kind, int position)
{
    return (source * KINDS + kind) * COUNT + position + 1;
}

/* The position that element `i` of a row holds, or -1 for a guard. */
static inline int position_of(int i, int step)
{
    int offset = i - 1;
    return offset >= 0 && offset % step == 0 && offset / step < COUNT ? offset / step : -1;
}

#define DEFINE_ROWS(N, T, C)                                                                       \
    static inline T value_##N(int number)                                                          \
    {                                                                                              \
        return VALUE_##C(T, number);                                                               \
    }                                                                                              \
    static inline void guard_##N(T *row)                                                           \
    {                                                                                              \
        for (int i = 0; i < LEN; i++)                                                              \
            row[i] = value_##N(GUARD);                                                             \
    }                                                                                              \
    /* All guards. */                                                                              \
    static inline void reset_##N(T (*rows)[MAX_PES][LEN])                                          \
    {                                                                                              \
        for (int kind = 0; kind < KINDS; kind++)                                                   \
            for (int pe = 0; pe < MAX_PES; pe++)                                                   \
                guard_##N(rows[kind][pe]);                                                         \
    }                                                                                              \
    /* What a PE sends in a kind, `step` apart; all else is neither data nor guard. */             \
    static inline void fill_##N(T *row, int source, int kind, int step)                            \
    {                                                                                              \
        for (int i = 0; i < LEN; i++) {                                                            \
            int position = position_of(i, step);                                                   \
            row[i] = value_##N(position < 0 ? GUARD - 1 : number_of(source, kind, position));      \
        }                                                                                          \
    }                                                                                              \
    /* That a row has what `source` sent in a kind, or only guards. */                             \
    static inline void check_row_##N(const char *call, const T *row, int source, int kind,         \
                                     int step, int is_written)                                     \
    {                                                                                              \
        for (int i = 0; i < LEN; i++) {                                                            \
            int position = is_written ? position_of(i, step) : -1;                                 \
            T expected = value_##N(position < 0 ? GUARD : number_of(source, kind, position));      \
            CHECK_AT(call, source * KINDS + kind, i, row[i], expected);                            \
        }                                                                                          \
    }                                                                                              \
    /* That every PE has written its rows here and nothing else. */                                \
    static inline void check_rows_##N(const char *call, T (*rows)[MAX_PES][LEN], int step)         \
    {                                                                                              \
        for (int kind = 0; kind < KINDS; kind++)                                                   \
            for (int pe = 0; pe < MAX_PES; pe++)                                                   \
                check_row_##N(call, rows[kind][pe], pe, kind, step,                                \
                              pe < pes && target_of(kind, pe) == me);                              \
    }

#endif
