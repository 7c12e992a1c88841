/* Ranks that come to one collective with different calls: each says what it was told. */
#include <stdio.h>

#include "farside.h"

int main(void) {
    farside_context_t world;
    farside_team_t team;
    uint32_t rank;
    uint64_t sum = 1;
    int code;

    if (farside_join(&world) != FARSIDE_OK || farside_rank(world, &rank) != FARSIDE_OK ||
        farside_team_world(world, &team) != FARSIDE_OK) {
        return 1;
    }
    if (rank == 0) {
        code = farside_barrier(team);
    } else {
        code = farside_all_reduce(team, &sum, &sum, 1, FARSIDE_U64, FARSIDE_SUM);
    }
    printf("%s: %s\n", farside_error_name(code), farside_error_text());
    return 1;
}
