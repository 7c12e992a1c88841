/* expect: shmem_getmem address symmetric */
#include "common.h"

int main(void)
{
    shmem_init();
    char own[16], *private = calloc(1, 16);
    shmem_getmem(own, private, sizeof own, shmem_n_pes() - 1);
    return unnoticed() + own[0];
}
