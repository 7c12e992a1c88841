/* expect: shmem_long_broadcast disagree root broadcast_roots.c:9: */
#include "common.h"

int main(void)
{
    static long dest, source;
    shmem_init();
    int root = shmem_my_pe();
    shmem_long_broadcast(SHMEM_TEAM_WORLD, &dest, &source, 1, root);
    return unnoticed();
}
