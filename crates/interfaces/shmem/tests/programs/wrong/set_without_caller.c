/* expect: shmem_long_sum_to_all active set PE */
#include "common.h"

int main(void)
{
    static long sync[SHMEM_SYNC_SIZE], source, dest, work[2];
    shmem_init();
    for (int i = 0; i < SHMEM_SYNC_SIZE; i++)
        sync[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    /* PE 1 is not a member of the set that PE 0 alone is. Needs two PEs. */
    if (shmem_my_pe() == 1) {
        shmem_long_sum_to_all(&dest, &source, 1, 0, 0, 1, work, sync);
        return unnoticed();
    }
    shmem_barrier_all();
    return 0;
}
