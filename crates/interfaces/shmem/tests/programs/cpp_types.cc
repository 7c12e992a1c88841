// A C++ program that includes the header in a block for C's names, has C's complex numbers, words
// that are volatile, and calls functions of 1.6 by their type-generic names.
extern "C" {
#include <shmem.h>
#include <shmemx.h>
}
#include "check.h"

namespace {

__extension__ typedef float _Complex single_complex;
__extension__ typedef double _Complex double_complex;

single_complex single_terms[2], single_sums[2], single_work[2];
double_complex double_terms[2], double_sums[2], double_work[2];
long syncs[2][SHMEM_REDUCE_SYNC_SIZE];

volatile long long_word, lock;
volatile int int_word;
uint64_t signal_word;

// A complex number is two numbers, its real part first.
template <class Part> void set(void *numbers, Part real, Part imaginary)
{
    Part *parts = static_cast<Part *>(numbers);
    for (int i = 0; i < 2; i++) {
        parts[2 * i] = real;
        parts[2 * i + 1] = imaginary;
    }
}

template <class Part> void expect(const void *numbers, Part real, Part imaginary)
{
    const Part *parts = static_cast<const Part *>(numbers);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(parts[2 * i], real);
        CHECK_EQ(parts[2 * i + 1], imaginary);
    }
}

void complex_numbers()
{
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        syncs[0][i] = syncs[1][i] = SHMEM_SYNC_VALUE;
    set(single_terms, 1.0f, 2.0f);
    set(double_terms, 1.0, 2.0);
    shmem_barrier_all();
    CHECK_EQ(shmem_complexf_sum_reduce(SHMEM_TEAM_WORLD, single_sums, single_terms, 2), 0);
    expect(single_sums, 1.0f * pes, 2.0f * pes);
    CHECK_EQ(shmem_sum_reduce(SHMEM_TEAM_WORLD, double_sums, double_terms, 2), 0);
    expect(double_sums, 1.0 * pes, 2.0 * pes);
    CHECK_EQ(shmem_sum_inscan(SHMEM_TEAM_WORLD, double_sums, double_terms, 2), 0);
    expect(double_sums, me + 1.0, 2.0 * (me + 1));
    CHECK_EQ(shmem_complexf_sum_exscan(SHMEM_TEAM_WORLD, single_sums, single_terms, 2), 0);
    expect(single_sums, 1.0f * me, 2.0f * me);
    shmem_complexf_sum_to_all(single_sums, single_terms, 2, 0, 0, pes, single_work, syncs[0]);
    expect(single_sums, 1.0f * pes, 2.0f * pes);
    set(double_terms, 1.0, 0.0);
    shmem_complexd_prod_to_all(double_sums, double_terms, 2, 0, 0, pes, double_work, syncs[1]);
    expect(double_sums, 1.0, 0.0);
}

void volatile_words()
{
    int next = (me + 1) % pes;
    shmem_barrier_all();
    shmem_atomic_set(const_cast<long *>(&long_word), 3L, next);
    shmem_long_wait_until(&long_word, SHMEM_CMP_EQ, 3);
    shmem_wait_until(&long_word, SHMEM_CMP_NE, 0);
    shmem_long_wait(&long_word, 0);
    shmem_wait(&long_word, 0);
    shmem_int_atomic_set(const_cast<int *>(&int_word), 4, next);
    while (!shmem_int_test(&int_word, SHMEM_CMP_EQ, 4)) {
    }
    CHECK(shmem_test(&int_word, SHMEM_CMP_GT, 3));
    shmem_set_lock(&lock);
    shmem_clear_lock(&lock);
    while (shmem_test_lock(&lock) != 0) {
    }
    shmem_clear_lock(&lock);
    shmem_barrier_all();
}

void later_names()
{
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    static int dest[4];
    const int source[4] = {me, me + 1, me + 2, me + 3};
    double begin = shmemx_wtime();
    shmem_signal_add(&signal_word, 2, next);
    shmem_signal_add(SHMEM_CTX_DEFAULT, &signal_word, 3, next);
    CHECK_EQ(shmem_signal_wait_until(&signal_word, SHMEM_CMP_EQ, 5), 5);
    shmem_ibput(dest, source, 3, 2, 1, 2, next);
    shmem_barrier_all();
    CHECK(dest[0] == previous && dest[1] == 0 && dest[2] == 0 && dest[3] == previous + 2);
    CHECK(shmemx_wtime() >= begin);
}

} // namespace

int main()
{
    check_begin();
    complex_numbers();
    volatile_words();
    later_names();
    return check_end("cpp_types");
}
