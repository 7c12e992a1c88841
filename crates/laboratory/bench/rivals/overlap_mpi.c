/* Lock, one put or get, and unlock of a target that waits in the library or
 * computes, in exclusive mode.
 *
 * usage: PROGRAM MS CASES SIZES OPERATIONS DESIGNS SLICE_US LIBRARY_NS MESSAGE_BYTES
 */
#define _POSIX_C_SOURCE 200809L
#include "rival.h"

#include <mpi.h>

static const int64_t BATCH_NS = 20000;  /* makes the clock's own cost vanish */

struct plan {
    long ms;
    size_t sizes[MAX_LIST];
    int sizes_len;
};

static MPI_Win window = MPI_WIN_NULL;
static char *base, *local;

static bool parse_size(const char *text, struct plan *plan)
{
    long bytes;
    if (!parse_number(text, "size", 1L << 26, &bytes))
        return false;
    plan->sizes[plan->sizes_len++] = (size_t)bytes;
    return true;
}

static void epochs(bool put, size_t bytes, long n)
{
    const int length = (int)bytes;
    for (long i = 0; i < n; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
        if (put)
            MPI_Put(local, length, MPI_BYTE, 1, 0, length, MPI_BYTE, window);
        else
            MPI_Get(local, length, MPI_BYTE, 1, 0, length, MPI_BYTE, window);
        MPI_Win_unlock(1, window);
    }
}

static double measure(bool put, size_t bytes, long ms)
{
    struct samples samples = {0};
    int64_t deadline = now_ns() + ms * 1000000;
    for (long n = 1;;) {
        int64_t start = now_ns();
        epochs(put, bytes, n);
        int64_t took = now_ns() - start;
        bool over = now_ns() >= deadline;
        if (took >= BATCH_NS || over)
            record(&samples, (double)took / (double)n);
        else
            n *= 2;
        if (over)
            break;
    }
    double result = median(&samples);
    free(samples.ns);
    return result;
}

static bool one_case(const struct plan *plan, int rank, bool put, size_t bytes, bool computing)
{
    enum { SENT = 0x5a, HELD = 0xa5 };
    int good = 1;

    /* Each side's memory is set under the own lock, as MPI demands. */
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    memset(base, put ? 0 : HELD, bytes);
    MPI_Win_unlock(rank, window);
    memset(local, put ? SENT : 0, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        epochs(put, bytes, 1);  /* touches everything; the target is in a barrier */
    MPI_Barrier(MPI_COMM_WORLD);
    double ns = 0;
    if (rank == 0)
        ns = measure(put, bytes, plan->ms);
    else if (rank == 1 && computing)
        compute_until(now_ns() + plan->ms * 1500000 + 50000000);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1 && put) {
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
        good = (unsigned char)base[0] == SENT && (unsigned char)base[bytes - 1] == SENT;
        MPI_Win_unlock(rank, window);
    } else if (rank == 0 && !put) {
        good = (unsigned char)local[0] == HELD && (unsigned char)local[bytes - 1] == HELD;
    }
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0 && good) {
        printf("sample latency - %s %zu 1 %s free %.2f - - -\n", put ? "put" : "get", bytes,
               computing ? "computing" : "idle", ns);
        fflush(stdout);
    } else if (rank == 0) {
        fprintf(stderr, "%s of %zu bytes left wrong contents\n", put ? "put" : "get", bytes);
    }
    return good;
}

int main(int argc, char **argv)
{
    struct plan plan = {0};
    int rank, ranks;

    alarm(60);  /* the start can hang as well */
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bool good = argc == 9 ||
        fail("usage: %s MS CASES SIZES OPERATIONS DESIGNS SLICE_US LIBRARY_NS MESSAGE_BYTES",
        argv[0]);
    good = good && parse_number(argv[1], "MS", 60000, &plan.ms)
        && parse_list(argv[3], "SIZES", &plan, parse_size);
    if (good && ranks < 2)
        good = fail("needs at least 2 ranks, has %d", ranks);
    if (!good) {
        if (rank == 0)
            fprintf(stderr, "%s\n", problem);
        MPI_Finalize();
        return 1;
    }
    alarm((unsigned)(60 + plan.sizes_len * 4 * (4 * plan.ms + 1000) / 1000));
    size_t max = 64;
    for (int s = 0; s < plan.sizes_len; s++)
        max = plan.sizes[s] > max ? plan.sizes[s] : max;
    local = malloc(max);
    if (local == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_allocate((MPI_Aint)max, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    for (int computing = 0; computing < 2; computing++)
        for (int put = 1; put >= 0; put--)
            for (int s = 0; s < plan.sizes_len; s++)
                good = good && one_case(&plan, rank, put, plan.sizes[s], computing);
    free(local);
    MPI_Win_free(&window);
    MPI_Finalize();
    return good ? 0 : 1;
}
