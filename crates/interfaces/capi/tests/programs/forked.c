/* Children that a rank forks are not the rank: nothing that happens at their end is the rank's. */
#define _DEFAULT_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

int main(void) {
    farside_context_t world;
    farside_team_t team;
    farside_window_t window;
    uint32_t rank, size, forker;
    uint64_t word;

    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    CHECK(farside_team_world(world, &team));
    CHECK(farside_window_allocate(team, 8, &window));
    for (forker = 0; forker < size; forker++) {
        if (rank == forker) {
            int status = -1;
            pid_t child = fork();
            if (child == 0) {
                exit(0);
            }
            REQUIRE(waitpid(child, &status, 0) == child && status == 0);
            CHECK(farside_store(world, window, (rank + 1) % size, 0, forker + 1));
        }
        CHECK(farside_sync(team));
        if (rank == (forker + 1) % size) {
            CHECK(farside_load(world, window, rank, 0, &word));
            REQUIRE(word == forker + 1);
        }
    }
    CHECK(farside_sync(team));
    CHECK(farside_window_free(team, window));
    CHECK(farside_leave(world));
    printf("forked: done\n");
    return 0;
}
