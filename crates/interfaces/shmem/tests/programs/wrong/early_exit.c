/* expect: disagree the end of its program barrier */
/* PE 1 ends early; the others' barrier is not its end. */
#include "common.h"

int main(void)
{
    shmem_init();
    if (shmem_my_pe() != 1)
        shmem_barrier_all();
    exit(0);
}
