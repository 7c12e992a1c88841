/* Tasks that each rank takes when it has time: the queue, at rank 0, is protected by a lock. */
#include "check.h"

enum { TASKS = 300 };

/* The queue: how many tasks were taken, and the sum of all results. */
struct queue {
    uint64_t taken;
    uint64_t sum;
};

int main(void) {
    farside_context_t world;
    farside_team_t team;
    farside_window_t window;
    farside_lock_t lock;
    struct queue queue;
    uint32_t rank;
    uint64_t mine = 0, result = 0, all;

    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_team_world(world, &team));
    CHECK(farside_window_allocate(team, rank == 0 ? sizeof queue : 0, &window));
    CHECK(farside_lock_create(team, 0, NULL, &lock));
    for (;;) {
        uint64_t task;
        CHECK(farside_lock_acquire(world, lock, FARSIDE_FOREVER));
        CHECK(farside_get(world, window, 0, 0, &queue, sizeof queue));
        task = queue.taken;
        queue.taken += task < TASKS;
        queue.sum += result;
        CHECK(farside_put(world, window, 0, 0, &queue, sizeof queue));
        CHECK(farside_lock_release(lock)); /* the next holder sees what was put */
        if (task >= TASKS) {
            break;
        }
        result = task * task; /* the work */
        mine++;
    }
    CHECK(farside_all_reduce(team, &mine, &all, 1, FARSIDE_U64, FARSIDE_SUM));
    REQUIRE(all == TASKS);
    if (rank == 0) {
        uint64_t expected = 0, task;
        for (task = 0; task < TASKS; task++) {
            expected += task * task;
        }
        CHECK(farside_get(world, window, 0, 0, &queue, sizeof queue));
        REQUIRE(queue.sum == expected);
        printf("task_queue: %d tasks, each done once\n", TASKS);
    }
    CHECK(farside_lock_free(team, lock));
    CHECK(farside_window_free(team, window));
    CHECK(farside_leave(world));
    return 0;
}
