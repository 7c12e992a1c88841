/* expect: shmem_long_p shmem_init */
#include "common.h"

static long word;

int main(void)
{
    shmem_long_p(&word, 1, 0);
    printf("the error went unnoticed\n");
    return 0;
}
