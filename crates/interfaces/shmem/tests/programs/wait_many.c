/* Waits and tests of several words: all, any, some, and each with a vector of values; with status
 * arrays, empty sets, and words that other PEs write one after another. */
#include "check.h"
#include "types.h"

enum { WORDS = 20, TURNS = 200 };

#define DEFINE_TEST(N, T, C)                                                                       \
    static T static_words_##N[WORDS];                                                              \
                                                                                                   \
    static void set_##N(T *words, int i, T value)                                                  \
    {                                                                                              \
        shmem_##N##_p(words + i, value, me);                                                       \
        shmem_quiet();                                                                             \
    }                                                                                              \
                                                                                                   \
    /* Nothing to wait for: no element at all, or all of them excluded. */                         \
    static void empty_##N(T *words)                                                                \
    {                                                                                              \
        int excluded[WORDS];                                                                       \
        size_t indices[WORDS];                                                                     \
        T values[WORDS] = {0};                                                                     \
        for (int i = 0; i < WORDS; i++) {                                                          \
            excluded[i] = i % 2 ? -1 : 1;                                                          \
            indices[i] = 77;                                                                       \
        }                                                                                          \
        for (size_t n = 0; n <= WORDS; n += WORDS) {                                               \
            const int *status = n ? excluded : NULL;                                               \
            shmem_##N##_wait_until_all(words, n, status, SHMEM_CMP_EQ, 99);                        \
            shmem_##N##_wait_until_all_vector(words, n, status, SHMEM_CMP_NE, values);             \
            CHECK(shmem_##N##_wait_until_any(words, n, status, SHMEM_CMP_EQ, 99) == SIZE_MAX);     \
            CHECK(shmem_##N##_wait_until_any_vector(words, n, status, SHMEM_CMP_NE, values) ==     \
                  SIZE_MAX);                                                                       \
            CHECK_EQ(shmem_##N##_wait_until_some(words, n, indices, status, SHMEM_CMP_EQ, 99), 0); \
            CHECK_EQ(shmem_##N##_wait_until_some_vector(words, n, indices, status, SHMEM_CMP_NE,   \
                                                        values),                                   \
                     0);                                                                           \
            CHECK_EQ(shmem_##N##_test_all(words, n, status, SHMEM_CMP_EQ, 99), 1);                 \
            CHECK_EQ(shmem_##N##_test_all_vector(words, n, status, SHMEM_CMP_NE, values), 1);      \
            CHECK(shmem_##N##_test_any(words, n, status, SHMEM_CMP_EQ, 99) == SIZE_MAX);           \
            CHECK(shmem_##N##_test_any_vector(words, n, status, SHMEM_CMP_NE, values) ==           \
                  SIZE_MAX);                                                                       \
            CHECK_EQ(shmem_##N##_test_some(words, n, indices, status, SHMEM_CMP_EQ, 99), 0);       \
            CHECK_EQ(shmem_##N##_test_some_vector(words, n, indices, status, SHMEM_CMP_NE, values),\
                     0);                                                                           \
        }                                                                                          \
        for (int i = 0; i < WORDS; i++) {                                                          \
            CHECK_EQ(excluded[i], i % 2 ? -1 : 1);                                                 \
            CHECK_EQ(indices[i], 77);                                                              \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* Elements 3, 8 and 13 hold -1 (or the largest value); 8 is excluded. */                      \
    static void tests_##N(T *words)                                                                \
    {                                                                                              \
        int status[WORDS] = {[8] = 1};                                                             \
        size_t indices[WORDS], n;                                                                  \
        T values[WORDS];                                                                           \
        for (int i = 0; i < WORDS; i++) {                                                          \
            values[i] = (T)(i + 1);                                                                \
            set_##N(words, i, i % 5 == 3 && i < 15 ? (T)-1 : 0);                                   \
            indices[i] = 77;                                                                       \
        }                                                                                          \
        CHECK_EQ(shmem_##N##_test_all(words, WORDS, status, SHMEM_CMP_EQ, (T)-1), 0);              \
        CHECK_EQ(shmem_##N##_test_all(words, WORDS, status, SHMEM_CMP_NE, 5), 1);                  \
        CHECK_EQ(shmem_##N##_test_all_vector(words, WORDS, NULL, SHMEM_CMP_NE, values), 1);        \
        CHECK(shmem_##N##_test_any(words, WORDS, status, SHMEM_CMP_EQ, 5) == SIZE_MAX);            \
        CHECK(shmem_##N##_test_any_vector(words, WORDS, status, SHMEM_CMP_EQ, values) == SIZE_MAX);\
        CHECK_EQ(shmem_##N##_test_some(words, WORDS, indices, status, SHMEM_CMP_EQ, 5), 0);        \
        CHECK_EQ(shmem_##N##_test_some_vector(words, WORDS, indices, status, SHMEM_CMP_EQ, values),\
                 0);                                                                               \
        CHECK_EQ(indices[0], 77);                                                                  \
        n = shmem_##N##_test_some(words, WORDS, indices, status, SHMEM_CMP_EQ, (T)-1);             \
        CHECK_EQ(n, 2);                                                                            \
        CHECK_EQ(indices[0] + indices[1], 16);                                                     \
        CHECK(indices[0] == 3 || indices[0] == 13);                                                \
        CHECK_EQ(indices[2], 77);                                                                  \
        values[13] = (T)-1;                                                                        \
        CHECK_EQ(shmem_##N##_test_some_vector(words, WORDS, indices, status, SHMEM_CMP_EQ, values),\
                 1);                                                                               \
        CHECK_EQ(indices[0], 13);                                                                  \
        CHECK_EQ(shmem_##N##_test_any_vector(words, WORDS, status, SHMEM_CMP_EQ, values), 13);     \
        CHECK_EQ(shmem_##N##_wait_until_any_vector(words, WORDS, status, SHMEM_CMP_EQ, values),    \
                 13);                                                                              \
        CHECK_EQ(                                                                                  \
            shmem_##N##_wait_until_some_vector(words, WORDS, indices, NULL, SHMEM_CMP_EQ, values), \
            1);                                                                                    \
        CHECK_EQ(indices[0], 13);                                                                  \
        /* -1 is the smallest of a signed type and the largest of an unsigned one. */              \
        int is_signed = (T)-1 < (T)1;                                                              \
        n = shmem_##N##_test_some(words, WORDS, indices, NULL, SHMEM_CMP_LT, 0);                   \
        CHECK_EQ(n, is_signed ? 3 : 0);                                                            \
        n = shmem_##N##_test_some(words, WORDS, indices, NULL, SHMEM_CMP_GT, 0);                   \
        CHECK_EQ(n, is_signed ? 0 : 3);                                                            \
        CHECK_EQ(status[8], 1);                                                                    \
        /* Two elements that always hold are both found, sooner or later. */                       \
        int seen[2][2] = {{0}};                                                                    \
        for (int turn = 0; turn < TURNS; turn++) {                                                 \
            size_t i = shmem_##N##_test_any(words, WORDS, status, SHMEM_CMP_EQ, (T)-1);            \
            CHECK(i == 3 || i == 13);                                                              \
            seen[0][i == 13] = 1;                                                                  \
        }                                                                                          \
        for (int turn = 0; turn < TURNS; turn++) {                                                 \
            size_t i = shmem_##N##_wait_until_any(words, WORDS, status, SHMEM_CMP_EQ, (T)-1);      \
            CHECK(i == 3 || i == 13);                                                              \
            seen[1][i == 13] = 1;                                                                  \
        }                                                                                          \
        CHECK_EQ(seen[0][0] + seen[0][1], 2);                                                      \
        CHECK_EQ(seen[1][0] + seen[1][1], 2);                                                      \
    }                                                                                              \
                                                                                                   \
    /* Every PE writes its word on every PE; how they are waited for depends on the way. */        \
    static void arrivals_##N(T *words, int way)                                                    \
    {                                                                                              \
        int status[WORDS] = {0};                                                                   \
        size_t indices[WORDS], left = (size_t)pes, n = (size_t)pes;                                \
        T values[WORDS];                                                                           \
        for (int i = 0; i < WORDS; i++) {                                                          \
            words[i] = 0;                                                                          \
            values[i] = (T)(i + 50 + way);                                                         \
        }                                                                                          \
        shmem_barrier_all();                                                                       \
        for (int i = 0; i < pes; i++)                                                              \
            shmem_##N##_p(words + me, values[me], (me + i) % pes);                                 \
        while (left > 0) {                                                                         \
            size_t found = 1;                                                                      \
            switch (way) {                                                                         \
            case 0:                                                                                \
                shmem_##N##_wait_until_all(words, n, status, SHMEM_CMP_GE, 50);                    \
                break;                                                                             \
            case 1:                                                                                \
                shmem_##N##_wait_until_all_vector(words, n, NULL, SHMEM_CMP_EQ, values);           \
                break;                                                                             \
            case 2:                                                                                \
                indices[0] = shmem_##N##_wait_until_any(words, n, status, SHMEM_CMP_NE, 0);        \
                break;                                                                             \
            case 3:                                                                                \
                indices[0] =                                                                       \
                    shmem_##N##_wait_until_any_vector(words, n, status, SHMEM_CMP_EQ, values);     \
                break;                                                                             \
            case 4:                                                                                \
                found = shmem_##N##_wait_until_some(words, n, indices, status, SHMEM_CMP_GT, 49);  \
                break;                                                                             \
            case 5:                                                                                \
                found = shmem_##N##_wait_until_some_vector(words, n, indices, status, SHMEM_CMP_EQ,\
                                                           values);                                \
                break;                                                                             \
            case 6:                                                                                \
                while (!shmem_##N##_test_all(words, n, status, SHMEM_CMP_GT, 1))                   \
                    ;                                                                              \
                break;                                                                             \
            default:                                                                               \
                while (!shmem_##N##_test_all_vector(words, n, status, SHMEM_CMP_GE, values))       \
                    ;                                                                              \
            }                                                                                      \
            int is_all = way == 0 || way == 1 || way > 5;                                          \
            CHECK(found >= 1 && found <= left);                                                    \
            for (size_t i = 0; i < (is_all ? n : found); i++) {                                    \
                size_t index = is_all ? i : indices[i];                                            \
                CHECK(index < n);                                                                  \
                CHECK_EQ(status[index], 0);                                                        \
                CHECK_EQ(*(volatile T *)&words[index], values[index]);                             \
                status[index] = 1;                                                                 \
            }                                                                                      \
            left -= is_all ? n : found;                                                            \
        }                                                                                          \
        for (int i = pes; i < WORDS; i++)                                                          \
            CHECK_EQ(words[i], 0);                                                                 \
        shmem_barrier_all();                                                                       \
    }                                                                                              \
                                                                                                   \
    static void run_##N(T *words)                                                                  \
    {                                                                                              \
        empty_##N(words);                                                                          \
        tests_##N(words);                                                                          \
        shmem_barrier_all();                                                                       \
        for (int way = 0; way < 8; way++)                                                          \
            arrivals_##N(words, way);                                                              \
    }

WAIT_TYPES(DEFINE_TEST)

int main(void)
{
    check_begin();
    void *heap = heap_block(WORDS * sizeof(uint64_t));
    memset(heap, 0, WORDS * sizeof(uint64_t));
#define RUN(N, T, C) run_##N(static_words_##N), run_##N(heap);
    WAIT_TYPES(RUN)
    shmem_free(heap);
    return check_end("wait_many");
}
