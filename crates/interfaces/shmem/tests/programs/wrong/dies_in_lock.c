/* expect: shmem_set_lock PE 1 */
/* Needs two PEs: the last one dies while it holds the lock; PE 1 is the last of two. */
#include "common.h"

int main(void)
{
    static long lock;
    shmem_init();
    if (shmem_my_pe() == shmem_n_pes() - 1)
        shmem_set_lock(&lock);
    shmem_barrier_all();
    last_dies();
    shmem_set_lock(&lock);
    return unnoticed();
}
