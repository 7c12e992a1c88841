/* Children that the program forks and that end by exit are no PEs: nothing that they do at their
 * end is taken for the PE's. */
#define _DEFAULT_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static long words[MAX_PES];

/* Forks a child that ends as programs do, and waits for its end. */
static void fork_and_wait(int status)
{
    int ended = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        exit(status);
    CHECK(child > 0);
    CHECK_EQ(waitpid(child, &ended, 0), child);
    CHECK(WIFEXITED(ended) && WEXITSTATUS(ended) == status);
}

int main(void)
{
    check_begin();
    for (int forker = 0; forker < pes; forker++) {
        if (me == forker) {
            /* The others are in the barrier, or soon will be. */
            fork_and_wait(0);
            fork_and_wait(7);
            for (int pe = 0; pe < pes; pe++)
                shmem_long_p(&words[forker], 1 + forker, pe);
        }
        shmem_barrier_all();
        CHECK_EQ(words[forker], 1 + forker);
    }
    /* Collectives still match. */
    static long sum, one = 1;
    CHECK_EQ(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &one, 1), 0);
    CHECK_EQ(sum, pes);
    return check_end("forked");
}
