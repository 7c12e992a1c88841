/* Ranks on one processor that hand a word round, and poll it by every call that fetches: whoever
 * finds nothing new lets the others run after a few looks, and not at the end of its slice of the
 * scheduler's time. So each hop takes few looks. */
#define _GNU_SOURCE
#include <sched.h>

#include "check.h"

/* In a slice a rank looks ten thousand times and more. */
enum { ROUNDS = 100, LOOKS_MAX = 1000 };

static farside_context_t world;
static farside_team_t team;
static farside_window_t window;
static uint32_t rank, size;

static uint64_t get(void) {
    uint64_t held;
    CHECK(farside_get(world, window, rank, 0, &held, sizeof held));
    return held;
}

static uint64_t load(void) {
    uint64_t held;
    CHECK(farside_load(world, window, rank, 0, &held));
    return held;
}

static uint64_t fetch_add(void) {
    uint64_t held;
    CHECK(farside_fetch_add(world, window, rank, 0, 0, &held));
    return held;
}

static uint64_t compare_swap(void) {
    uint64_t held;
    CHECK(farside_compare_swap(world, window, rank, 0, UINT64_MAX, UINT64_MAX, &held));
    return held;
}

static uint64_t get_accumulate(void) {
    uint64_t held;
    CHECK(farside_get_accumulate(world, window, rank, 0, NULL, &held, 1, FARSIDE_U64,
                                 FARSIDE_NO_OP));
    return held;
}

static void stay_on_one_processor(void) {
    cpu_set_t allowed, one;
    int first = 0;
    REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    while (!CPU_ISSET(first, &allowed)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
}

static void ring(const char *name, uint64_t (*look)(void)) {
    uint64_t round, looks = 0;
    CHECK(farside_window_allocate(team, 8, &window));
    for (round = 0; round < ROUNDS; round++) {
        uint64_t turn = round * size + rank;
        do {
            looks++;
        } while (look() < turn);
        CHECK(farside_store(world, window, (rank + 1) % size, 0, turn + 1));
    }
    CHECK(farside_sync(team));
    printf("%s: %lu looks for each hop\n", name, (unsigned long)(looks / (ROUNDS * size)));
    REQUIRE(looks < (uint64_t)LOOKS_MAX * ROUNDS * size);
    CHECK(farside_window_free(team, window));
}

int main(void) {
    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    CHECK(farside_team_world(world, &team));
    stay_on_one_processor();
    ring("get", get);
    ring("load", load);
    ring("fetch_add", fetch_add);
    ring("compare_swap", compare_swap);
    ring("get_accumulate", get_accumulate);
    CHECK(farside_leave(world));
    printf("polling: done\n");
    return 0;
}
