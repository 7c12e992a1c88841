/* A message that goes round a ring of ranks: each puts it to the next together with a signal. */
#include <string.h>

#include "check.h"

enum { ROUNDS = 20 };

int main(void) {
    farside_context_t world;
    farside_team_t team;
    farside_window_t inbox, signals;
    farside_signal_t signal;
    uint32_t rank, size, next;
    uint64_t round, hops;
    char message[32];

    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    CHECK(farside_team_world(world, &team));
    CHECK(farside_window_allocate(team, sizeof message, &inbox));
    CHECK(farside_window_allocate(team, sizeof(uint64_t), &signals));
    next = (rank + 1) % size;
    signal.window = signals;
    signal.offset = 0;
    signal.operation = FARSIDE_ATOMIC_STORE;
    for (round = 1; round <= ROUNDS; round++) {
        hops = 0;
        if (rank > 0) {
            CHECK(farside_wait(world, signals, 0, 64, FARSIDE_EQ, round, FARSIDE_FOREVER, NULL));
            CHECK(farside_get(world, inbox, rank, 0, message, sizeof message));
            hops = strtoul(message, NULL, 10);
            REQUIRE(hops == rank);
        }
        memset(message, 0, sizeof message);
        sprintf(message, "%lu hops", (unsigned long)hops + 1);
        signal.value = round;
        CHECK(farside_put_signal(world, inbox, next, 0, message, sizeof message, &signal));
        if (rank == 0) {
            CHECK(farside_wait(world, signals, 0, 64, FARSIDE_EQ, round, FARSIDE_FOREVER, NULL));
            CHECK(farside_get(world, inbox, rank, 0, message, sizeof message));
            REQUIRE(strtoul(message, NULL, 10) == size);
        }
    }
    if (rank == 0) {
        printf("ring: %d rounds of %s\n", ROUNDS, message);
    }
    CHECK(farside_window_free(team, signals));
    CHECK(farside_window_free(team, inbox));
    CHECK(farside_leave(world));
    return 0;
}
