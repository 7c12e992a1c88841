/* expect: shmem_get64 PE */
#include "common.h"

int main(void)
{
    static long word, own;
    shmem_init();
    shmem_get64(&own, &word, 1, shmem_n_pes());
    return unnoticed();
}
