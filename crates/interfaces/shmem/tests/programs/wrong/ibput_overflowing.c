/* expect: shmem_ibput64 18446744073709551615 bytes block 64 ibput_overflowing.c:10: */
#include "common.h"

int main(void)
{
    static double own[9];
    shmem_init();
    double *block = shmem_malloc(64);
    if (block)
        shmem_ibput64(block, own, 1, 1, (size_t)1 << 61, 1, shmem_n_pes() - 1);
    return unnoticed();
}
