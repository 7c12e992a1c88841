/* expect: shmem_team_destroy world world_destroyed.c:7: */
#include "common.h"

int main(void)
{
    shmem_init();
    shmem_team_destroy(SHMEM_TEAM_WORLD);
    return unnoticed();
}
