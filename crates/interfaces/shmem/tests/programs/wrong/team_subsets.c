/* expect: shmem_team_split_strided 2 PEs only 1 passed */
#include "common.h"

int main(void)
{
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_init();
    /* PE 0 wants a team of both, PE 1 one of PE 0 alone. */
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 2 - shmem_my_pe(), NULL, 0, &team);
    shmem_barrier_all();
    return unnoticed();
}
