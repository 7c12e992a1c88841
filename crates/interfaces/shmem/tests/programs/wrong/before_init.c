/* expect: shmem_barrier_all shmem_init */
#include "common.h"

int main(void)
{
    shmem_barrier_all();
    printf("the error went unnoticed\n");
    return 0;
}
