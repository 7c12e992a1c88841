/* Calls that make no sense are refused with an error that says why; nothing crashes, and results
 * are not touched. */
#include <string.h>

#include "check.h"

static const char *text_of_last;

static void refused(int code, int expected, const char *word, const char *call, int line) {
    text_of_last = farside_error_text();
    if (code != expected || strstr(text_of_last, word) == NULL) {
        fprintf(stderr, "line %d: %s gave %s (%s), not %s with \"%s\"\n", line, call,
                farside_error_name(code), text_of_last, farside_error_name(expected), word);
        exit(1);
    }
}
#define REFUSED(call, code, word) refused((call), FARSIDE_ERROR_##code, word, #call, __LINE__)

int main(void) {
    farside_context_t world, wild = {12345}, none = {0};
    farside_team_t team, no_team = {1};
    farside_window_t window, freed, wild_window = {0xdeadbeefcafef00du};
    farside_lock_t no_lock = {77};
    farside_rwlock_t no_rwlock = {78};
    farside_epoch_t no_epoch = {79}, epoch;
    farside_request_t no_request = {80}, request = {81};
    farside_strides_t strides;
    farside_piece_t piece;
    farside_signal_t signal;
    farside_condition_t condition;
    uint32_t rank, size, untouched = 4711;
    uint64_t word = 4711;
    size_t counts[1] = {(size_t)-1}, steps[1] = {(size_t)-1}, count = 4711;
    int number = 4711;
    uint64_t store[32] = {0};
    char *data = (char *)store;

    REFUSED(farside_join(NULL), ARGUMENT, "null");
    REFUSED(farside_join_with(0, 1, NULL, NULL, &world), ARGUMENT, "gather");
    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    if (size > 1) {
        REFUSED(farside_join(&wild), JOIN, "join");
        REQUIRE(wild.id == 12345);
    }
    CHECK(farside_team_world(world, &team));
    CHECK(farside_window_allocate(team, 64, &window));
    CHECK(farside_window_allocate(team, 64, &freed));
    CHECK(farside_window_free(team, freed));

    /* Null pointers. */
    REFUSED(farside_rank(world, NULL), ARGUMENT, "rank");
    REFUSED(farside_team_world(world, NULL), ARGUMENT, "null");
    REFUSED(farside_window_allocate(team, 8, NULL), ARGUMENT, "window");
    REFUSED(farside_put(world, window, 0, 0, NULL, 8), ARGUMENT, "data");
    REFUSED(farside_get(world, window, 0, 0, NULL, 8), ARGUMENT, "into");
    REFUSED(farside_load(world, window, 0, 0, NULL), ARGUMENT, "value");
    REFUSED(farside_atomic(world, window, 0, 0, 64, FARSIDE_ATOMIC_ADD, NULL, NULL, NULL),
            ARGUMENT, "operand");
    REFUSED(farside_put_strided(world, window, 0, 0, data, NULL), ARGUMENT, "strides");
    REFUSED(farside_put_signal(world, window, 0, 0, data, 8, NULL), ARGUMENT, "signal");
    REFUSED(farside_serve(world, NULL, NULL, &untouched), ARGUMENT, "handler");
    REFUSED(farside_all_reduce(team, NULL, data, 1, FARSIDE_I32, FARSIDE_SUM), ARGUMENT, "send");
    CHECK(farside_put(world, window, 0, 0, NULL, 0));

    /* Handles that were never given out, and one that was freed. */
    REFUSED(farside_rank(wild, &untouched), ARGUMENT, "not a handle of a context");
    REFUSED(farside_rank(none, &untouched), ARGUMENT, "never given out");
    REFUSED(farside_abort(wild, 3), ARGUMENT, "context");
    REFUSED(farside_leave(wild), ARGUMENT, "context");
    REFUSED(farside_barrier(no_team), ARGUMENT, "team");
    REFUSED(farside_put(world, wild_window, 0, 0, data, 8), ARGUMENT, "window");
    REFUSED(farside_put(world, freed, 0, 0, data, 8), ARGUMENT, "freed");
    REFUSED(farside_fetch_add(world, freed, 0, 0, 1, &word), ARGUMENT, "freed");
    REFUSED(farside_window_bytes(freed, 0, &count), ARGUMENT, "freed");
    REFUSED(farside_lock_acquire(world, no_lock, 0), ARGUMENT, "lock");
    REFUSED(farside_rwlock_read(world, no_rwlock, 0), ARGUMENT, "reader-writer lock");
    REFUSED(farside_epoch_fence(no_epoch), ARGUMENT, "epochs");
    REFUSED(farside_request_wait(no_request), ARGUMENT, "request");
    REFUSED(farside_request_test(no_request, &number), ARGUMENT, "request");

    /* Ranks, nodes and members that do not exist. */
    REFUSED(farside_put(world, window, size, 0, data, 8), RANK, "does not exist");
    REFUSED(farside_get(world, window, 0xffffffffu, 0, data, 8), RANK, "does not exist");
    REFUSED(farside_node_of(world, size, &untouched), RANK, "does not exist");
    REFUSED(farside_peer_state(world, size, &number, NULL), RANK, "does not exist");
    REFUSED(farside_flush(world, size), RANK, "does not exist");
    REFUSED(farside_window_bytes(window, size, &count), RANK, "does not exist");
    REFUSED(farside_fetch_add(world, window, size, 0, 1, &word), RANK, "does not exist");
    REFUSED(farside_broadcast(team, size, data, 8), RANK, "does not exist");

    /* Places outside of the window, and lengths that no memory has. */
    REFUSED(farside_put(world, window, 0, 60, data, 8), BOUNDS, "64");
    REFUSED(farside_get(world, window, 0, (uint64_t)-4, data, 8), BOUNDS, "64");
    REFUSED(farside_put(world, window, 0, 0, data, (size_t)-1), ARGUMENT, "no memory");
    REFUSED(farside_fetch_add(world, window, 0, 64, 1, &word), BOUNDS, "64");
    REFUSED(farside_fetch_add(world, window, 0, 4, 1, &word), ARGUMENT, "multiple");
    strides.dimensions = 1, strides.counts = counts, strides.near_strides = steps;
    strides.far_strides = steps, strides.element_bytes = 8;
    REFUSED(farside_put_strided(world, window, 0, 0, data, &strides), ARGUMENT, "reach");
    strides.dimensions = (size_t)-1;
    REFUSED(farside_get_strided(world, window, 0, 0, data, &strides), ARGUMENT, "no memory");
    piece.memory = data, piece.offset = 60, piece.bytes = 8;
    REFUSED(farside_put_vector(world, window, 0, &piece, 1), BOUNDS, "64");
    piece.bytes = (size_t)-1;
    REFUSED(farside_get_vector(world, window, 0, &piece, 1), ARGUMENT, "memory");
    REFUSED(farside_put_request(world, window, 0, 60, data, 8, &request), BOUNDS, "64");
    REQUIRE(request.id == 81);
    REFUSED(farside_wait(world, window, 64, 64, FARSIDE_EQ, 1, 0, &word), BOUNDS, "64");

    /* Codes that mean nothing. */
    REFUSED(farside_wait(world, window, 0, 64, 6, 1, 0, &word), ARGUMENT, "not a comparison");
    REFUSED(farside_test(world, window, 0, 64, -1, 1, &number, &word), ARGUMENT, "comparison");
    REFUSED(farside_wait(world, window, 0, 63, FARSIDE_EQ, 1, 0, &word), ARGUMENT, "63 bits");
    REFUSED(farside_wait(world, window, 0, 128, FARSIDE_EQ, 1, 0, &word), ARGUMENT, "128");
    REFUSED(farside_atomic(world, window, 0, 0, 64, 8, &word, NULL, NULL), ARGUMENT, "8");
    REFUSED(farside_all_reduce(team, data, data, 1, FARSIDE_I16_INDEX, FARSIDE_SUM), ARGUMENT,
            "kind of number");
    REFUSED(farside_all_reduce(team, data, data, 1, FARSIDE_I32, 7), ARGUMENT, "not an operation");
    REFUSED(farside_epoch_allocate(team, 8, 1, 9, &epoch), ARGUMENT, "design");
    signal.window = window, signal.offset = 0, signal.operation = FARSIDE_ATOMIC_XOR;
    signal.value = 1;
    REFUSED(farside_put_signal(world, window, 0, 0, data, 8, &signal), ARGUMENT, "signal");
    condition.window = window, condition.offset = 0, condition.comparison = 77;
    condition.value = 1;
    REFUSED(farside_wait_any(world, &condition, 1, 0, &count, NULL), ARGUMENT, "comparison");
    REFUSED(farside_wait_any(world, NULL, 0, FARSIDE_FOREVER, &count, NULL), ARGUMENT, "never");
    REFUSED(farside_all_reduce(team, data + 65, data, 1, FARSIDE_F64, FARSIDE_SUM), ARGUMENT,
            "aligned");

    REFUSED(farside_all_gather(team, data, 8, data + 4), ARGUMENT, "overlap");
    REFUSED(farside_scan(team, data, data + 4, 2, FARSIDE_I32, FARSIDE_SUM), ARGUMENT, "overlap");

    REQUIRE(untouched == 4711 && word == 4711 && count == 4711 && number == 4711);
    REQUIRE(strcmp(farside_error_name(FARSIDE_ERROR_LOST), "FARSIDE_ERROR_LOST") == 0);
    REQUIRE(strcmp(farside_error_name(0), "FARSIDE_OK") == 0);
    REQUIRE(strcmp(farside_error_name(1000), "FARSIDE_ERROR_UNKNOWN") == 0);
    REQUIRE(strcmp(farside_error_name(-1), "FARSIDE_ERROR_UNKNOWN") == 0);
    REQUIRE(farside_error_rank() == FARSIDE_NO_RANK);
    CHECK(farside_barrier(team));
    CHECK(farside_window_free(team, window));
    CHECK(farside_leave(world));
    REFUSED(farside_leave(world), ARGUMENT, "context");
    REFUSED(farside_barrier(team), ARGUMENT, "context");
    printf("refused: done\n");
    return 0;
}
