/* expect: shmem_putmem address */
#include "common.h"

int main(void)
{
    static char own[64];
    shmem_init();
    /* Begins in a block and ends far behind the heap: no heap has 2^46 bytes. */
    char *block = shmem_malloc(64);
    shmem_putmem(block, own, (size_t)1 << 46, shmem_n_pes() - 1);
    return unnoticed();
}
