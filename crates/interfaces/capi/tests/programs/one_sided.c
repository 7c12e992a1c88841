/* One-sided operations: every function of jobs, windows, transfers, atomics, waits and requests. */
#include <string.h>

#include "check.h"

static farside_context_t world;
static farside_team_t team;
static uint32_t rank, size, next, previous;

static void job(void) {
    farside_counters_t counters;
    farside_context_t context;
    uint32_t nodes, node;
    uint64_t before, after;
    size_t count;
    int is_near, state, number;

    CHECK(farside_nodes(world, &nodes));
    CHECK(farside_node_of(world, next, &node));
    REQUIRE(nodes >= 1 && node < nodes);
    CHECK(farside_is_near(world, rank, &is_near));
    REQUIRE(is_near == 1);
    CHECK(farside_is_near(world, size - 1 - rank, &is_near));
    REQUIRE(nodes == 1 ? is_near == 1 : 1);
    CHECK(farside_clock(world, &before));
    CHECK(farside_clock(world, &after));
    REQUIRE(after >= before);
    CHECK(farside_lost(world, NULL, 0, &count));
    REQUIRE(count == 0);
    CHECK(farside_peer_state(world, rank, &state, &number));
    REQUIRE(state == FARSIDE_STATE_ALIVE && number == 0);
    CHECK(farside_peer_state(world, rank, &state, NULL));
    CHECK(farside_counters(world, FARSIDE_NO_RANK, &counters));
    REQUIRE(counters.calls == 0);
    CHECK(farside_counters(world, next, &counters));
    CHECK(farside_context_create(world, &context));
    REQUIRE(farside_leave(context) == FARSIDE_ERROR_STATE);
    REQUIRE(farside_context_free(world) == FARSIDE_ERROR_STATE);
    CHECK(farside_context_free(context));
    REQUIRE(farside_context_free(context) == FARSIDE_ERROR_ARGUMENT);
    REQUIRE(strcmp(farside_version(), "") != 0);
}

static void windows(void) {
    farside_window_t window;
    size_t bytes;
    void *base, *pointer;
    int is_near;

    CHECK(farside_window_allocate(team, 64 * (rank + 1), &window));
    CHECK(farside_window_bytes(window, next, &bytes));
    REQUIRE(bytes == 64 * ((size_t)next + 1));
    CHECK(farside_window_base(window, &base));
    CHECK(farside_window_pointer(window, rank, &pointer));
    REQUIRE(base == pointer && base != NULL);
    CHECK(farside_window_pointer(window, next, &pointer));
    CHECK(farside_is_near(world, next, &is_near));
    REQUIRE((pointer != NULL) == is_near);
    CHECK(farside_window_free(team, window));
    REQUIRE(farside_window_free(team, window) == FARSIDE_ERROR_ARGUMENT);
    REQUIRE(farside_window_base(window, &base) == FARSIDE_ERROR_ARGUMENT);
}

/* Memory that the program has: static and allocated, of other lengths and elsewhere in its pages on
 * every rank. */
static void attached_memory(void) {
    static uint64_t array[3000];
    farside_window_t window, other;
    uint64_t *heap = malloc(100000), word;
    uint64_t on_stack[4] = {0, 0, 0, 0};
    size_t bytes;

    REQUIRE(heap != NULL);
    array[rank + 5] = 500 + rank;
    array[2999] = 77;
    CHECK(farside_window_attach(team, array + rank, 8 * (1000 + rank), &window));
    REQUIRE(array[rank + 5] == 500 + rank && array[2999] == 77);
    CHECK(farside_window_bytes(window, next, &bytes));
    REQUIRE(bytes == 8 * (1000 + (size_t)next));
    CHECK(farside_get(world, window, next, 40, &word, sizeof word));
    REQUIRE(word == 500 + next);
    REQUIRE(farside_get(world, window, next, bytes, &word, 1) == FARSIDE_ERROR_BOUNDS);
    word = 900 + rank;
    CHECK(farside_put(world, window, next, 80, &word, sizeof word));
    CHECK(farside_sync(team));
    REQUIRE(array[rank + 10] == 900 + previous);
    REQUIRE(farside_window_attach(team, array + 999, 8, &other) == FARSIDE_ERROR_ARGUMENT);
    REQUIRE(strstr(farside_error_text(), "page in common") != NULL);
    REQUIRE(farside_window_attach(team, NULL, 8, &other) == FARSIDE_ERROR_ARGUMENT);
    REQUIRE(farside_window_attach(team, on_stack, 8, &other) == FARSIDE_ERROR_UNSUPPORTED);
    heap[0] = heap[12000] = 3;
    CHECK(farside_window_attach(team, heap, 100000, &other));
    CHECK(farside_window_free(team, other));
    REQUIRE(heap[0] == 3 && heap[12000] == 3);
    free(heap);
    CHECK(farside_window_free(team, window));
    REQUIRE(array[rank + 10] == 900 + previous && array[2999] == 77);
}

/* Plain puts and gets of all forms, to the next rank. */
static void transfers(void) {
    farside_window_t window;
    unsigned char data[256], seen[256];
    size_t at, counts[2], near_strides[2], far_strides[2];
    farside_strides_t block;
    farside_piece_t pieces[2];

    CHECK(farside_window_allocate(team, 4096, &window));
    for (at = 0; at < sizeof data; at++) {
        data[at] = (unsigned char)(at + rank);
    }
    CHECK(farside_put(world, window, next, 10, data, sizeof data));
    CHECK(farside_flush(world, next));
    CHECK(farside_get(world, window, next, 10, seen, sizeof seen));
    REQUIRE(memcmp(data, seen, sizeof data) == 0);

    CHECK(farside_put_nbi(world, window, next, 300, data, sizeof data));
    CHECK(farside_flush_all(world));
    memset(seen, 0, sizeof seen);
    CHECK(farside_get_nbi(world, window, next, 300, seen, sizeof seen));
    CHECK(farside_flush(world, next));
    REQUIRE(memcmp(data, seen, sizeof data) == 0);
    /* More than any fabric has under way at a time. */
    for (at = 0; at < 3000; at++) {
        CHECK(farside_put_nbi(world, window, next, 600 + at % 256, &data[at % 256], 1));
    }
    CHECK(farside_sync(team));
    memset(seen, 0, sizeof seen);
    for (at = 0; at < 3000; at++) {
        CHECK(farside_get_nbi(world, window, next, 600 + at % 256, &seen[at % 256], 1));
    }
    CHECK(farside_flush_all(world));
    REQUIRE(memcmp(data, seen, sizeof data) == 0);

    /* Three rows of two elements of 4 bytes. */
    counts[0] = 3, counts[1] = 2;
    near_strides[0] = 16, near_strides[1] = 8;
    far_strides[0] = 40, far_strides[1] = 4;
    block.dimensions = 2;
    block.counts = counts;
    block.near_strides = near_strides;
    block.far_strides = far_strides;
    block.element_bytes = 4;
    CHECK(farside_put_strided(world, window, next, 1000, data, &block));
    CHECK(farside_flush(world, next));
    CHECK(farside_get(world, window, next, 1000 + 40, seen, 8));
    REQUIRE(memcmp(seen, data + 16, 4) == 0 && memcmp(seen + 4, data + 24, 4) == 0);
    memset(seen, 0, sizeof seen);
    CHECK(farside_get_strided(world, window, next, 1000, seen, &block));
    REQUIRE(memcmp(seen + 32, data + 32, 4) == 0 && memcmp(seen + 40, data + 40, 4) == 0);
    REQUIRE(seen[4] == 0);
    counts[0] = 0;
    CHECK(farside_put_strided(world, window, next, 0, NULL, &block));

    pieces[0].memory = data + 100, pieces[0].offset = 2000, pieces[0].bytes = 3;
    pieces[1].memory = data, pieces[1].offset = 1900, pieces[1].bytes = 5;
    CHECK(farside_put_vector(world, window, next, pieces, 2));
    CHECK(farside_flush(world, next));
    memset(seen, 0, sizeof seen);
    pieces[0].memory = seen + 50, pieces[1].memory = seen;
    CHECK(farside_get_vector(world, window, next, pieces, 2));
    REQUIRE(memcmp(seen, data, 5) == 0 && memcmp(seen + 50, data + 100, 3) == 0);
    CHECK(farside_window_free(team, window));
}

static void accumulates(void) {
    farside_window_t window;
    double numbers[2] = {1.0, 2.0}, half = 0.5, sums[2];
    int64_t integer = -3, total;
    float complex_number[2] = {1.0f, -1.0f}, complex_sum[2];
    struct {
        double value;
        int32_t index;
    } place = {2.0 * rank, (int32_t)rank}, found;
    uint16_t one = 1, drawn[2];
    int8_t flags[2] = {(int8_t)(rank == 0 ? 5 : 0), 0};
    farside_request_t request;

    CHECK(farside_window_allocate(team, 64, &window));
    CHECK(farside_accumulate(world, window, 0, 0, numbers, 2, FARSIDE_F64, FARSIDE_SUM, &half));
    CHECK(farside_accumulate(world, window, 0, 16, &integer, 1, FARSIDE_I64, FARSIDE_SUM, NULL));
    CHECK(farside_accumulate(world, window, 0, 24, complex_number, 1, FARSIDE_C32, FARSIDE_SUM,
                             NULL));
    CHECK(farside_sync(team));
    CHECK(farside_get(world, window, 0, 0, sums, sizeof sums));
    REQUIRE(sums[0] == 0.5 * size && sums[1] == 1.0 * size);
    CHECK(farside_get(world, window, 0, 16, &total, sizeof total));
    REQUIRE(total == -3 * (int64_t)size);
    CHECK(farside_get(world, window, 0, 24, complex_sum, sizeof complex_sum));
    REQUIRE(complex_sum[0] == (float)size && complex_sum[1] == -(float)size);
    CHECK(farside_sync(team));
    CHECK(farside_accumulate(world, window, 0, 0, numbers, 1, FARSIDE_F64, FARSIDE_MAX, NULL));
    CHECK(farside_accumulate(world, window, 0, 32, &place, 1, FARSIDE_F64_INDEX, FARSIDE_MAX_LOC,
                             NULL));
    CHECK(farside_sync(team));
    CHECK(farside_get(world, window, 0, 0, sums, sizeof sums));
    REQUIRE(sums[0] == (size > 2 ? 0.5 * size : 1.0));
    CHECK(farside_get_accumulate(world, window, 0, 32, NULL, &found, 1, FARSIDE_F64_INDEX,
                                 FARSIDE_NO_OP));
    REQUIRE(found.value == 2.0 * (size - 1) && found.index == (int32_t)size - 1);
    CHECK(farside_get_accumulate(world, window, 0, 48, &one, &drawn[0], 1, FARSIDE_U16,
                                 FARSIDE_SUM));
    CHECK(farside_get_accumulate_request(world, window, 0, 48, &one, &drawn[1], 1, FARSIDE_U16,
                                         FARSIDE_SUM, &request));
    CHECK(farside_request_wait(request));
    REQUIRE(drawn[0] < drawn[1] && drawn[1] < 2 * size);
    CHECK(farside_sync(team));
    CHECK(farside_accumulate(world, window, 0, 50, flags, 2, FARSIDE_I8, FARSIDE_LOGICAL_OR, NULL));
    CHECK(farside_sync(team));
    CHECK(farside_get(world, window, 0, 50, flags, sizeof flags));
    REQUIRE(flags[0] == 1 && flags[1] == 0);
    REQUIRE(farside_accumulate(world, window, 0, 0, numbers, 1, FARSIDE_F64, FARSIDE_XOR, NULL) ==
            FARSIDE_ERROR_UNSUPPORTED);
    REQUIRE(farside_accumulate(world, window, 0, 0, numbers, 1, FARSIDE_F64, FARSIDE_MAX, &half) ==
            FARSIDE_ERROR_ARGUMENT);
    REQUIRE(farside_accumulate(world, window, 0, 0, numbers, 1, FARSIDE_F64, 14, NULL) ==
            FARSIDE_ERROR_ARGUMENT);
    REQUIRE(farside_get_accumulate(world, window, 0, 60, numbers, sums, 1, FARSIDE_F64,
                                   FARSIDE_SUM) == FARSIDE_ERROR_BOUNDS);
    REQUIRE(farside_get_accumulate(world, window, 0, 0, numbers, NULL, 1, FARSIDE_F64,
                                   FARSIDE_SUM) == FARSIDE_ERROR_ARGUMENT);
    REQUIRE(farside_accumulate(world, window, 0, 0, numbers, 1, 99, FARSIDE_SUM, NULL) ==
            FARSIDE_ERROR_ARGUMENT);
    CHECK(farside_window_free(team, window));
}

static void atomics(void) {
    farside_window_t window;
    uint64_t held, pair[2] = {7, 8}, zero[2] = {0, 0}, seen[2], value;
    uint32_t small = 5, small_held = 1;

    CHECK(farside_window_allocate(team, 128, &window));
    CHECK(farside_fetch_add(world, window, 0, 0, 1, &held));
    REQUIRE(held < 2 * size);
    CHECK(farside_fetch_add(world, window, 0, 0, 1, NULL));
    CHECK(farside_sync(team));
    CHECK(farside_load(world, window, 0, 0, &value));
    REQUIRE(value == 2 * size);
    CHECK(farside_store(world, window, next, 8, 40 + rank));
    CHECK(farside_load(world, window, next, 8, &value));
    REQUIRE(value == 40 + rank);
    CHECK(farside_swap(world, window, next, 8, 50, &held));
    REQUIRE(held == 40 + rank);
    CHECK(farside_compare_swap(world, window, next, 8, 49, 1, &held));
    REQUIRE(held == 50);
    CHECK(farside_compare_swap(world, window, next, 8, 50, 0xff, &held));
    CHECK(farside_post_add(world, window, next, 8, 0xf00));
    CHECK(farside_post_and(world, window, next, 8, 0xff0));
    CHECK(farside_post_or(world, window, next, 8, 0x2));
    CHECK(farside_post_xor(world, window, next, 8, 0x3));
    CHECK(farside_fence(world));
    CHECK(farside_flush(world, next));
    CHECK(farside_load(world, window, next, 8, &value));
    REQUIRE(value == 0xff1);
    CHECK(farside_atomic(world, window, next, 16, 32, FARSIDE_ATOMIC_ADD, &small, NULL,
                         &small_held));
    REQUIRE(small_held == 0);
    CHECK(farside_atomic(world, window, next, 16, 32, FARSIDE_ATOMIC_LOAD, NULL, NULL,
                         &small_held));
    REQUIRE(small_held == 5);
    CHECK(farside_atomic(world, window, next, 32, 128, FARSIDE_ATOMIC_COMPARE_SWAP, pair, zero,
                         seen));
    REQUIRE(seen[0] == 0 && seen[1] == 0);
    CHECK(farside_atomic(world, window, next, 32, 128, FARSIDE_ATOMIC_SWAP, zero, NULL, seen));
    REQUIRE(seen[0] == 7 && seen[1] == 8);
    CHECK(farside_atomic(world, window, next, 32, 128, FARSIDE_ATOMIC_STORE, pair, NULL, NULL));
    REQUIRE(farside_atomic(world, window, next, 32, 128, FARSIDE_ATOMIC_ADD, pair, NULL, NULL) ==
            FARSIDE_ERROR_UNSUPPORTED);
    CHECK(farside_window_free(team, window));
}

static void waits(void) {
    farside_window_t window;
    farside_condition_t conditions[2];
    farside_signal_t signal;
    uint64_t seen = 0, data = 9;
    uint32_t small = 6;
    size_t which = 9;
    int holds = 9;

    CHECK(farside_window_allocate(team, 64, &window));
    CHECK(farside_test(world, window, 0, 64, FARSIDE_GE, 3, &holds, &seen));
    REQUIRE(holds == 0 && seen == 0);
    REQUIRE(farside_wait(world, window, 0, 64, FARSIDE_NE, 0, 1000000, &seen) ==
            FARSIDE_ERROR_TIMED_OUT);
    CHECK(farside_barrier(team));
    CHECK(farside_signal(world, window, next, 0, 3));
    CHECK(farside_wait(world, window, 0, 64, FARSIDE_GE, 3, FARSIDE_FOREVER, &seen));
    REQUIRE(seen == 3);
    CHECK(farside_test(world, window, 0, 64, FARSIDE_LE, 3, &holds, NULL));
    REQUIRE(holds == 1);
    CHECK(farside_atomic(world, window, next, 8, 32, FARSIDE_ATOMIC_STORE, &small, NULL, NULL));
    CHECK(farside_wait(world, window, 8, 32, FARSIDE_GT, 5, 60000000000u, NULL));
    CHECK(farside_test(world, window, 8, 32, FARSIDE_LT, 7, &holds, NULL));
    REQUIRE(holds == 1);
    conditions[0].window = window, conditions[0].offset = 16;
    conditions[0].comparison = FARSIDE_EQ, conditions[0].value = 77;
    conditions[1].window = window, conditions[1].offset = 24;
    conditions[1].comparison = FARSIDE_EQ, conditions[1].value = 5;
    REQUIRE(farside_wait_any(world, conditions, 2, 1000, &which, &seen) ==
            FARSIDE_ERROR_TIMED_OUT);
    CHECK(farside_barrier(team));
    /* Data with a signal that adds. */
    signal.window = window, signal.offset = 24, signal.operation = FARSIDE_ATOMIC_ADD;
    signal.value = 5;
    CHECK(farside_put_signal(world, window, next, 32, &data, sizeof data, &signal));
    CHECK(farside_wait_any(world, conditions, 2, FARSIDE_FOREVER, &which, &seen));
    REQUIRE(which == 1 && seen == 5);
    data = 0;
    CHECK(farside_get(world, window, rank, 32, &data, sizeof data));
    REQUIRE(data == 9);
    CHECK(farside_relax(world));
    CHECK(farside_window_free(team, window));
}

static void requests(void) {
    enum { MANY = 20 };
    farside_window_t window;
    farside_request_t requests[MANY], one;
    uint64_t data[MANY], seen[MANY];
    int64_t sum = 1, total = 0;
    int at, is_complete = 0;

    CHECK(farside_window_allocate(team, sizeof data, &window));
    for (at = 0; at < MANY; at++) {
        data[at] = rank * 1000u + (uint64_t)at;
        CHECK(farside_put_request(world, window, next, (uint64_t)at * 8, &data[at], 8,
                                  &requests[at]));
    }
    CHECK(farside_request_wait_all(requests, MANY));
    REQUIRE(farside_request_wait(requests[0]) == FARSIDE_ERROR_ARGUMENT);
    CHECK(farside_flush(world, next));
    for (at = 0; at < MANY; at++) {
        CHECK(farside_get_request(world, window, next, (uint64_t)at * 8, &seen[at], 8,
                                  &requests[at]));
    }
    for (at = 1; at < MANY; at++) {
        CHECK(farside_request_wait(requests[at]));
    }
    while (!is_complete) {
        CHECK(farside_request_test(requests[0], &is_complete));
    }
    REQUIRE(memcmp(data, seen, sizeof data) == 0);

    CHECK(farside_barrier_nb(team, &one));
    REQUIRE(farside_leave(world) == FARSIDE_ERROR_STATE);
    CHECK(farside_request_wait(one));
    CHECK(farside_all_reduce_nb(team, &sum, &total, 1, FARSIDE_I64, FARSIDE_SUM, &one));
    is_complete = 0;
    while (!is_complete) {
        CHECK(farside_request_test(one, &is_complete));
        CHECK(farside_relax(world));
    }
    REQUIRE(total == (int64_t)size);
    CHECK(farside_window_free(team, window));
}

int main(void) {
    CHECK(farside_join(&world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    CHECK(farside_team_world(world, &team));
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    job();
    windows();
    attached_memory();
    transfers();
    accumulates();
    atomics();
    waits();
    requests();
    CHECK(farside_leave(world));
    REQUIRE(farside_rank(world, &rank) == FARSIDE_ERROR_ARGUMENT);
    printf("one_sided: done\n");
    return 0;
}
