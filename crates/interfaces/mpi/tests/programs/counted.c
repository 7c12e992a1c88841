/* Uses memory of the next rank in six ways, a thousand times each, and then waits until the file
 * that the argument names is there: for those who count operations. */
#include <unistd.h>
#include "case.h"

enum { TIMES = 1000, COUNT = 20 };

int main(int argc, char **argv)
{
    long own[COUNT] = { 0 }, held, *base;
    MPI_Win win;
    MPI_Datatype every_second;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    signal(SIGALRM, too_late);
    alarm(PATIENCE_S);
    int next = (me + 1) % ranks;
    MPI_Win_allocate(sizeof own, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Type_vector(COUNT / 2, 1, 2, MPI_LONG, &every_second);
    MPI_Type_commit(&every_second);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    for (int i = 0; i < TIMES; i++) {
        MPI_Put(own, 1, MPI_LONG, next, 0, 1, MPI_LONG, win);
        MPI_Get(own, 1, MPI_LONG, next, 0, 1, MPI_LONG, win);
        MPI_Put(own, COUNT / 2, MPI_LONG, next, 0, 1, every_second, win);
        MPI_Get(own, COUNT / 2, MPI_LONG, next, 0, 1, every_second, win);
        MPI_Accumulate(own, 1, MPI_LONG, next, 0, 1, MPI_LONG, MPI_SUM, win);
        MPI_Fetch_and_op(own, &held, MPI_LONG, next, 0, MPI_SUM, win);
    }
    MPI_Win_flush_all(win);
    MPI_Win_unlock_all(win);
    while (access(argv[1], F_OK) != 0)
        usleep(1000);
    MPI_Type_free(&every_second);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
