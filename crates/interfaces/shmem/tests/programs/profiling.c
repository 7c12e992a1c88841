/* A tool in the program: it defines shmem_long_p and shmem_barrier_all itself, around the pshmem_
 * names, and counts. The library's own calls do not come here. */
#include "check.h"
#include <pshmem.h>

static int puts_seen, barriers_seen;
static long word;

void shmem_long_p(long *dest, long value, int pe)
{
    puts_seen++;
    pshmem_long_p(dest, value, pe);
}

void shmem_barrier_all(void)
{
    barriers_seen++;
    pshmem_barrier_all();
}

int main(void)
{
    check_begin();
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    CHECK_EQ(barriers_seen, 0);
    CHECK_EQ(pshmem_my_pe(), me);
    CHECK_EQ(pshmem_n_pes(), pes);
    for (int i = 0; i < 5; i++) {
        shmem_long_p(&word, 10 * i + me, next);
        shmem_barrier_all();
        CHECK_EQ(word, 10 * i + previous);
        shmem_barrier_all();
    }
    CHECK_EQ(puts_seen, 5);
    CHECK_EQ(barriers_seen, 10);
    pshmem_long_p(&word, 77, next);
    pshmem_barrier_all();
    CHECK_EQ(word, 77);
    CHECK_EQ(puts_seen, 5);
    CHECK_EQ(barriers_seen, 10);
    /* Calls with a barrier inside, and other ways to put, are not the tool's. */
    long *heap = shmem_malloc(64);
    CHECK(heap != NULL);
    shmem_long_put(&word, &(long){5}, 1, next);
    shmem_put64(&word, &(long){6}, 1, next);
    shmem_ctx_long_p(SHMEM_CTX_DEFAULT, &word, 7, next);
    shmem_free(heap);
    shmem_sync_all();
    pshmem_quiet();
    CHECK_EQ(puts_seen, 5);
    CHECK_EQ(barriers_seen, 10);
    CHECK_EQ(pshmem_long_g(&word, me), word);
    void *block = pshmem_malloc(128);
    CHECK(block != NULL);
    CHECK_EQ(pshmem_addr_accessible(block, pes - 1), 1);
    pshmem_free(block);
    CHECK_EQ(barriers_seen, 10);
    return check_end("profiling");
}
