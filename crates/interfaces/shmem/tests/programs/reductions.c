/* Reductions of teams: and, or, xor, max, min, sum and prod of every type, also of complex numbers;
 * of the world and of parts of it, in place, of no elements, and of many. */
#include "check.h"
#include "types.h"

enum { COUNT = 5, TEAMS = 3, GUARD = 113 };

static shmem_team_t teams[TEAMS];

/* What PE `pe` of a team gives for element `i`: small, so that sums are exact everywhere. */
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

/* Values of bits, of ordered numbers (also below zero), of terms, and of factors. */
#define BITS(T, pe, i) ((T)(UINT64_C(0x0123456789abcdef) * (uint64_t)(number_of(pe, i) + 8)))
#define RANK(T, pe, i) ((T)((T)-1 < (T)1 ? number_of(pe, i) - 4 : number_of(pe, i) * 30))
#define TERM(T, pe, i) ((T)number_of(pe, i))
#define FACTOR(T, pe, i) ((T)(1 + number_of(pe, i) % 2))

#define DEFINE_ONE(N, T, op, VALUE, OF)                                                            \
    static void op##_in_##N(shmem_team_t team, T *dest, T *source)                                 \
    {                                                                                              \
        int number = shmem_team_my_pe(team), size = shmem_team_n_pes(team);                        \
        for (int in_place = 0; in_place < 2; in_place++) {                                         \
            T *result = in_place ? source : dest;                                                  \
            for (int i = 0; i < COUNT + 2; i++)                                                    \
                dest[i] = (T)GUARD, source[i] = (T)(in_place ? GUARD : GUARD - 2);                 \
            for (int i = 0; i < COUNT; i++)                                                        \
                source[i + 1] = VALUE(T, number, i);                                               \
            shmem_team_sync(team);                                                                 \
            CHECK_EQ(shmem_##N##_##op##_reduce(team, result + 1, source + 1, COUNT), 0);           \
            for (int i = 0; i < COUNT; i++) {                                                      \
                T expected = VALUE(T, 0, i);                                                       \
                for (int pe = 1; pe < size; pe++)                                                  \
                    expected = (T)OF(expected, VALUE(T, pe, i));                                   \
                CHECK(result[i + 1] == expected);                                                  \
                CHECK(in_place || source[i + 1] == VALUE(T, number, i));                           \
            }                                                                                      \
            CHECK(result[0] == (T)GUARD);                                                          \
            CHECK(result[COUNT + 1] == (T)GUARD);                                                  \
            shmem_team_sync(team);                                                                 \
            CHECK_EQ(shmem_##N##_##op##_reduce(team, dest, source, 0), 0);                         \
            CHECK(dest[0] == (T)GUARD);                                                            \
        }                                                                                          \
    }                                                                                              \
    static void op##_##N(void *heap)                                                               \
    {                                                                                              \
        static T dest[COUNT + 2], source[COUNT + 2];                                               \
        T *heap_dest = heap, *heap_source = heap_dest + COUNT + 2;                                 \
        for (int i = 0; i < TEAMS; i++)                                                            \
            if (teams[i] != SHMEM_TEAM_INVALID) {                                                  \
                op##_in_##N(teams[i], dest, heap_source);                                          \
                op##_in_##N(teams[i], heap_dest, source);                                          \
            }                                                                                      \
    }

#define DEFINE_BITWISE(N, T, C)                                                                    \
    DEFINE_ONE(N, T, and, BITS, AND_OF)                                                            \
    DEFINE_ONE(N, T, or, BITS, OR_OF)                                                              \
    DEFINE_ONE(N, T, xor, BITS, XOR_OF)
#define DEFINE_ORDERED(N, T, C)                                                                    \
    DEFINE_ONE(N, T, max, RANK, MAX_OF)                                                            \
    DEFINE_ONE(N, T, min, RANK, MIN_OF)
#define DEFINE_ARITHMETIC(N, T, C)                                                                 \
    DEFINE_ONE(N, T, sum, TERM, SUM_OF)                                                            \
    DEFINE_ONE(N, T, prod, FACTOR, PROD_OF)

/* Complex numbers have an imaginary part that shows which product it was. */
#define COMPLEX_TERM(T, pe, i) ((T)number_of(pe, i) + (T)(number_of(pe, i + 1) * imaginary_unit))
#define COMPLEX_FACTOR(T, pe, i) ((T)1 + (T)(number_of(pe, i) % 2 * imaginary_unit))
static const float _Complex imaginary_unit = (float _Complex)__extension__ 1.0fi;

REDUCE_BITWISE_TYPES(DEFINE_BITWISE)
REDUCE_ORDERED_TYPES(DEFINE_ORDERED)
REDUCE_ORDERED_TYPES(DEFINE_ARITHMETIC)
DEFINE_ONE(complexf, float _Complex, sum, COMPLEX_TERM, SUM_OF)
DEFINE_ONE(complexf, float _Complex, prod, COMPLEX_FACTOR, PROD_OF)
DEFINE_ONE(complexd, double _Complex, sum, COMPLEX_TERM, SUM_OF)
DEFINE_ONE(complexd, double _Complex, prod, COMPLEX_FACTOR, PROD_OF)

/* Sums and products wrap; the extreme values of a type are compared as the type says. */
static void extremes(void)
{
    static unsigned char bytes[1], byte_result[1];
    static int64_t words[2], word_result[2];
    static uint64_t naturals[1], natural_result[1];
    bytes[0] = 200;
    words[0] = me == 0 ? INT64_MIN : me;
    words[1] = me == pes - 1 ? INT64_MAX : -me - 1;
    naturals[0] = me == 0 ? UINT64_MAX : 1;
    shmem_barrier_all();
    CHECK_EQ(shmem_uchar_sum_reduce(SHMEM_TEAM_WORLD, byte_result, bytes, 1), 0);
    CHECK_EQ(byte_result[0], (unsigned char)(200 * pes));
    CHECK_EQ(shmem_int64_min_reduce(SHMEM_TEAM_WORLD, word_result, words, 1), 0);
    CHECK_EQ(word_result[0], INT64_MIN);
    CHECK_EQ(shmem_int64_max_reduce(SHMEM_TEAM_WORLD, word_result, words, 2), 0);
    CHECK_EQ(word_result[1], INT64_MAX);
    CHECK_EQ(shmem_uint64_max_reduce(SHMEM_TEAM_WORLD, natural_result, naturals, 1), 0);
    CHECK_EQ(natural_result[0], UINT64_MAX);
    CHECK_EQ(shmem_uint64_min_reduce(SHMEM_TEAM_WORLD, natural_result, naturals, 1), 0);
    CHECK_EQ(natural_result[0], pes > 1 ? 1 : UINT64_MAX);
    CHECK_EQ(shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, natural_result, naturals, 1), 0);
    CHECK_EQ(natural_result[0], (uint64_t)(pes - 2));
    shmem_barrier_all();
}

/* Floating sums may be rounded in any order, but all PEs get the same bits. */
static void same_everywhere(void)
{
    static double source[9], dest[9], seen[9];
    for (int i = 0; i < 9; i++)
        source[i] = 1.0 / (me + i + 3);
    shmem_barrier_all();
    CHECK_EQ(shmem_double_sum_reduce(SHMEM_TEAM_WORLD, dest, source, 9), 0);
    shmem_barrier_all();
    for (int pe = 0; pe < pes; pe++) {
        shmem_double_get(seen, dest, 9, pe);
        CHECK_EQ(memcmp(seen, dest, sizeof seen), 0);
    }
    shmem_barrier_all();
}

/* Many reductions without synchronization between them, and one of many elements. */
static void sequences(void)
{
    static long source[2], dest[2];
    for (long round = 0; round < 200; round++) {
        long *in = &source[round % 2], *out = &dest[round % 2];
        *in = round + me;
        CHECK_EQ(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, out, in, 1), 0);
        CHECK_EQ(*out, round * pes + pes * (pes - 1) / 2);
    }
    shmem_barrier_all();
    enum { MANY = 100003 };
    int *large = heap_block(MANY * sizeof *large), *sums = heap_block(MANY * sizeof *large);
    for (int i = 0; i < MANY; i++) {
        large[i] = i + me;
        sums[i] = -1;
    }
    shmem_barrier_all();
    CHECK_EQ(shmem_int_sum_reduce(SHMEM_TEAM_WORLD, sums, large, MANY), 0);
    for (int i = 0; i < MANY; i++)
        if (sums[i] != i * pes + pes * (pes - 1) / 2)
            CHECK_AT("large sum", 0, i, sums[i], i * pes + pes * (pes - 1) / 2);
    shmem_free(sums);
    shmem_free(large);
}

int main(void)
{
    check_begin();
    teams[0] = SHMEM_TEAM_WORLD;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (pes + 1) / 2, NULL, 0, &teams[1]),
             0);
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, pes - 1, -1, pes, NULL, 0, &teams[2]), 0);
    void *heap = heap_block(2 * (COUNT + 2) * sizeof(long double));
#define RUN_BITWISE(N, T, C) and_##N(heap), or_##N(heap), xor_##N(heap);
    REDUCE_BITWISE_TYPES(RUN_BITWISE)
#define RUN_ORDERED(N, T, C) max_##N(heap), min_##N(heap), sum_##N(heap), prod_##N(heap);
    REDUCE_ORDERED_TYPES(RUN_ORDERED)
    sum_complexf(heap), prod_complexf(heap);
    sum_complexd(heap), prod_complexd(heap);
    shmem_barrier_all();
    extremes();
    same_everywhere();
    sequences();
    shmem_team_destroy(teams[1]);
    shmem_team_destroy(teams[2]);
    shmem_free(heap);
    return check_end("reductions");
}
