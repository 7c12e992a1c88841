/* What a program does before MPI_Init: nothing of the library may stand in its way. With an
 * argument it makes the mistake to use a window then, which MPI itself refuses. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int flag = 1, version, minor, value = 1;
    (void)argv;
    MPI_Initialized(&flag);
    MPI_Get_version(&version, &minor);
    if (flag || version < 3)
        return 1;
    if (argc > 1) {
        fprintf(stderr, "now\n");
        MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_WIN_NULL);
        return 0;
    }
    printf("before_init: 2 checks, OK\n");
    return 0;
}
