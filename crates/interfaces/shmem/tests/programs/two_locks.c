/* Two PEs take two locks in different orders: for those who look at jobs. */
#include <shmem.h>

static long locks[2];

int main(void)
{
    shmem_init();
    int first = shmem_my_pe() % 2;
    shmem_set_lock(&locks[first]);
    shmem_barrier_all();
    shmem_set_lock(&locks[1 - first]); /* the second */
    shmem_finalize();
    return 0;
}
