/* What ranks do together: teams, collectives, locks, epochs and calls, every function of them. */
#include <string.h>

#include "check.h"

static farside_context_t world;
static farside_team_t team;
static uint32_t rank, size, next;

static void teams(void) {
    farside_team_t half, none, node;
    farside_window_t window;
    uint32_t members[64], count, index;
    size_t total;

    CHECK(farside_team_split(team, rank % 2, size - rank, &half));
    CHECK(farside_team_size(half, &count));
    CHECK(farside_team_index(half, &index));
    CHECK(farside_team_members(half, members, 64, &total));
    REQUIRE(total == count && members[index] == rank);
    REQUIRE(count == (size + 1 - rank % 2) / 2);
    CHECK(farside_window_allocate(half, 8, &window));
    CHECK(farside_barrier(half));
    CHECK(farside_sync(half));
    if (count != size) {
        REQUIRE(farside_window_free(team, window) == FARSIDE_ERROR_STATE);
    }
    CHECK(farside_window_free(half, window));
    CHECK(farside_team_free(half));
    REQUIRE(farside_barrier(half) == FARSIDE_ERROR_ARGUMENT);
    CHECK(farside_team_split(team, rank == 0 ? FARSIDE_NO_COLOUR : 1, 0, &none));
    REQUIRE((none.id == 0) == (rank == 0));
    if (none.id != 0) {
        CHECK(farside_team_free(none));
    }
    CHECK(farside_team_split_by_node(team, &node));
    CHECK(farside_team_members(node, NULL, 0, &total));
    REQUIRE(total >= 1 && total <= size);
    CHECK(farside_team_free(node));
}

static void collectives(void) {
    uint32_t all[64], to[64], root = size - 1, other;
    int32_t number = (int32_t)rank + 1, got = 0;
    double least[2], product[2] = {2.0, 0.0}, result[2];
    uint64_t bits = (uint64_t)1 << rank;
    size_t send_bytes[64], receive_bytes[64], sum;
    char send[64 * 64], receive[64 * 64];
    uint32_t data = rank;

    REQUIRE(size <= 60);
    CHECK(farside_broadcast(team, root, &data, sizeof data));
    REQUIRE(data == root);
    CHECK(farside_reduce(team, root, &number, rank == root ? &got : NULL, 1, FARSIDE_I32,
                         FARSIDE_SUM));
    REQUIRE(rank != root || got == (int32_t)(size * (size + 1) / 2));
    least[0] = rank, least[1] = -(double)rank;
    CHECK(farside_all_reduce(team, least, result, 2, FARSIDE_F64, FARSIDE_MIN));
    REQUIRE(result[0] == 0.0 && result[1] == -(double)(size - 1));
    CHECK(farside_all_reduce(team, least, least, 2, FARSIDE_F64, FARSIDE_MAX));
    REQUIRE(least[0] == size - 1 && least[1] == 0.0);
    CHECK(farside_all_reduce(team, product, product, 1, FARSIDE_C64, FARSIDE_PRODUCT));
    REQUIRE(product[0] == (double)((uint64_t)1 << size) && product[1] == 0.0);
    CHECK(farside_all_reduce(team, &bits, &bits, 1, FARSIDE_U64, FARSIDE_OR));
    REQUIRE(bits == ((uint64_t)1 << size) - 1);
    REQUIRE(farside_all_reduce(team, &bits, &bits, 1, FARSIDE_F64, FARSIDE_OR) ==
            FARSIDE_ERROR_UNSUPPORTED);
    CHECK(farside_scan(team, &number, &got, 1, FARSIDE_I32, FARSIDE_SUM));
    REQUIRE(got == (int32_t)((rank + 1) * (rank + 2) / 2));
    CHECK(farside_exclusive_scan(team, &number, &got, 1, FARSIDE_I32, FARSIDE_SUM));
    REQUIRE(got == (int32_t)(rank * (rank + 1) / 2));
    CHECK(farside_all_gather(team, &rank, sizeof rank, all));
    for (other = 0; other < size; other++) {
        REQUIRE(all[other] == other);
        to[other] = rank * 100 + other;
    }
    CHECK(farside_all_to_all(team, to, sizeof *to, all));
    sum = 0;
    for (other = 0; other < size; other++) {
        REQUIRE(all[other] == other * 100 + rank);
        send_bytes[other] = other; /* each rank gets as many bytes from all as its number */
        memset(send + sum, (int)rank, other);
        sum += other;
    }
    CHECK(farside_all_to_all_v(team, send, send_bytes, receive, sizeof receive, receive_bytes));
    for (other = 0; other < size; other++) {
        size_t at;
        REQUIRE(receive_bytes[other] == rank);
        for (at = 0; at < rank; at++) {
            REQUIRE(receive[other * rank + at] == (char)other);
        }
    }
}

static void locks(void) {
    farside_lock_t lock, semaphore;
    farside_rwlock_t rwlock;
    farside_window_t window;
    farside_team_t half;
    uint64_t count;
    int round, code;

    CHECK(farside_window_allocate(team, 8, &window));
    REQUIRE(farside_lock_create(team, 0, "no-such-lock", &lock) == FARSIDE_ERROR_ARGUMENT);
    REQUIRE(strstr(farside_error_text(), "ticket") != NULL);
    CHECK(farside_lock_create(team, 0, "ticket", &lock));
    for (round = 0; round < 20; round++) {
        CHECK(farside_lock_acquire(world, lock, FARSIDE_FOREVER));
        CHECK(farside_get(world, window, 0, 0, &count, sizeof count));
        count++;
        CHECK(farside_put(world, window, 0, 0, &count, sizeof count));
        CHECK(farside_lock_release(lock));
    }
    REQUIRE(farside_lock_release(lock) == FARSIDE_ERROR_STATE);
    CHECK(farside_sync(team));
    CHECK(farside_get(world, window, 0, 0, &count, sizeof count));
    REQUIRE(count == 20 * size);
    /* Only one of all gets a lock that is not given back. */
    CHECK(farside_barrier(team));
    code = farside_lock_acquire(world, lock, rank == 0 ? FARSIDE_FOREVER : 0);
    REQUIRE(code == FARSIDE_OK || code == FARSIDE_ERROR_TIMED_OUT);
    if (code == FARSIDE_OK) {
        REQUIRE(farside_leave(world) == FARSIDE_ERROR_STATE);
        REQUIRE(farside_lock_free(team, lock) == FARSIDE_ERROR_STATE);
        CHECK(farside_lock_release(lock));
    }
    CHECK(farside_barrier(team));
    /* Recovering is allowed while nothing was lost. */
    CHECK(farside_lock_recover(lock, team));
    CHECK(farside_lock_acquire(world, lock, 60000000000u));
    CHECK(farside_lock_release(lock));
    CHECK(farside_barrier(team));
    CHECK(farside_semaphore_create(team, 0, 2, &semaphore));
    CHECK(farside_lock_acquire(world, semaphore, FARSIDE_FOREVER));
    CHECK(farside_lock_release(semaphore));
    CHECK(farside_lock_free(team, semaphore));
    CHECK(farside_rwlock_create(team, 0, NULL, &rwlock));
    CHECK(farside_rwlock_read(world, rwlock, FARSIDE_FOREVER));
    CHECK(farside_barrier(team)); /* all read at once */
    REQUIRE(farside_rwlock_write(world, rwlock, 0) == FARSIDE_ERROR_STATE);
    CHECK(farside_rwlock_release(rwlock));
    CHECK(farside_rwlock_write(world, rwlock, FARSIDE_FOREVER));
    CHECK(farside_rwlock_release(rwlock));
    CHECK(farside_barrier(team));
    CHECK(farside_rwlock_recover(rwlock, team));
    CHECK(farside_rwlock_read(world, rwlock, 60000000000u));
    CHECK(farside_rwlock_release(rwlock));
    CHECK(farside_team_split(team, rank % 2, 0, &half));
    {
        farside_rwlock_t of_half;
        CHECK(farside_rwlock_create(half, rank % 2, "rma-rw", &of_half));
        CHECK(farside_rwlock_write(world, of_half, FARSIDE_FOREVER));
        CHECK(farside_rwlock_release(of_half));
        CHECK(farside_rwlock_free(half, of_half));
    }
    CHECK(farside_team_free(half));
    CHECK(farside_window_free(team, window));
}

static void epochs(int design) {
    farside_epoch_t epoch;
    uint32_t previous = (rank + size - 1) % size;
    uint64_t number = 10 + rank, seen = 0, held, one = 1;
    int is_over = 0;

    CHECK(farside_epoch_allocate(team, 64, 8, design, &epoch));
    REQUIRE(farside_epoch_put(epoch, next, 0, &number, 8) == FARSIDE_ERROR_EPOCH);
    CHECK(farside_epoch_fence(epoch));
    CHECK(farside_epoch_put(epoch, next, 0, &number, sizeof number));
    CHECK(farside_epoch_last_fence(epoch));
    CHECK(farside_epoch_read_own(epoch, 0, &seen, sizeof seen));
    REQUIRE(seen == 10 + previous);
    CHECK(farside_epoch_barrier(epoch));
    CHECK(farside_epoch_write_own(epoch, 1, &number, sizeof number));
    CHECK(farside_epoch_sync(epoch));
    CHECK(farside_epoch_barrier(epoch));
    CHECK(farside_epoch_lock(epoch, next, FARSIDE_SHARED));
    CHECK(farside_epoch_get(epoch, next, 1, &seen, sizeof seen));
    REQUIRE(seen == 10 + next);
    CHECK(farside_epoch_flush(epoch, next));
    CHECK(farside_epoch_unlock(epoch, next));
    CHECK(farside_epoch_barrier(epoch));
    CHECK(farside_epoch_lock_all(epoch));
    CHECK(farside_epoch_fetch_op(epoch, 0, 2, FARSIDE_FETCH_SUM, 1, &held));
    REQUIRE(held < size);
    CHECK(farside_epoch_accumulate(epoch, 0, 3, &one, 1, FARSIDE_U64, FARSIDE_SUM, NULL));
    CHECK(farside_epoch_get_accumulate(epoch, 0, 3, NULL, &held, 1, FARSIDE_U64, FARSIDE_NO_OP));
    REQUIRE(held <= size);
    CHECK(farside_epoch_flush_all(epoch));
    CHECK(farside_epoch_unlock_all(epoch));
    CHECK(farside_epoch_barrier(epoch));
    CHECK(farside_epoch_lock(epoch, 0, FARSIDE_EXCLUSIVE));
    CHECK(farside_epoch_compare_swap(epoch, 0, 3, size, size + 1, &held));
    CHECK(farside_epoch_unlock(epoch, 0));
    REQUIRE(held == size || held == size + 1);
    CHECK(farside_epoch_barrier(epoch));
    CHECK(farside_epoch_post(epoch, &previous, 1));
    CHECK(farside_epoch_start(epoch, &next, 1));
    CHECK(farside_epoch_put(epoch, next, 4, &number, sizeof number));
    CHECK(farside_epoch_complete(epoch));
    if (rank == 0) {
        while (!is_over) {
            CHECK(farside_epoch_test(epoch, &is_over));
        }
    } else {
        CHECK(farside_epoch_wait(epoch));
    }
    CHECK(farside_epoch_read_own(epoch, 4, &seen, sizeof seen));
    REQUIRE(seen == 10 + previous);
    REQUIRE(farside_leave(world) == FARSIDE_ERROR_STATE);
    CHECK(farside_epoch_free(epoch));
    REQUIRE(farside_epoch_fence(epoch) == FARSIDE_ERROR_ARGUMENT);
}

/* Sends back the request, reversed; refuses an empty one. */
static int reverse(void *user, uint32_t from, const void *request, size_t bytes, void *reply,
                   size_t room, size_t *reply_bytes) {
    const char *text = request;
    char *answer = reply;
    size_t at;
    if (bytes == 0 || user != NULL || from >= 64) {
        return 17;
    }
    for (at = 0; at < bytes && at < room; at++) {
        answer[at] = text[bytes - 1 - at];
    }
    *reply_bytes = at;
    return 0;
}

static void calls(void) {
    uint32_t number, node;
    char reply[8];
    size_t bytes;

    CHECK(farside_serve(world, reverse, NULL, &number));
    CHECK(farside_node_of(world, next, &node));
    CHECK(farside_call(world, node, number, "abc", 3, reply, sizeof reply, &bytes));
    REQUIRE(bytes == 3 && memcmp(reply, "cba", 3) == 0);
    CHECK(farside_call(world, node, number, "abc", 3, reply, 2, NULL));
    REQUIRE(farside_call(world, node, number, NULL, 0, reply, 8, &bytes) ==
            FARSIDE_ERROR_HANDLER);
    REQUIRE(strstr(farside_error_text(), "returned 17") != NULL);
    REQUIRE(farside_call(world, node, 99, "abc", 3, reply, 8, &bytes) == FARSIDE_ERROR_HANDLER);
    REQUIRE(farside_call(world, 99, number, "abc", 3, reply, 8, &bytes) == FARSIDE_ERROR_RANK);
    CHECK(farside_barrier(team));
}

int main(void) {
    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    CHECK(farside_team_world(world, &team));
    next = (rank + 1) % size;
    teams();
    collectives();
    locks();
    epochs(FARSIDE_EPOCH_DIRECT);
    epochs(FARSIDE_EPOCH_TWO_SIDED);
    calls();
    CHECK(farside_team_free(team));
    CHECK(farside_leave(world));
    printf("together: done\n");
    return 0;
}
