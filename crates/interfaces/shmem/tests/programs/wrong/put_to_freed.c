/* expect: shmem_long_p freed put_to_freed.c:9: */
#include "common.h"

int main(void)
{
    shmem_init();
    long *block = shmem_malloc(64);
    shmem_free(block);
    shmem_long_p(block, 1, shmem_n_pes() - 1);
    return unnoticed();
}
