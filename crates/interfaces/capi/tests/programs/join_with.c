/* Processes that no launcher of farside has started: they meet through memory that they share, as
 * another runtime would let them. The argument is the number of processes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { RANKS_MAX = 16, ROOM = 1 << 16 };

struct meeting {
    pthread_barrier_t barrier;
    char parts[RANKS_MAX][ROOM];
};

struct process {
    struct meeting *meeting;
    uint32_t rank, size;
};

static int gather(void *user, const void *mine, size_t bytes, void *all) {
    struct process *process = user;
    struct meeting *meeting = process->meeting;
    uint32_t other;
    if (bytes > ROOM) {
        return 1;
    }
    memcpy(meeting->parts[process->rank], mine, bytes);
    pthread_barrier_wait(&meeting->barrier);
    for (other = 0; other < process->size; other++) {
        memcpy((char *)all + other * bytes, meeting->parts[other], bytes);
    }
    pthread_barrier_wait(&meeting->barrier);
    return 0;
}

static int run(struct process *process) {
    farside_context_t world;
    farside_team_t team;
    uint32_t rank, size;
    uint64_t sum = 1;

    REQUIRE(farside_join_with(5, 5, gather, process, &world) == FARSIDE_ERROR_RANK);
    CHECK(farside_join_with(process->rank, process->size, gather, process, &world));
    CHECK(farside_rank(world, &rank));
    CHECK(farside_size(world, &size));
    REQUIRE(rank == process->rank && size == process->size);
    CHECK(farside_team_world(world, &team));
    CHECK(farside_all_reduce(team, &sum, &sum, 1, FARSIDE_U64, FARSIDE_SUM));
    REQUIRE(sum == size);
    CHECK(farside_leave(world));
    return 0;
}

int main(int argc, char **argv) {
    struct process process;
    pthread_barrierattr_t attribute;
    pid_t children[RANKS_MAX];
    uint32_t rank;
    int failed = 0;

    process.size = argc > 1 ? (uint32_t)atoi(argv[1]) : 2;
    REQUIRE(process.size > 0 && process.size <= RANKS_MAX);
    process.meeting = mmap(NULL, sizeof *process.meeting, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(process.meeting != MAP_FAILED);
    pthread_barrierattr_init(&attribute);
    pthread_barrierattr_setpshared(&attribute, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&process.meeting->barrier, &attribute, process.size);
    for (rank = 0; rank < process.size; rank++) {
        children[rank] = fork();
        REQUIRE(children[rank] >= 0);
        if (children[rank] == 0) {
            process.rank = rank;
            return run(&process);
        }
    }
    for (rank = 0; rank < process.size; rank++) {
        int status;
        waitpid(children[rank], &status, 0);
        failed |= status;
    }
    if (failed == 0) {
        printf("join_with: %u processes\n", (unsigned)process.size);
    }
    return failed != 0;
}
