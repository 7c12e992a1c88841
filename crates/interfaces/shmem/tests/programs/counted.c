/* Uses memory of the next PE in seven ways, a thousand times each, and then waits for a word that
 * nobody writes: for those who count operations. */
#include <shmem.h>

enum { TIMES = 1000, COUNT = 20 };

static long words[COUNT], signals[2], flag;

int main(void)
{
    long own[COUNT] = { 0 };
    uint64_t *signal = (void *)((char *)signals + 4);
    shmem_init();
    int next = (shmem_my_pe() + 1) % shmem_n_pes();
    for (int i = 0; i < TIMES; i++) {
        shmem_long_p(&words[0], i, next);
        (void)shmem_long_g(&words[0], next);
        shmem_putmem(words, own, sizeof own, next);
        shmem_getmem(own, words, sizeof own, next);
        shmem_long_atomic_add(&words[1], 1, next);
        shmem_long_iput(words, own, 2, 1, COUNT / 2, next);
        /* A put, and a signal in two halves. */
        shmem_long_put_signal(words, own, 1, signal, 1, SHMEM_SIGNAL_SET, next);
    }
    shmem_long_wait_until(&flag, SHMEM_CMP_NE, 0); /* the word */
    shmem_finalize();
    return 0;
}
