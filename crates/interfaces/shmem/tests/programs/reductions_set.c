/* Reductions of active sets, by the names of before 1.5: every operation and type, sets with
 * strides, in place, alternating pSync and pWrk, static and heap. */
#include "sets.h"
#include "types.h"

enum { COUNT = 5, GUARD = 113 };
#define WORK (COUNT / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE)

static sync_arrays static_syncs;

static int number_of(int pe, int i)
{
    return (pe * 5 + i * 3) % 7 + 1;
}

#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define SUM_OF(a, b) ((a) + (b))
#define PROD_OF(a, b) ((a) * (b))
#define AND_OF(a, b) ((a) & (b))
#define OR_OF(a, b) ((a) | (b))
#define XOR_OF(a, b) ((a) ^ (b))

#define BITS(T, pe, i) ((T)(UINT64_C(0x0123456789abcdef) * (uint64_t)(number_of(pe, i) + 8)))
#define RANK(T, pe, i) ((T)(number_of(pe, i) - 4))
#define TERM(T, pe, i) ((T)number_of(pe, i))
#define FACTOR(T, pe, i) ((T)(1 + number_of(pe, i) % 2))
#define COMPLEX_TERM(T, pe, i) ((T)number_of(pe, i) + (T)(number_of(pe, i + 1) * imaginary_unit))
#define COMPLEX_FACTOR(T, pe, i) ((T)1 + (T)(number_of(pe, i) % 2 * imaginary_unit))
static const float _Complex imaginary_unit = (float _Complex)__extension__ 1.0fi;

#define DEFINE_ONE(N, T, op, VALUE, OF)                                                            \
    static void op##_in_##N(int which, sync_arrays syncs, T *dest, T *source, T (*work)[WORK])     \
    {                                                                                              \
        active_set set = set_of(which);                                                            \
        int number = index_in(set);                                                                \
        for (int in_place = 0; in_place < 2; in_place++) {                                         \
            T *result = in_place ? source : dest;                                                  \
            for (int i = 0; i < COUNT + 2; i++)                                                    \
                dest[i] = (T)GUARD, source[i] = (T)(in_place ? GUARD : GUARD - 2);                 \
            for (int i = 0; i < COUNT && number >= 0; i++)                                         \
                source[i + 1] = VALUE(T, number, i);                                               \
            shmem_barrier_all();                                                                   \
            if (number >= 0) {                                                                     \
                long *sync = syncs[which][in_place];                                               \
                shmem_##N##_##op##_to_all(result + 1, source + 1, COUNT, set.start, set.log_stride,\
                                          set.size, work[in_place], sync);                         \
                sync_check(#op "_to_all", sync, SHMEM_REDUCE_SYNC_SIZE);                           \
            }                                                                                      \
            for (int i = 0; i < COUNT && number >= 0; i++) {                                       \
                T expected = VALUE(T, 0, i);                                                       \
                for (int pe = 1; pe < set.size; pe++)                                              \
                    expected = (T)OF(expected, VALUE(T, pe, i));                                   \
                CHECK(result[i + 1] == expected);                                                  \
            }                                                                                      \
            for (int i = 0; i < COUNT && number < 0; i++)                                          \
                CHECK(result[i + 1] == (T)GUARD);                                                  \
            CHECK(result[0] == (T)GUARD);                                                          \
            CHECK(result[COUNT + 1] == (T)GUARD);                                                  \
            shmem_barrier_all();                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void op##_##N(sync_arrays heap_syncs, void *heap)                                       \
    {                                                                                              \
        static T dest[COUNT + 2], source[COUNT + 2], work[2][WORK];                                \
        T *heap_dest = heap, *heap_source = heap_dest + COUNT + 2;                                 \
        T(*heap_work)[WORK] = (void *)(heap_source + COUNT + 2);                                   \
        for (int which = 0; which < SETS; which++) {                                               \
            op##_in_##N(which, static_syncs, dest, heap_source, heap_work);                        \
            op##_in_##N(which, heap_syncs, heap_dest, source, work);                               \
        }                                                                                          \
    }

#define DEFINE_BITWISE(N, T, C)                                                                    \
    DEFINE_ONE(N, T, and, BITS, AND_OF)                                                            \
    DEFINE_ONE(N, T, or, BITS, OR_OF)                                                              \
    DEFINE_ONE(N, T, xor, BITS, XOR_OF)
#define DEFINE_ORDERED(N, T, C)                                                                    \
    DEFINE_ONE(N, T, max, RANK, MAX_OF)                                                            \
    DEFINE_ONE(N, T, min, RANK, MIN_OF)                                                            \
    DEFINE_ONE(N, T, sum, TERM, SUM_OF)                                                            \
    DEFINE_ONE(N, T, prod, FACTOR, PROD_OF)

SET_BITWISE_TYPES(DEFINE_BITWISE)
SET_ORDERED_TYPES(DEFINE_ORDERED)
DEFINE_ONE(complexf, float _Complex, sum, COMPLEX_TERM, SUM_OF)
DEFINE_ONE(complexf, float _Complex, prod, COMPLEX_FACTOR, PROD_OF)
DEFINE_ONE(complexd, double _Complex, sum, COMPLEX_TERM, SUM_OF)
DEFINE_ONE(complexd, double _Complex, prod, COMPLEX_FACTOR, PROD_OF)

/* Two arrays in turns are enough for any number of reductions. */
static void sequence(void)
{
    static long source[2], dest[2], work[2][WORK];
    for (long round = 0; round < 100; round++) {
        long turn = round % 2;
        source[turn] = round * 7 + me;
        shmem_long_sum_to_all(&dest[turn], &source[turn], 1, 0, 0, pes, work[turn],
                              static_syncs[0][turn]);
        CHECK_EQ(dest[turn], round * 7 * pes + pes * (pes - 1) / 2);
    }
    shmem_barrier_all();
}

int main(void)
{
    check_begin();
    long(*heap_syncs)[2][SHMEM_SYNC_SIZE] = heap_block(sizeof static_syncs);
    void *heap = heap_block((2 * (COUNT + 2) + 2 * WORK) * sizeof(long double));
    sync_reset(static_syncs);
    sync_reset(heap_syncs);
#define RUN_BITWISE(N, T, C)                                                                       \
    and_##N(heap_syncs, heap), or_##N(heap_syncs, heap), xor_##N(heap_syncs, heap);
    SET_BITWISE_TYPES(RUN_BITWISE)
#define RUN_ORDERED(N, T, C)                                                                       \
    max_##N(heap_syncs, heap), min_##N(heap_syncs, heap);                                          \
    sum_##N(heap_syncs, heap), prod_##N(heap_syncs, heap);
    SET_ORDERED_TYPES(RUN_ORDERED)
    sum_complexf(heap_syncs, heap), prod_complexf(heap_syncs, heap);
    sum_complexd(heap_syncs, heap), prod_complexd(heap_syncs, heap);
    sequence();
    shmem_free(heap);
    shmem_free(heap_syncs);
    return check_end("reductions_set");
}
