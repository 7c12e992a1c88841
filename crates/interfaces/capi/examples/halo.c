/* A rod that cools: each rank has a piece of it, and its neighbours' outermost cells beside it. */
#include "check.h"

enum { CELLS = 64, STEPS = 200 };

int main(void) {
    farside_context_t world;
    farside_team_t team;
    farside_window_t window;
    uint32_t rank, size, left, right;
    double *cells, next[CELLS + 2], sum = 0;
    void *base;
    int step, at;

    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    CHECK(farside_team_world(world, &team));
    /* Cell 0 and cell CELLS + 1 are copies of the neighbours' outermost cells. */
    CHECK(farside_window_allocate(team, (CELLS + 2) * sizeof(double), &window));
    CHECK(farside_window_base(window, &base));
    cells = base;
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    for (at = 1; at <= CELLS; at++) {
        cells[at] = rank == 0 ? 1.0 : 0.0;
    }
    CHECK(farside_sync(team));
    for (step = 0; step < STEPS; step++) {
        CHECK(farside_put(world, window, left, (CELLS + 1) * sizeof(double), &cells[1],
                          sizeof(double)));
        CHECK(farside_put(world, window, right, 0, &cells[CELLS], sizeof(double)));
        CHECK(farside_sync(team)); /* all copies are there */
        for (at = 1; at <= CELLS; at++) {
            next[at] = cells[at] + 0.25 * (cells[at - 1] - 2 * cells[at] + cells[at + 1]);
        }
        CHECK(farside_barrier(team)); /* all have read them */
        for (at = 1; at <= CELLS; at++) {
            cells[at] = next[at];
        }
    }
    for (at = 1; at <= CELLS; at++) {
        sum += cells[at];
    }
    CHECK(farside_all_reduce(team, &sum, &sum, 1, FARSIDE_F64, FARSIDE_SUM));
    REQUIRE(sum > CELLS - 1e-6 && sum < CELLS + 1e-6);
    if (rank == 0) {
        printf("halo: after %d steps the rod still has all its heat\n", STEPS);
    }
    CHECK(farside_window_free(team, window));
    CHECK(farside_leave(world));
    return 0;
}
