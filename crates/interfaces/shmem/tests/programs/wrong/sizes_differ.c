/* expect: shmem_malloc bytes 100 200 sizes_differ.c:8: */
/* environment: SHMEM_DEBUG=1 */
#include "common.h"

int main(void)
{
    shmem_init();
    shmem_malloc(shmem_my_pe() == 0 ? 100 : 200);
    return unnoticed();
}
