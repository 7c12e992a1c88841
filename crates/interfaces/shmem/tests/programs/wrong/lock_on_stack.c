/* expect: shmem_set_lock address symmetric */
#include "common.h"

int main(void)
{
    shmem_init();
    long on_stack = 0;
    shmem_set_lock(&on_stack);
    return unnoticed() + (int)on_stack;
}
