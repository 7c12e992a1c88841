/* expect: shmem_double_put 18446744073709551615 bytes block 64 put_overflowing.c:10: */
#include "common.h"

int main(void)
{
    static double own[9];
    shmem_init();
    double *block = shmem_malloc(64);
    if (block)
        shmem_double_put(block, own, (size_t)1 << 61, shmem_n_pes() - 1);
    return unnoticed();
}
