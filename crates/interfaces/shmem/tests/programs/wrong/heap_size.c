/* expect: SHMEM_SYMMETRIC_SIZE 12x */
/* environment: SHMEM_SYMMETRIC_SIZE=12x */
#include "common.h"

int main(void)
{
    shmem_init();
    return unnoticed();
}
