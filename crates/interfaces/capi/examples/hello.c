/* Every rank says who it is, and rank 0 reads what all others have put into its memory. */
#include "check.h"

int main(void) {
    farside_context_t world;
    farside_team_t team;
    farside_window_t window;
    uint32_t rank, size, node, other;
    uint64_t *numbers;
    void *base;

    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    CHECK(farside_node_of(world, rank, &node));
    printf("rank %u of %u on node %u, farside %s\n", (unsigned)rank, (unsigned)size,
           (unsigned)node, farside_version());

    CHECK(farside_team_world(world, &team));
    CHECK(farside_window_allocate(team, size * sizeof(uint64_t), &window));
    {
        uint64_t mine = 100 + rank;
        CHECK(farside_put(world, window, 0, rank * sizeof mine, &mine, sizeof mine));
    }
    CHECK(farside_sync(team));
    if (rank == 0) {
        CHECK(farside_window_base(window, &base));
        numbers = base;
        for (other = 0; other < size; other++) {
            REQUIRE(numbers[other] == 100 + other);
        }
        printf("hello: all %u ranks have put their numbers\n", (unsigned)size);
    }
    CHECK(farside_window_free(team, window));
    CHECK(farside_team_free(team));
    CHECK(farside_leave(world));
    return 0;
}
