/* The same twice, for tests in which a call of one rank fails the first time: every rank says what
 * the first error of each time was. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "farside.h"

enum { PATIENCE_S = 20 };

static farside_context_t world;
static farside_team_t team;
static uint32_t rank, size;
static char first[512];

static int note(int code) {
    if (code != FARSIDE_OK && first[0] == '\0') {
        strncpy(first, farside_error_text(), sizeof first - 1);
        for (char *at = first; *at != '\0'; at++) {
            if (*at == '\n' || *at == '|') {
                *at = ' ';
            }
        }
    }
    return code == FARSIDE_OK;
}

/* Whoever fails within a lock keeps others waiting unless it ends. */
static int must(int code) {
    if (!note(code)) {
        printf("rank %u ends: %s\n", (unsigned)rank, first);
        fflush(stdout);
        _exit(1);
    }
    return 1;
}

static void late(int signal) {
    static const char text[] = "a rank hangs\n";
    (void)signal;
    (void)!write(1, text, sizeof text - 1);
    _exit(3);
}

/* Every member comes to every call, whatever came of those before. */
static void windows(void) {
    farside_window_t window;
    uint64_t old, value = rank;
    static char own[1 << 14];

    if (note(farside_window_allocate(team, 4096, &window))) {
        note(farside_put(world, window, (rank + 1) % size, 0, &value, sizeof value));
        note(farside_fetch_add(world, window, 0, 8, 1, &old));
        note(farside_barrier(team));
        note(farside_window_free(team, window));
    }
    if (note(farside_window_attach(team, own, sizeof own, &window))) {
        note(farside_get(world, window, 0, 0, &value, sizeof value));
        note(farside_window_free(team, window));
    }
}

static void teams(void) {
    farside_team_t half;
    farside_lock_t lock;
    uint32_t sum, one = 1;

    if (note(farside_team_split(team, rank % 2, 0, &half))) {
        note(farside_all_reduce(half, &one, &sum, 1, FARSIDE_U32, FARSIDE_SUM));
        note(farside_team_free(half));
    }
    if (note(farside_lock_create(team, 0, NULL, &lock))) {
        if (must(farside_lock_acquire(world, lock, FARSIDE_FOREVER))) {
            must(farside_lock_release(lock));
        }
        note(farside_lock_free(team, lock));
    }
}

static void epochs(int design) {
    farside_epoch_t epoch;
    uint64_t value = rank;

    if (note(farside_epoch_allocate(team, 64, 8, design, &epoch))) {
        note(farside_epoch_fence(epoch));
        note(farside_epoch_put(epoch, (rank + 1) % size, 0, &value, sizeof value));
        note(farside_epoch_last_fence(epoch));
        if (must(farside_epoch_lock(epoch, 0, FARSIDE_EXCLUSIVE))) {
            note(farside_epoch_put(epoch, 0, 1, &value, sizeof value));
            must(farside_epoch_unlock(epoch, 0));
        }
        note(farside_epoch_free(epoch));
    }
}

static void body(void) {
    windows();
    teams();
    epochs(FARSIDE_EPOCH_DIRECT);
    epochs(FARSIDE_EPOCH_TWO_SIDED);
}

int main(void) {
    char before[sizeof first];

    dup2(1, 2);
    signal(SIGALRM, late);
    alarm(PATIENCE_S);
    if (!note(farside_join(&world))) {
        fprintf(stderr, "%s\n", first);
        return 1;
    }
    note(farside_rank(world, &rank));
    note(farside_size(world, &size));
    note(farside_team_world(world, &team));
    body();
    strcpy(before, first[0] == '\0' ? "fine" : first);
    first[0] = '\0';
    note(farside_barrier(team));
    body();
    printf("rank %u: %s | %s\n", (unsigned)rank, before, first[0] == '\0' ? "fine" : first);
    fflush(stdout);
    return farside_leave(world) == FARSIDE_OK || strcmp(before, "fine") != 0 ? 0 : 1;
}
