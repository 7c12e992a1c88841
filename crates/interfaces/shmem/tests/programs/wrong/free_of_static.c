/* expect: shmem_free address heap */
#include "common.h"

int main(void)
{
    static long object[8];
    shmem_init();
    shmem_free(object);
    return unnoticed();
}
