/* wait_until and test of every type: all comparisons at the boundaries of the type, flags that
 * other PEs raise, and the names of before 1.4. */
#include "check.h"
#include "types.h"

/* Hidden by the type-generic macro of the same name, but a function of the library. */
extern void(shmem_wait_until)(long *ivar, int cmp, long cmp_value);

enum { GUARD = 0x5a, ROUNDS = 5, VALUES = 8 };

static const int comparisons[] = {SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_GT,
                                  SHMEM_CMP_GE, SHMEM_CMP_LT, SHMEM_CMP_LE};

#define HOLDS(cmp, a, b)                                                                           \
    ((cmp) == SHMEM_CMP_EQ   ? (a) == (b)                                                          \
     : (cmp) == SHMEM_CMP_NE ? (a) != (b)                                                          \
     : (cmp) == SHMEM_CMP_GT ? (a) > (b)                                                           \
     : (cmp) == SHMEM_CMP_GE ? (a) >= (b)                                                          \
     : (cmp) == SHMEM_CMP_LT ? (a) < (b)                                                           \
                             : (a) <= (b))

#define DEFINE_TEST(N, T, C)                                                                       \
    typedef struct {                                                                               \
        T before, word, after;                                                                     \
    } cell_##N;                                                                                    \
    static cell_##N static_cell_##N;                                                               \
                                                                                                   \
    /* Every comparison of every two values; waits whose condition holds return at once. */        \
    static void compare_##N(cell_##N *cell)                                                        \
    {                                                                                              \
        const T low = (T)-1 < (T)1 ? (T)(UINT64_C(1) << (sizeof(T) * 8 - 1)) : (T)0;               \
        const T high = (T)~low;                                                                    \
        const T values[VALUES] = {low, (T)(low + 1), (T)-1, 0, 1, (T)(high - 1), high, (T)0x1234}; \
        for (int i = 0; i < VALUES; i++) {                                                         \
            shmem_##N##_p(&cell->word, values[i], me);                                             \
            shmem_quiet();                                                                         \
            for (int j = 0; j < VALUES; j++)                                                       \
                for (int k = 0; k < 6; k++) {                                                      \
                    int holds = HOLDS(comparisons[k], values[i], values[j]);                       \
                    int found = shmem_##N##_test(&cell->word, comparisons[k], values[j]);          \
                    CHECK_AT("test " #N, i * VALUES + j, k, !!found, holds);                       \
                    if (holds)                                                                     \
                        shmem_##N##_wait_until(&cell->word, comparisons[k], values[j]);            \
                }                                                                                  \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* A token goes round the ring; each PE waits for it by another comparison. */                 \
    static void ring_##N(cell_##N *cell)                                                           \
    {                                                                                              \
        cell->before = cell->after = (T)GUARD;                                                     \
        cell->word = 0;                                                                            \
        shmem_barrier_all();                                                                       \
        for (int round = 1; round <= ROUNDS; round++) {                                            \
            T token = (T)(round * 100);                                                            \
            if (me == 0)                                                                           \
                shmem_##N##_p(&cell->word, token, 1 % pes);                                        \
            switch (round % 5) {                                                                   \
            case 0:                                                                                \
                shmem_##N##_wait_until(&cell->word, SHMEM_CMP_EQ, token);                          \
                break;                                                                             \
            case 1:                                                                                \
                shmem_##N##_wait_until(&cell->word, SHMEM_CMP_NE, (T)(token - 100));               \
                break;                                                                             \
            case 2:                                                                                \
                shmem_##N##_wait_until(&cell->word, SHMEM_CMP_GT, (T)(token - 1));                 \
                break;                                                                             \
            case 3:                                                                                \
                shmem_##N##_wait_until(&cell->word, SHMEM_CMP_GE, token);                          \
                break;                                                                             \
            default:                                                                               \
                while (!shmem_##N##_test(&cell->word, SHMEM_CMP_EQ, token))                        \
                    ;                                                                              \
            }                                                                                      \
            CHECK_EQ(*(volatile T *)&cell->word, token);                                           \
            if (me != 0)                                                                           \
                shmem_##N##_p(&cell->word, token, (me + 1) % pes);                                 \
        }                                                                                          \
        CHECK_EQ(cell->before, GUARD);                                                             \
        CHECK_EQ(cell->after, GUARD);                                                              \
        shmem_barrier_all();                                                                       \
        /* And down again, past zero where the type is signed. */                                  \
        shmem_##N##_p(&cell->word, (T)(100 - ROUNDS), (me + 1) % pes);                             \
        shmem_##N##_wait_until(&cell->word, SHMEM_CMP_LT, 100);                                    \
        shmem_##N##_wait_until(&cell->word, SHMEM_CMP_LE, 100 - ROUNDS);                           \
        CHECK_EQ(*(volatile T *)&cell->word, 100 - ROUNDS);                                        \
        shmem_barrier_all();                                                                       \
    }

WAIT_TYPES(DEFINE_TEST)

/* Flags raised by atomics, which is what the standard asks for since 1.5. */
#define DEFINE_ATOMIC(N, T, C)                                                                     \
    static void atomic_##N(cell_##N *cell)                                                         \
    {                                                                                              \
        cell->word = 0;                                                                            \
        shmem_barrier_all();                                                                       \
        for (int pe = 0; pe < pes; pe++)                                                           \
            shmem_##N##_atomic_inc(&cell->word, pe);                                               \
        shmem_##N##_wait_until(&cell->word, SHMEM_CMP_EQ, (T)pes);                                 \
        CHECK_EQ(*(volatile T *)&cell->word, pes);                                                 \
        shmem_barrier_all();                                                                       \
        shmem_##N##_atomic_set(&cell->word, (T)-1, (me + 1) % pes);                                \
        shmem_##N##_wait_until(&cell->word, SHMEM_CMP_EQ, (T)-1);                                  \
        CHECK(shmem_##N##_test(&cell->word, SHMEM_CMP_NE, (T)pes));                                \
        shmem_barrier_all();                                                                       \
    }
STANDARD_AMO_TYPES(DEFINE_ATOMIC)

#define DEFINE_OLD(N, T, C)                                                                        \
    static void old_##N(cell_##N *cell)                                                            \
    {                                                                                              \
        cell->word = 7;                                                                            \
        shmem_barrier_all();                                                                       \
        shmem_##N##_p(&cell->word, (T)-8, (me + 1) % pes);                                         \
        shmem_##N##_wait(&cell->word, 7);                                                          \
        CHECK_EQ(*(volatile T *)&cell->word, -8);                                                  \
        shmem_barrier_all();                                                                       \
    }
SET_BITWISE_TYPES(DEFINE_OLD)

static void old_names(long *word)
{
    *word = 7;
    shmem_barrier_all();
    shmem_long_p(word, -8, (me + 1) % pes);
    shmem_wait(word, 7);
    CHECK_EQ(*(volatile long *)word, -8);
    shmem_barrier_all();
    shmem_long_p(word, 12, (me + 1) % pes);
    (shmem_wait_until)(word, SHMEM_CMP_GT, -8);
    CHECK_EQ(*(volatile long *)word, 12);
    CHECK_EQ(_SHMEM_CMP_EQ, SHMEM_CMP_EQ);
    CHECK_EQ(_SHMEM_CMP_NE, SHMEM_CMP_NE);
    CHECK_EQ(_SHMEM_CMP_LT, SHMEM_CMP_LT);
    CHECK_EQ(_SHMEM_CMP_LE, SHMEM_CMP_LE);
    CHECK_EQ(_SHMEM_CMP_GT, SHMEM_CMP_GT);
    CHECK_EQ(_SHMEM_CMP_GE, SHMEM_CMP_GE);
    shmem_barrier_all();
}

int main(void)
{
    check_begin();
    void *heap = heap_block(64);
#define RUN(N, T, C)                                                                               \
    compare_##N(&static_cell_##N), compare_##N(heap), shmem_barrier_all();                         \
    ring_##N(&static_cell_##N), ring_##N(heap);
    WAIT_TYPES(RUN)
#define RUN_ATOMIC(N, T, C) atomic_##N(&static_cell_##N), atomic_##N(heap);
    STANDARD_AMO_TYPES(RUN_ATOMIC)
#define RUN_OLD(N, T, C) old_##N(&static_cell_##N), old_##N(heap);
    SET_BITWISE_TYPES(RUN_OLD)
    old_names(&static_cell_long.word);
    old_names(heap);
    shmem_free(heap);
    return check_end("wait");
}
