/* The half that knows nothing of MPI, implemented in Rust (../src). Functions return 0, or the
 * class of an error of farside; farside_mpi_error_text says more of it. */
#ifndef FARSIDE_MPI_CORE_H
#define FARSIDE_MPI_CORE_H

#include <stddef.h>
#include <stdint.h>

/* The classes of errors that the border tells apart. */
enum {
    FARSIDE_RANK = 1,
    FARSIDE_BOUNDS = 2,
    FARSIDE_ARGUMENT = 4,
    FARSIDE_STATE = 5,
    FARSIDE_EPOCH = 6,
    FARSIDE_UNSUPPORTED = 8,
    FARSIDE_LOST = 10,
    FARSIDE_MEMORY = 13,
    FARSIDE_LIMIT = 14
};
const char *farside_mpi_error_text(void);

/* Start and end. */
struct farside_mpi_host {
    int rank, size;
    int has_threads;
    int (*gather)(const void *mine, size_t bytes, void *all);
    void (*progress)(void);
};
int farside_mpi_start(const struct farside_mpi_host *host);
int farside_mpi_finish(void);
int farside_mpi_node(void);
int farside_mpi_is_crowded(void);
void farside_mpi_allow_others(void);
int farside_mpi_reaches_all(const int *ranks, size_t count);
int farside_mpi_serve(void);

/* Memory of the job. */
int farside_mpi_take(uint64_t bytes, uint64_t align, void **block);
/* Where this rank's part of the heap lies, also after farside_mpi_finish. */
void farside_mpi_heap(const void **first, uint64_t *bytes);
int farside_mpi_give(const void *block);
int farside_mpi_offset(const void *address, uint64_t bytes, uint64_t *offset);
/* Null if loads and stores do not reach it. */
void *farside_mpi_address(int rank, uint64_t offset);

/* Communicators. */
struct farside_mpi_meeting {
    void *comm;
    int (*share)(void *comm, uint64_t *word);
    int (*least)(void *comm, uint64_t *word);
};
int farside_mpi_team(const int *ranks, size_t count, const struct farside_mpi_meeting *meeting,
                     void **team);
int farside_mpi_team_free(void *team);
/* Gives `bytes` bytes at `mine` to all members, and has those of all written to `all`. */
int farside_mpi_gather(void *team, const void *mine, size_t bytes, void *all);

/* Windows. */
enum { PART_OF_JOB, PART_OF_PROCESS };
struct farside_mpi_part {
    uint32_t rank, owner, kind, unit;
    uint64_t start, bytes;
};
int farside_mpi_window(void *team, const struct farside_mpi_part *parts, void **window);
/* The shortest way to a member's part, if there is but one thread. */
enum { IS_LOCKED = 1 };
struct farside_mpi_near {
    const void *part;       /* null if loads and stores do not reach it */
    int64_t unit;
    const uint8_t *open;    /* not zero while operations may begin at once; see IS_LOCKED */
};
int farside_mpi_window_near(const void *window, struct farside_mpi_near *near);
/* Completes what this process has put through any window; if it fails, the others still wait. */
int farside_mpi_window_complete(void *window);
/* Returns when all members have called it. */
int farside_mpi_window_meet(void *window);
/* After an error the window is gone, too; null in its place makes all calls on it fail. */
int farside_mpi_window_free(void *window);
int farside_mpi_window_is_idle(void *window);

/* Datatypes. */
struct farside_mpi_run {
    int64_t offset;
    uint64_t bytes;
};
struct farside_mpi_type {
    uint64_t size;
    int64_t extent;
    const struct farside_mpi_run *runs;
    uint64_t count;
    uint32_t number, number_bytes;
    int64_t first, last;    /* of the bytes of an element, the last one excluded */
    int64_t stride;         /* of runs that are equally long and equally far apart; else 0 */
    uint32_t is_flat;       /* elements lie one behind the other, without gaps */
};

/* Transfers. */
struct farside_mpi_buffer {
    void *base;
    const struct farside_mpi_type *type;
    uint64_t count;
};
struct farside_mpi_at {
    int member;
    int64_t displacement;
    const struct farside_mpi_type *type;
    uint64_t count;
};
int farside_mpi_put(void *window, const struct farside_mpi_buffer *from,
                    const struct farside_mpi_at *at);
/* A get that may last is over when the epoch ends, or after a flush. */
int farside_mpi_get(void *window, const struct farside_mpi_buffer *into,
                    const struct farside_mpi_at *at, int may_last);

/* What is returned by functions for near memory alone: the long way is to be gone. */
enum { NOT_NEAR = -1 };
int farside_mpi_put_near(const void *part, uint64_t offset, const void *from, uint64_t bytes);
int farside_mpi_get_near(const void *part, uint64_t offset, void *into, uint64_t bytes);

/* Numbers and operations, in the order of farside's codes; numbers from LONG_DOUBLE on are the
 * border's alone. */
enum number {
    NO_NUMBER,
    I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, C32, C64,
    I16_INDEX, I32_INDEX, I64_INDEX, F32_INDEX, F64_INDEX,
    LONG_DOUBLE, LONG_DOUBLE_COMPLEX, LONG_DOUBLE_INDEX, F32_PAIR, F64_PAIR,
    NUMBERS
};
enum operation {
    NO_OPERATION,
    SUM, PRODUCT, MIN, MAX, BITS_AND, BITS_OR, BITS_XOR, LOGICAL_AND, LOGICAL_OR, LOGICAL_XOR,
    MIN_LOC, MAX_LOC, REPLACE, NOTHING
};
struct farside_mpi_combination {
    uint32_t number, op;
    void (*fold)(uint32_t number, uint32_t op, void *into, const void *from, size_t count);
};
/* `result` is null if what was there before is not wanted. */
int farside_mpi_accumulate(void *window, const struct farside_mpi_buffer *from,
                           const struct farside_mpi_buffer *result,
                           const struct farside_mpi_at *at,
                           const struct farside_mpi_combination *combination);
int farside_mpi_accumulate_near(const void *window,
                                const struct farside_mpi_combination *combination,
                                const void *from, void *result, uint64_t bytes, int member,
                                int64_t displacement);
int farside_mpi_compare_and_swap_near(const void *window, const void *expected,
                                      const void *desired, void *result, uint64_t bytes,
                                      int member, int64_t displacement);
int farside_mpi_compare_and_swap(void *window, const void *expected, const void *desired,
                                 void *result, const struct farside_mpi_at *at);

/* Synchronization. */
int farside_mpi_lock(void *window, int target, int exclusive);
int farside_mpi_unlock(void *window, int target);
int farside_mpi_lock_all(void *window, int is_shared);
int farside_mpi_unlock_all(void *window);
int farside_mpi_flush(void *window, int target);
int farside_mpi_flush_near(const void *window, int target);    /* or NOT_NEAR */
int farside_mpi_flush_all(void *window);
int farside_mpi_flush_local(void *window, int target);
int farside_mpi_flush_local_all(void *window);
int farside_mpi_sync(void *window);
int farside_mpi_fence(void *window, int is_last);
int farside_mpi_post(void *window, const int *origins, size_t count);
int farside_mpi_begin(void *window, const int *targets, size_t count);
int farside_mpi_complete(void *window);
int farside_mpi_wait(void *window);
int farside_mpi_test(void *window, int *is_over);

#endif
