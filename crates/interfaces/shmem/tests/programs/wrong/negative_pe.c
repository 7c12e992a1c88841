/* expect: shmem_int_p PE -1 */
#include "common.h"

int main(void)
{
    static int word;
    shmem_init();
    shmem_int_p(&word, 1, -1);
    return unnoticed();
}
