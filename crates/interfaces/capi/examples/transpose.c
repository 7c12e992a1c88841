/* A matrix whose rows are spread over the ranks is transposed: each rank puts its block of columns
 * to the rank that needs it as rows, in one strided put for each rank. */
#include "check.h"

enum { ROWS = 8 }; /* of each rank */

int main(void) {
    farside_context_t world;
    farside_team_t team;
    farside_window_t result;
    uint32_t rank, size, to;
    double *mine, *own;
    void *base;
    size_t columns, row, column;

    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    CHECK(farside_team_world(world, &team));
    columns = (size_t)ROWS * size;
    mine = malloc(ROWS * columns * sizeof *mine);
    REQUIRE(mine != NULL);
    for (row = 0; row < ROWS; row++) {
        for (column = 0; column < columns; column++) {
            mine[row * columns + column] = (double)((rank * ROWS + row) * columns + column);
        }
    }
    CHECK(farside_window_allocate(team, ROWS * columns * sizeof(double), &result));
    for (to = 0; to < size; to++) {
        /* Element (row, column) of the block goes to (column, row) at the other side. */
        size_t counts[2] = {ROWS, ROWS};
        size_t near_strides[2], far_strides[2];
        farside_strides_t block;
        near_strides[0] = columns * sizeof(double);
        near_strides[1] = sizeof(double);
        far_strides[0] = sizeof(double);
        far_strides[1] = columns * sizeof(double);
        block.dimensions = 2;
        block.counts = counts;
        block.near_strides = near_strides;
        block.far_strides = far_strides;
        block.element_bytes = sizeof(double);
        CHECK(farside_put_strided(world, result, to, (uint64_t)rank * ROWS * sizeof(double),
                                  &mine[to * ROWS], &block));
    }
    CHECK(farside_sync(team));
    CHECK(farside_window_base(result, &base));
    own = base;
    for (row = 0; row < ROWS; row++) {
        for (column = 0; column < columns; column++) {
            double expected = (double)(column * columns + rank * ROWS + row);
            REQUIRE(own[row * columns + column] == expected);
        }
    }
    if (rank == 0) {
        printf("transpose: a matrix of %lu x %lu\n", (unsigned long)columns,
               (unsigned long)columns);
    }
    free(mine);
    CHECK(farside_window_free(team, result));
    CHECK(farside_leave(world));
    return 0;
}
