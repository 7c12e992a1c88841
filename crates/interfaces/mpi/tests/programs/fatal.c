/* A mistake with the handler that every window has at first: the job ends with a message. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int *base, value = 1, rank;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_lock_all(0, win);
    MPI_Put(&value, 1, MPI_INT, 0, 1000, 1, MPI_INT, win);
    printf("the put was accepted\n");
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
