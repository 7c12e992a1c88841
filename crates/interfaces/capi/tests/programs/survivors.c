/* The last rank dies with two locks: the others are told that the locks are poisoned, recover them
 * on a team that they made before, and go on. No call hangs. */
#include <signal.h>

#include "check.h"

int main(void) {
    farside_context_t world;
    farside_team_t team, survivors;
    farside_window_t window;
    farside_lock_t lock;
    farside_rwlock_t rwlock;
    farside_epoch_t epoch;
    uint32_t rank, size, victim;
    uint64_t word = 0;
    int state = 0, number = 0, code;

    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    CHECK(farside_team_world(world, &team));
    victim = size - 1;
    CHECK(farside_team_split(team, rank == victim, 0, &survivors));
    CHECK(farside_window_allocate(team, 64, &window));
    CHECK(farside_lock_create(team, 0, NULL, &lock));
    CHECK(farside_rwlock_create(team, 0, NULL, &rwlock));
    CHECK(farside_epoch_allocate(team, 64, 8, FARSIDE_EPOCH_DIRECT, &epoch));
    if (rank == victim) {
        CHECK(farside_lock_acquire(world, lock, FARSIDE_FOREVER));
        CHECK(farside_rwlock_write(world, rwlock, FARSIDE_FOREVER));
    }
    CHECK(farside_barrier(team));
    if (rank == victim) {
        /* Not before all others have come out of the barrier. */
        CHECK(farside_wait(world, window, 16, 64, FARSIDE_EQ, size - 1, FARSIDE_FOREVER, NULL));
        raise(SIGKILL);
    }
    CHECK(farside_post_add(world, window, victim, 16, 1));
    /* Nobody will ever signal. */
    code = farside_wait(world, window, 0, 64, FARSIDE_NE, 0, FARSIDE_FOREVER, &word);
    REQUIRE(code == FARSIDE_ERROR_LOST && farside_error_rank() == victim);
    code = farside_lock_acquire(world, lock, FARSIDE_FOREVER);
    REQUIRE(code == FARSIDE_ERROR_POISONED && farside_error_rank() == victim);
    code = farside_rwlock_read(world, rwlock, FARSIDE_FOREVER);
    REQUIRE(code == FARSIDE_ERROR_POISONED && farside_error_rank() == victim);
    REQUIRE(farside_barrier(team) == FARSIDE_ERROR_LOST);
    CHECK(farside_peer_state(world, victim, &state, &number));
    REQUIRE(state == FARSIDE_STATE_SIGNALLED && number == SIGKILL);

    CHECK(farside_barrier(survivors));
    CHECK(farside_lock_recover(lock, survivors));
    CHECK(farside_rwlock_recover(rwlock, survivors));
    CHECK(farside_lock_acquire(world, lock, FARSIDE_FOREVER));
    CHECK(farside_fetch_add(world, window, 0, 8, 1, &word));
    CHECK(farside_lock_release(lock));
    CHECK(farside_rwlock_write(world, rwlock, FARSIDE_FOREVER));
    CHECK(farside_rwlock_release(rwlock));
    CHECK(farside_barrier(survivors));
    CHECK(farside_load(world, window, 0, 8, &word));
    REQUIRE(word == size - 1);
    /* A window with epochs keeps the rank from leaving until it is freed, which fails now. */
    REQUIRE(farside_leave(world) == FARSIDE_ERROR_STATE);
    farside_epoch_free(epoch);
    REQUIRE(farside_epoch_free(epoch) == FARSIDE_ERROR_ARGUMENT);
    CHECK(farside_barrier(survivors));
    CHECK(farside_leave(world));
    printf("survivors: done\n");
    return 0;
}
