/* expect: shmem_ctx_long_get context */
#include "common.h"

int main(void)
{
    static long word, own;
    shmem_init();
    shmem_ctx_long_get(SHMEM_CTX_INVALID, &own, &word, 1, shmem_n_pes() - 1);
    return unnoticed();
}
