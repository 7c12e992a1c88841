/* The same twice, for tests in which a call of one PE fails the first time: every PE says what the
 * first error of each time was. Most calls have no error to return, and end the program. */
#define _POSIX_C_SOURCE 200809L
#include <shmem.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_S = 20 };

static int me, pes;
static const char *first;
static long word, sum, one = 1, lock;
static long sync_words[SHMEM_REDUCE_SYNC_SIZE], work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];

static int note(const char *call, int is_well)
{
    if (!is_well && first == NULL)
        first = call;
    return is_well;
}

static void late(int signal)
{
    (void)signal;
    static const char text[] = "a rank hangs\n";
    (void)!write(1, text, sizeof text - 1);
    _exit(3);
}

static void body(void)
{
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_ctx_t context;
    long *room = shmem_malloc(128 << 20);
    if (note("shmem_malloc", room != NULL)) {
        shmem_long_p(room, me, (me + 1) % pes);
        shmem_quiet();
        shmem_barrier_all();
        shmem_free(room);
    }
    note("shmem_team_split_strided",
         shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, NULL, 0, &team) == 0);
    if (team != SHMEM_TEAM_INVALID) {
        note("shmem_long_sum_reduce", shmem_long_sum_reduce(team, &sum, &one, 1) == 0);
        if (note("shmem_team_create_ctx", shmem_team_create_ctx(team, 0, &context) == 0)) {
            shmem_ctx_long_atomic_inc(context, &word, 0);
            shmem_ctx_destroy(context);
        }
        shmem_team_destroy(team);
    }
    if (me < pes - 1)
        shmem_long_sum_to_all(&sum, &one, 1, 0, 0, pes - 1, work, sync_words);
    shmem_set_lock(&lock);
    shmem_clear_lock(&lock);
    shmem_barrier_all();
}

int main(void)
{
    dup2(1, 2);
    signal(SIGALRM, late);
    alarm(PATIENCE_S);
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        sync_words[i] = SHMEM_SYNC_VALUE;
    shmem_init();
    me = shmem_my_pe();
    pes = shmem_n_pes();
    body();
    const char *before = first;
    first = NULL;
    body();
    printf("rank %d: %s | %s\n", me, before == NULL ? "fine" : before,
           first == NULL ? "fine" : first);
    fflush(stdout);
    shmem_finalize();
    return 0;
}
