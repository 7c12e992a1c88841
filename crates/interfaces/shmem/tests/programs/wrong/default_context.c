/* expect: shmem_ctx_destroy SHMEM_CTX_DEFAULT default_context.c:7: */
#include "common.h"

int main(void)
{
    shmem_init();
    shmem_ctx_destroy(SHMEM_CTX_DEFAULT);
    return unnoticed();
}
