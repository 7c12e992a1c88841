/* Active sets whose pSync is not as the standard wants it, of which programs get away elsewhere:
 * never written, on the stack, written by one PE while others are in the collective already, or
 * reused by another set at once. */
#define _DEFAULT_SOURCE /* usleep */
#include "check.h"
#include <unistd.h>

static long untouched[SHMEM_REDUCE_SYNC_SIZE], late[SHMEM_REDUCE_SYNC_SIZE];
static long terms[2], sums[2], work[SHMEM_REDUCE_MIN_WRKDATA_SIZE + 1];

static void sum(int start, int size, long *sync)
{
    long expected = 0;
    for (int pe = start; pe < start + size; pe++)
        expected += pe + 1;
    terms[0] = terms[1] = me + 1;
    shmem_long_sum_to_all(sums, terms, 2, start, 0, size, work, sync);
    CHECK_EQ(sums[0], expected);
    CHECK_EQ(sums[1], expected);
}

static void never_written(void)
{
    long *block = (long *)heap_block(SHMEM_REDUCE_SYNC_SIZE * sizeof(long));
    for (int round = 0; round < 3; round++) {
        sum(0, pes, untouched);
        shmem_barrier(0, 0, pes, block);
        for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
            CHECK_EQ(untouched[i], 0);
    }
    shmem_free(block);
}

static void on_the_stack(int depth)
{
    volatile long sync[SHMEM_REDUCE_SYNC_SIZE];
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        sync[i] = SHMEM_SYNC_VALUE;
    sum(0, pes, (long *)sync);
    shmem_barrier(0, 0, pes, (long *)sync);
    if (depth > 0)
        on_the_stack(depth - 1);
}

/* The member that the others come to is the last one, with its pSync not yet written. */
static void written_late(void)
{
    if (me == 0)
        usleep(50000);
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        late[i] = SHMEM_SYNC_VALUE;
    sum(0, pes, late);
}

/* The sets from each PE to the last one, without anything between them. */
static void shrinking(void)
{
    for (int start = 0; start <= me; start++)
        sum(start, pes - start, late);
}

int main(void)
{
    check_begin();
    never_written();
    on_the_stack(2);
    shmem_barrier_all();
    written_late();
    shrinking();
    return check_end("sets_unprepared");
}
