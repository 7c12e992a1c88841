/* expect: shmem_long_atomic_fetch_add PE 1000000 */
#include "common.h"

int main(void)
{
    static long word;
    shmem_init();
    (void)shmem_long_atomic_fetch_add(&word, 1, 1000000);
    return unnoticed();
}
