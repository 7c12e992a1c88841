/* expect: SHMEM_SYMMETRIC_SIZE -5m */
/* environment: SHMEM_SYMMETRIC_SIZE=-5m */
#include "common.h"

int main(void)
{
    shmem_init();
    return unnoticed();
}
