/* expect: shmem_broadcast64 active set */
#include "common.h"

int main(void)
{
    static long sync[SHMEM_SYNC_SIZE], source, dest;
    shmem_init();
    for (int i = 0; i < SHMEM_SYNC_SIZE; i++)
        sync[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    shmem_broadcast64(&dest, &source, 1, 0, 0, 20, 2, sync);
    return unnoticed();
}
