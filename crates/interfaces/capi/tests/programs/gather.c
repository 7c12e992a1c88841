/* Processes that an MPI has started, and that meet by it: docs/c.md shows the function. */
#include <mpi.h>

#include "check.h"

static int gather(void *user, const void *mine, size_t bytes, void *all) {
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *(MPI_Comm *)user);
}

int main(int argc, char **argv) {
    farside_context_t world;
    farside_team_t team;
    MPI_Comm all = MPI_COMM_WORLD;
    uint64_t sum = 1;
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    CHECK(farside_join_with((uint32_t)rank, (uint32_t)size, gather, &all, &world));
    CHECK(farside_team_world(world, &team));
    CHECK(farside_all_reduce(team, &sum, &sum, 1, FARSIDE_U64, FARSIDE_SUM));
    REQUIRE(sum == (uint64_t)size);
    CHECK(farside_leave(world));
    MPI_Finalize();
    printf("gather: done\n");
    return 0;
}
