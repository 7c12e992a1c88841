/* environment: SHMEM_SYMMETRIC_SIZE=2.5m */
/* The heap's size may be a fraction with a suffix: 2.5 MiB hold a block of 2 MiB. */
#include "check.h"

int main(void)
{
    enum { SIZE = 2 << 20 };
    check_begin();
    for (int turn = 0; turn < 3; turn++) {
        unsigned char *block = shmem_malloc(SIZE);
        CHECK(block != NULL);
        block[0] = block[SIZE - 1] = 0;
        shmem_barrier_all();
        shmem_uchar_p(block + SIZE - 1, (unsigned char)(me + 1), (me + 1) % pes);
        shmem_barrier_all();
        CHECK_EQ(block[SIZE - 1], (me + pes - 1) % pes + 1);
        shmem_free(block);
    }
    return check_end("heap_size");
}
