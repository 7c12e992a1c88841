/* expect: shmem_barrier active set */
#include "common.h"

int main(void)
{
    static long sync[SHMEM_SYNC_SIZE];
    shmem_init();
    for (int i = 0; i < SHMEM_SYNC_SIZE; i++)
        sync[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    shmem_barrier(0, 0, shmem_n_pes() + 1, sync);
    return unnoticed();
}
