/* PE 0 waits for a word that nobody writes, the others for PE 0: for those who look at jobs. */
#include <shmem.h>

static long flag;

int main(void)
{
    shmem_init();
    if (shmem_my_pe() == 0)
        shmem_long_wait_until(&flag, SHMEM_CMP_NE, 0); /* the word */
    shmem_barrier_all(); /* the barrier */
    shmem_finalize();
    return 0;
}
