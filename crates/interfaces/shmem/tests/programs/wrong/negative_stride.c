/* expect: shmem_long_iput stride -1 negative_stride.c:9: */
#include "common.h"

int main(void)
{
    static long dest[4], source[4];
    shmem_init();
    /* The specification wants strides of 1 at least. */
    shmem_long_iput(dest + 3, source, -1, 1, 4, shmem_n_pes() - 1);
    return unnoticed();
}
