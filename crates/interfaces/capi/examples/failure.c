/* A rank dies, and the others are told: no call hangs, and the error names the rank. Run it with
 * `farside run --keep-going`, so that the others may go on. */
#include "check.h"

int main(void) {
    farside_context_t world;
    farside_team_t team;
    farside_window_t window;
    uint32_t rank, size, victim, lost[4];
    size_t count;
    int code, state, number;

    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    CHECK(farside_team_world(world, &team));
    CHECK(farside_window_allocate(team, sizeof(uint64_t), &window));
    victim = size - 1;
    if (rank == victim) {
        /* It waits until all others have come this far, and ends without leaving the job. */
        CHECK(farside_wait(world, window, 0, 64, FARSIDE_EQ, size - 1, FARSIDE_FOREVER, NULL));
        farside_abort(world, 3);
    }
    CHECK(farside_post_add(world, window, victim, 0, 1));
    code = farside_barrier(team);
    REQUIRE(code == FARSIDE_ERROR_LOST);
    REQUIRE(farside_error_rank() == victim);
    CHECK(farside_peer_state(world, victim, &state, &number));
    CHECK(farside_lost(world, lost, 4, &count));
    REQUIRE(count >= 1 && lost[count < 4 ? count - 1 : 3] == victim);
    printf("failure: rank %u goes on without rank %u\n", (unsigned)rank, (unsigned)victim);
    CHECK(farside_leave(world));
    return 0;
}
