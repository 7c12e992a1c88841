/* A tool of the kind that is preloaded, too: it notes calls, and hands them on. */
#include <mpi.h>
#include <stdio.h>

static int inits, windows;

int MPI_Init(int *argc, char ***argv)
{
    inits++;
    return PMPI_Init(argc, argv);
}

int MPI_Win_allocate(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base,
                     MPI_Win *win)
{
    windows++;
    return PMPI_Win_allocate(size, unit, info, comm, base, win);
}

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && inits == 1)
        printf("tool: MPI_Init, %d window%s, MPI_Finalize\n", windows, windows == 1 ? "" : "s");
    fflush(stdout);
    return PMPI_Finalize();
}
