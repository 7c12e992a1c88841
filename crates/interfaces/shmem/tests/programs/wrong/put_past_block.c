/* expect: shmem_long_put 72 bytes block 64 put_past_block.c:11: */
#include "common.h"

int main(void)
{
    static long own[9];
    shmem_init();
    long *block = shmem_malloc(64), *next = shmem_malloc(64);
    if (!block || !next)
        return 0;
    shmem_long_put(block, own, 9, shmem_n_pes() - 1);
    return unnoticed();
}
