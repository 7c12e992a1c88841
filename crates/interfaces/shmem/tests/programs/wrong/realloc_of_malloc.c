/* expect: shmem_realloc address heap */
#include "common.h"

int main(void)
{
    shmem_init();
    void *private = malloc(100), *block = shmem_realloc(private, 200);
    return unnoticed() + (block != NULL);
}
