/* expect: shmem_putmem block 60 */
#include "common.h"

int main(void)
{
    static char own[64];
    shmem_init();
    /* Blocks are aligned, but end where the program has said. */
    char *block = shmem_malloc(60);
    shmem_putmem(block + 8, own, 53, shmem_n_pes() - 1);
    return unnoticed();
}
