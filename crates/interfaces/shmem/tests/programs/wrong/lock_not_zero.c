/* expect: shmem_set_lock zero lock_not_zero.c:8: */
#include "common.h"

int main(void)
{
    static long lock = 77;
    shmem_init();
    shmem_set_lock(&lock);
    return unnoticed();
}
