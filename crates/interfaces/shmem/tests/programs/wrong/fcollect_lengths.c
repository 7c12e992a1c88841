/* expect: shmem_long_fcollect disagree fcollect_lengths.c:9: */
#include "common.h"

int main(void)
{
    static long dest[8], source[2];
    shmem_init();
    size_t count = 1 + (size_t)shmem_my_pe();
    shmem_long_fcollect(SHMEM_TEAM_WORLD, dest, source, count);
    return unnoticed();
}
