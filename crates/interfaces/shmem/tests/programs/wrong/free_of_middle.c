/* expect: shmem_free address */
#include "common.h"

int main(void)
{
    shmem_init();
    char *block = shmem_malloc(4096);
    shmem_free(block + 512);
    return unnoticed();
}
