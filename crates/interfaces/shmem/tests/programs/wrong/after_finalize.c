/* expect: shmem_barrier_all after shmem_finalize after_finalize.c:8: */
#include "common.h"

int main(void)
{
    shmem_init();
    shmem_finalize();
    shmem_barrier_all();
    printf("the error went unnoticed\n");
    return 0;
}
