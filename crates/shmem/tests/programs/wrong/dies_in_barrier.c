/* expect: shmem_barrier_all PE 1 */
/* Needs two PEs: the last one dies while the others wait; PE 1 is the last of two. */
#include "common.h"

int main(void)
{
    shmem_init();
    if (shmem_my_pe() == shmem_n_pes() - 1)
        abort();
    shmem_barrier_all();
    return unnoticed();
}
