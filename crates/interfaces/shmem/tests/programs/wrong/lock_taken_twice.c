/* expect: shmem_set_lock holds already lock_taken_twice.c:9: */
#include "common.h"

int main(void)
{
    static long lock;
    shmem_init();
    if (shmem_my_pe() == 0 && shmem_test_lock(&lock) == 0)
        shmem_set_lock(&lock);
    shmem_barrier_all();
    return unnoticed();
}
