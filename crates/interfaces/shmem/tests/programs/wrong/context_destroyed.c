/* expect: shmem_ctx_long_p context */
#include "common.h"

int main(void)
{
    static long word;
    shmem_ctx_t ctx;
    shmem_init();
    if (shmem_ctx_create(0, &ctx) != 0)
        return 0;
    shmem_ctx_destroy(ctx);
    shmem_ctx_long_p(ctx, &word, 1, shmem_n_pes() - 1);
    return unnoticed();
}
