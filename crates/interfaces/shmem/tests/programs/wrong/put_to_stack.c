/* expect: shmem_long_put address symmetric */
#include "common.h"

int main(void)
{
    shmem_init();
    long on_stack[4] = {0}, own[4] = {1, 2, 3, 4};
    shmem_long_put(on_stack, own, 4, shmem_n_pes() - 1);
    shmem_barrier_all();
    return unnoticed() + (int)on_stack[0];
}
