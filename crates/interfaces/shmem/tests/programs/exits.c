/* Returns from main without shmem_finalize, as programs of start_pes do: what was put before is
 * complete, and the job ends with status 0. Handlers of atexit still run. */
#include "check.h"

static long words[MAX_PES];

static void at_exit(void)
{
    /* The report is the last line of the program, so nothing is printed here. */
    if (words[(me + pes - 1) % pes] == 0)
        _Exit(3);
}

int main(void)
{
    start_pes(0);
    check_numbers();
    CHECK_EQ(atexit(at_exit), 0);
    CHECK_EQ(_my_pe(), me);
    CHECK_EQ(_num_pes(), pes);
    shmem_long_p(&words[me], 1 + me, (me + 1) % pes);
    shmem_barrier_all();
    int previous = (me + pes - 1) % pes;
    CHECK_EQ(words[previous], 1 + previous);
    check_report("exits");
    /* Still under way when main returns. */
    shmem_long_p(&words[me], 100 + me, (me + 1) % pes);
    return 0;
}
