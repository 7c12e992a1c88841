/* expect: shmem_clear_lock PE 0 holds lock_of_another.c:13: */
#include "common.h"

int main(void)
{
    static long lock;
    shmem_init();
    if (shmem_my_pe() == 0)
        shmem_set_lock(&lock);
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        shmem_barrier_all();
    shmem_clear_lock(&lock);
    return unnoticed();
}
