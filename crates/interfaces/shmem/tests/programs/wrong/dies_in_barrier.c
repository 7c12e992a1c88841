/* expect: shmem_barrier_all PE 1 */
/* Needs two PEs: the last one dies while the others wait; PE 1 is the last of two. */
#include "common.h"

int main(void)
{
    shmem_init();
    last_dies();
    shmem_barrier_all();
    return unnoticed();
}
