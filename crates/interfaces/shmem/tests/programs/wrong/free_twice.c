/* expect: shmem_free address */
#include "common.h"

int main(void)
{
    shmem_init();
    char *block = shmem_malloc(4096), *alias = block + shmem_my_pe() - shmem_my_pe();
    shmem_free(block);
    shmem_free(alias);
    return unnoticed();
}
