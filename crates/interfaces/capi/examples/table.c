/* A table that many ranks read and few write, under a reader-writer lock: a reader never sees half
 * of an update. */
#include "check.h"

enum { ENTRIES = 32, ROUNDS = 60 };

int main(void) {
    farside_context_t world;
    farside_team_t team;
    farside_window_t window;
    farside_rwlock_t lock;
    uint32_t rank, size;
    uint64_t table[ENTRIES], writes = 0;
    int round, entry;

    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    CHECK(farside_team_world(world, &team));
    CHECK(farside_window_allocate(team, rank == 0 ? sizeof table : 0, &window));
    CHECK(farside_rwlock_create(team, 0, NULL, &lock));
    for (round = 0; round < ROUNDS; round++) {
        if ((round + (int)rank) % 8 == 0) {
            CHECK(farside_rwlock_write(world, lock, FARSIDE_FOREVER));
            CHECK(farside_get(world, window, 0, 0, table, sizeof table));
            for (entry = 0; entry < ENTRIES; entry++) {
                table[entry]++;
                CHECK(farside_put(world, window, 0, (uint64_t)entry * sizeof *table, &table[entry],
                                  sizeof *table));
            }
            CHECK(farside_rwlock_release(lock));
            writes++;
        } else {
            CHECK(farside_rwlock_read(world, lock, FARSIDE_FOREVER));
            CHECK(farside_get(world, window, 0, 0, table, sizeof table));
            CHECK(farside_rwlock_release(lock));
            for (entry = 1; entry < ENTRIES; entry++) {
                REQUIRE(table[entry] == table[0]);
            }
        }
    }
    CHECK(farside_all_reduce(team, &writes, &writes, 1, FARSIDE_U64, FARSIDE_SUM));
    CHECK(farside_get(world, window, 0, 0, table, sizeof table));
    REQUIRE(table[0] == writes);
    if (rank == 0) {
        printf("table: %u ranks, no half update seen\n", (unsigned)size);
    }
    CHECK(farside_rwlock_free(team, lock));
    CHECK(farside_window_free(team, window));
    CHECK(farside_leave(world));
    return 0;
}
