/* A histogram whose bins are spread over all ranks: every rank counts with posted additions. */
#include "check.h"

enum { BINS = 256, SAMPLES = 4000 };

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

int main(void) {
    farside_context_t world;
    farside_team_t team;
    farside_window_t bins;
    uint32_t rank, size;
    uint64_t state, counted = 0, *own;
    void *base;
    int sample, at;

    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    CHECK(farside_team_world(world, &team));
    CHECK(farside_window_allocate(team, BINS * sizeof(uint64_t), &bins));
    state = 88172645463325252u + rank;
    for (sample = 0; sample < SAMPLES; sample++) {
        uint64_t bin = next_random(&state) % ((uint64_t)BINS * size);
        CHECK(farside_post_add(world, bins, (uint32_t)(bin / BINS),
                               bin % BINS * sizeof(uint64_t), 1));
    }
    CHECK(farside_sync(team)); /* all additions have landed */
    CHECK(farside_window_base(bins, &base));
    own = base;
    for (at = 0; at < BINS; at++) {
        counted += own[at];
    }
    CHECK(farside_all_reduce(team, &counted, &counted, 1, FARSIDE_U64, FARSIDE_SUM));
    REQUIRE(counted == (uint64_t)SAMPLES * size);
    if (rank == 0) {
        printf("histogram: %lu samples in %lu bins\n", (unsigned long)counted,
               (unsigned long)BINS * size);
    }
    CHECK(farside_window_free(team, bins));
    CHECK(farside_leave(world));
    return 0;
}
