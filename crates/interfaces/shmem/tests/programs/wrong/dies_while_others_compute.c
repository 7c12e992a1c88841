/* expect: PE 0: PE 1 is lost: signal */
/* Needs two PEs: the last one dies while the other one computes, and calls nothing. */
#include "common.h"

int main(void)
{
    shmem_init();
    last_dies();
    for (volatile long count = 0;; count++)
        ;
}
