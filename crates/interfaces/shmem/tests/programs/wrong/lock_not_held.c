/* expect: shmem_clear_lock no PE holds lock_not_held.c:8: */
#include "common.h"

int main(void)
{
    static long lock;
    shmem_init();
    shmem_clear_lock(&lock);
    return unnoticed();
}
