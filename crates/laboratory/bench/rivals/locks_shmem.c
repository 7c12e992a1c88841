/* OpenSHMEM's lock, which readers cannot share. */
#define _POSIX_C_SOURCE 200809L
#define LOCK_NAME "set-lock"
#include "locks.h"

#include "meet_shmem.h"

static long *lock;          /* symmetric: the lock */
static long *words;         /* symmetric: the counter, and a word to touch */
static double *figures;     /* symmetric: everybody's figures, for rank 0 */

static void library_start(int *rank, int *ranks)
{
    shmem_init();
    *rank = shmem_my_pe();
    *ranks = shmem_n_pes();
}

static bool library_allocate(void)
{
    lock = shmem_align(128, 128);
    words = shmem_align(128, 256);
    figures = shmem_malloc((size_t)shmem_n_pes() * FIGURES * sizeof *figures);
    if (lock != NULL)
        *lock = 0;
    if (words != NULL)
        memset(words, 0, 256);
    shmem_barrier_all();
    return lock != NULL && words != NULL && figures != NULL;
}

static void library_barrier(void)
{
    shmem_barrier_all();
}

static void library_gather(const double *mine, double *all)
{
    shmem_putmem(figures + shmem_my_pe() * FIGURES, mine, FIGURES * sizeof *mine, 0);
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        memcpy(all, figures, (size_t)shmem_n_pes() * FIGURES * sizeof *all);
    shmem_barrier_all();
}

static void library_lock(bool writes)
{
    (void)writes;
    shmem_set_lock(lock);
}

static void library_unlock(bool writes)
{
    (void)writes;
    shmem_clear_lock(lock);
}

static void library_touch(bool writes)
{
    static volatile long seen;
    if (writes)
        shmem_long_p(words + 16, 1, 0);
    else
        seen = shmem_long_g(words + 16, 0);
    (void)seen;
}

static void library_increment(bool writes)
{
    long value = shmem_long_g(words, 0);
    if (writes) {
        shmem_long_p(words, value + 1, 0);
        shmem_quiet();
    }
}

static long library_counter(void)
{
    return shmem_long_g(words, 0);
}

static void library_finish(void)
{
    if (figures != NULL)
        shmem_free(figures);
    if (words != NULL)
        shmem_free(words);
    if (lock != NULL)
        shmem_free(lock);
    shmem_finalize();
}
