/* expect: shmem_long_wait_until PE 1 */
/* Needs two PEs: the last one dies while the others wait; PE 1 is the last of two. */
#include "common.h"

int main(void)
{
    static long word;
    shmem_init();
    last_dies();
    shmem_long_wait_until(&word, SHMEM_CMP_EQ, 1);
    return unnoticed();
}
