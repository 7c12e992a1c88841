/* The C interface of farside: one-sided remote memory for parallel programs.
 *
 * Every function that returns int returns FARSIDE_OK, which is 0, or the code of an error, whose
 * text farside_error_text gives; names of codes come from farside_error_name. On an error, memory
 * that results are written to is untouched unless a function says otherwise. A context, and what
 * was made from it, is used by one thread at a time. Offsets and lengths are bytes.
 *
 * Generated from the sources by `cargo xtask header`. */

#ifndef FARSIDE_H
#define FARSIDE_H

#include <stddef.h>
#include <stdint.h>

/**
 * Success.
 */
#define FARSIDE_OK 0

/**
 * A rank, a node or a member that does not exist.
 */
#define FARSIDE_ERROR_RANK 1

/**
 * An access outside of the memory that it was meant for.
 */
#define FARSIDE_ERROR_BOUNDS 2

/**
 * Memory that was freed, or never allocated.
 */
#define FARSIDE_ERROR_SEGMENT 3

/**
 * An argument that makes no sense: a null pointer, a handle that was freed, an unknown code.
 */
#define FARSIDE_ERROR_ARGUMENT 4

/**
 * A call that the rules forbid at this moment.
 */
#define FARSIDE_ERROR_STATE 5

/**
 * A broken rule of epochs.
 */
#define FARSIDE_ERROR_EPOCH 6

/**
 * Ranks that came to one collective with different calls or arguments.
 */
#define FARSIDE_ERROR_DISAGREEMENT 7

/**
 * An operation that this machine or fabric cannot do.
 */
#define FARSIDE_ERROR_UNSUPPORTED 8

/**
 * A handler that is not registered, or that failed.
 */
#define FARSIDE_ERROR_HANDLER 9

/**
 * A rank that the call depends on has ended; farside_error_rank tells which.
 */
#define FARSIDE_ERROR_LOST 10

/**
 * A lock one of whose members was lost; farside_error_rank tells which.
 */
#define FARSIDE_ERROR_POISONED 11

/**
 * The time given for a wait has passed.
 */
#define FARSIDE_ERROR_TIMED_OUT 12

/**
 * Memory, or a store of fixed size, is used up.
 */
#define FARSIDE_ERROR_MEMORY 13

/**
 * A limit of the fabric or of the job was passed.
 */
#define FARSIDE_ERROR_LIMIT 14

/**
 * A variable, option, profile or list of hosts that makes no sense.
 */
#define FARSIDE_ERROR_SETTING 15

/**
 * A file that cannot be read or written.
 */
#define FARSIDE_ERROR_FILE 16

/**
 * A network, or its library, that does not do what it is needed for.
 */
#define FARSIDE_ERROR_NETWORK 17

/**
 * The operating system refused.
 */
#define FARSIDE_ERROR_SYSTEM 18

/**
 * The job that this process was started for is not there, or not what it should be.
 */
#define FARSIDE_ERROR_JOIN 19

/**
 * A failure that the program itself has found and returned.
 */
#define FARSIDE_ERROR_PROGRAM 20

/**
 * A state that cannot be: a defect of farside.
 */
#define FARSIDE_ERROR_INTERNAL 21

/**
 * In place of a rank: none.
 */
#define FARSIDE_NO_RANK UINT32_MAX

/**
 * A rank that has not joined yet.
 */
#define FARSIDE_STATE_STARTING 0

/**
 * A rank that is a member of the job.
 */
#define FARSIDE_STATE_ALIVE 1

/**
 * A rank that has left in order.
 */
#define FARSIDE_STATE_LEFT 2

/**
 * A rank that a signal ended, whose number is given.
 */
#define FARSIDE_STATE_SIGNALLED 3

/**
 * A rank that exited without leaving, with the status that is given.
 */
#define FARSIDE_STATE_EXITED 4

/**
 * A rank that failed in another way: it panicked or returned an error.
 */
#define FARSIDE_STATE_FAILED 5

/**
 * A rank that stopped answering.
 */
#define FARSIDE_STATE_SILENT 6

/**
 * A rank whose process ended without leaving, nobody knows how.
 */
#define FARSIDE_STATE_VANISHED 7

/**
 * In place of a colour: this member gets no team.
 */
#define FARSIDE_NO_COLOUR UINT64_MAX

/**
 * Reads the word.
 */
#define FARSIDE_ATOMIC_LOAD 0

/**
 * Writes the operand.
 */
#define FARSIDE_ATOMIC_STORE 1

/**
 * Adds the operand, wrapping.
 */
#define FARSIDE_ATOMIC_ADD 2

/**
 * Writes the operand and gives what the word held.
 */
#define FARSIDE_ATOMIC_SWAP 3

/**
 * Writes the operand if the word holds what it is compared with.
 */
#define FARSIDE_ATOMIC_COMPARE_SWAP 4

/**
 * Keeps the bits that the operand has too.
 */
#define FARSIDE_ATOMIC_AND 5

/**
 * Sets the operand's bits.
 */
#define FARSIDE_ATOMIC_OR 6

/**
 * Flips the operand's bits.
 */
#define FARSIDE_ATOMIC_XOR 7

/**
 * In place of a time limit: none.
 */
#define FARSIDE_FOREVER UINT64_MAX

/**
 * The word equals the value.
 */
#define FARSIDE_EQ 0

/**
 * The word differs from the value.
 */
#define FARSIDE_NE 1

/**
 * The word is greater than the value, both without sign.
 */
#define FARSIDE_GT 2

/**
 * The word is greater than the value or equals it, both without sign.
 */
#define FARSIDE_GE 3

/**
 * The word is less than the value, both without sign.
 */
#define FARSIDE_LT 4

/**
 * The word is less than the value or equals it, both without sign.
 */
#define FARSIDE_LE 5

/**
 * A signed integer of 32 bits.
 */
#define FARSIDE_I32 0

/**
 * A signed integer of 64 bits.
 */
#define FARSIDE_I64 1

/**
 * An unsigned integer of 32 bits.
 */
#define FARSIDE_U32 2

/**
 * An unsigned integer of 64 bits.
 */
#define FARSIDE_U64 3

/**
 * A floating-point number of 32 bits: float.
 */
#define FARSIDE_F32 4

/**
 * A floating-point number of 64 bits: double.
 */
#define FARSIDE_F64 5

/**
 * A complex number of two floats, the real part first.
 */
#define FARSIDE_C32 6

/**
 * A complex number of two doubles, the real part first.
 */
#define FARSIDE_C64 7

/**
 * A signed integer of 8 bits.
 */
#define FARSIDE_I8 8

/**
 * A signed integer of 16 bits.
 */
#define FARSIDE_I16 9

/**
 * An unsigned integer of 8 bits.
 */
#define FARSIDE_U8 10

/**
 * An unsigned integer of 16 bits.
 */
#define FARSIDE_U16 11

/**
 * A structure of an int16_t and an int32_t, its index. Accumulates only, as the following.
 */
#define FARSIDE_I16_INDEX 12

/**
 * A structure of an int32_t and an int32_t, its index.
 */
#define FARSIDE_I32_INDEX 13

/**
 * A structure of an int64_t and an int32_t, its index.
 */
#define FARSIDE_I64_INDEX 14

/**
 * A structure of a float and an int32_t, its index.
 */
#define FARSIDE_F32_INDEX 15

/**
 * A structure of a double and an int32_t, its index.
 */
#define FARSIDE_F64_INDEX 16

/**
 * The sum; integers wrap.
 */
#define FARSIDE_SUM 0

/**
 * The product; integers wrap.
 */
#define FARSIDE_PRODUCT 1

/**
 * The least. Complex numbers have none; of a number and a NaN it is the number.
 */
#define FARSIDE_MIN 2

/**
 * The greatest. Complex numbers have none; of a number and a NaN it is the number.
 */
#define FARSIDE_MAX 3

/**
 * The bits that both have. Integers only.
 */
#define FARSIDE_AND 4

/**
 * The bits that one of both has. Integers only.
 */
#define FARSIDE_OR 5

/**
 * The bits that only one of both has. Integers only.
 */
#define FARSIDE_XOR 6

/**
 * 1 if both are not zero, else 0. Accumulates of integers only.
 */
#define FARSIDE_LOGICAL_AND 7

/**
 * 1 if one of both is not zero, else 0. Accumulates of integers only.
 */
#define FARSIDE_LOGICAL_OR 8

/**
 * 1 if only one of both is not zero, else 0. Accumulates of integers only.
 */
#define FARSIDE_LOGICAL_XOR 9

/**
 * The structure with the lesser value, of equal values that with the lesser index. Accumulates of
 * values with an index only.
 */
#define FARSIDE_MIN_LOC 10

/**
 * The structure with the greater value, of equal values that with the lesser index. Accumulates of
 * values with an index only.
 */
#define FARSIDE_MAX_LOC 11

/**
 * What was sent. Accumulates only.
 */
#define FARSIDE_REPLACE 12

/**
 * What was there: nothing is sent. Accumulates only, for fetching.
 */
#define FARSIDE_NO_OP 13

/**
 * Origins lock a target by themselves, and operations are issued at once.
 */
#define FARSIDE_EPOCH_DIRECT 0

/**
 * Lock, operations and unlock go to the target in one message, which it serves in its own calls.
 */
#define FARSIDE_EPOCH_TWO_SIDED 1

/**
 * Others may have the lock in this mode at the same time.
 */
#define FARSIDE_SHARED 0

/**
 * No other origin has the lock.
 */
#define FARSIDE_EXCLUSIVE 1

/**
 * Adds, wrapping.
 */
#define FARSIDE_FETCH_SUM 0

/**
 * Writes.
 */
#define FARSIDE_FETCH_REPLACE 1

/**
 * Changes nothing.
 */
#define FARSIDE_FETCH_NO_OP 2

/**
 * Keeps the bits that the operand has too.
 */
#define FARSIDE_FETCH_AND 3

/**
 * Sets the operand's bits.
 */
#define FARSIDE_FETCH_OR 4

/**
 * Flips the operand's bits.
 */
#define FARSIDE_FETCH_XOR 5

/**
 * The longest reply of a handler, in bytes.
 */
#define FARSIDE_REPLY_BYTES_MAX (1 << 16)

/**
 * One thread's access to the job, with completions and an order of its own. What farside_join
 * gives is the context of the first thread; others take theirs with farside_context_create.
 */
typedef struct {
    /**
     * The number of the context; 0 is none.
     */
    uint64_t id;
} farside_context_t;

/**
 * Exchanges bytes among all processes of a job: gives the `bytes` bytes at `mine` to all, and
 * writes what all gave to `all`, one after the other by rank. All processes call it with the same
 * length, and it returns when all have called it. `user` is what farside_join_with was given. It
 * returns 0, or any other number if it failed.
 */
typedef int (*farside_all_gather_t)(void *user, const void *mine, size_t bytes, void *all);

/**
 * What a context has done to one rank, or to all together.
 */
typedef struct {
    /**
     * Puts of any shape.
     */
    uint64_t puts;
    /**
     * Bytes put.
     */
    uint64_t put_bytes;
    /**
     * Gets of any shape.
     */
    uint64_t gets;
    /**
     * Bytes gotten.
     */
    uint64_t get_bytes;
    /**
     * Accumulates of any shape.
     */
    uint64_t accumulates;
    /**
     * Bytes accumulated.
     */
    uint64_t accumulate_bytes;
    /**
     * Atomics, signals among them.
     */
    uint64_t atomics;
    /**
     * Calls of handlers.
     */
    uint64_t calls;
    /**
     * Waits that did not find their event at once, for whatever rank.
     */
    uint64_t waits;
} farside_counters_t;

/**
 * A subset of the ranks, with collectives of their own. Every member makes the same collective
 * calls in the same order, with the thread that has joined.
 */
typedef struct {
    /**
     * The number of the team; 0 is none.
     */
    uint64_t id;
} farside_team_t;

/**
 * Memory with a part on every member of a team, reached by rank and byte offset.
 */
typedef struct {
    /**
     * The number of the window; 0 is none.
     */
    uint64_t id;
} farside_window_t;

/**
 * The shape of a strided transfer: a block of any number of dimensions, of which the last varies
 * fastest.
 */
typedef struct {
    /**
     * The number of dimensions.
     */
    size_t dimensions;
    /**
     * The number of elements in each dimension.
     */
    const size_t *counts;
    /**
     * The bytes between neighbours of each dimension in memory of the caller.
     */
    const size_t *near_strides;
    /**
     * The bytes between neighbours of each dimension in the window.
     */
    const size_t *far_strides;
    /**
     * The bytes of one element, which are contiguous on both sides.
     */
    size_t element_bytes;
} farside_strides_t;

/**
 * One piece of a vector transfer.
 */
typedef struct {
    /**
     * Where it begins in memory of the caller.
     */
    void *memory;
    /**
     * Where it begins in the rank's part of the window, in bytes.
     */
    uint64_t offset;
    /**
     * Its length.
     */
    size_t bytes;
} farside_piece_t;

/**
 * Where farside_put_signal signals, and how.
 */
typedef struct {
    /**
     * The window of the word, which may be another one than that of the data.
     */
    farside_window_t window;
    /**
     * The word of 64 bits in the part of the same rank.
     */
    uint64_t offset;
    /**
     * FARSIDE_ATOMIC_STORE or FARSIDE_ATOMIC_ADD.
     */
    int operation;
    /**
     * The value that is stored or added.
     */
    uint64_t value;
} farside_signal_t;

/**
 * What a word of this rank's own memory must satisfy.
 */
typedef struct {
    /**
     * The window in whose own part the word is.
     */
    farside_window_t window;
    /**
     * Where the word of 64 bits is, in bytes.
     */
    uint64_t offset;
    /**
     * One of FARSIDE_EQ to FARSIDE_LE.
     */
    int comparison;
    /**
     * What the word is compared with.
     */
    uint64_t value;
} farside_condition_t;

/**
 * A transfer or a collective under way, until it was waited for or tested with success.
 */
typedef struct {
    /**
     * The number of the request; 0 is none.
     */
    uint64_t id;
} farside_request_t;

/**
 * An exclusive lock, or a semaphore, that the members of a team made together. Each rank uses its
 * handle with one thread at a time.
 */
typedef struct {
    /**
     * The number of the lock; 0 is none.
     */
    uint64_t id;
} farside_lock_t;

/**
 * A reader-writer lock that the members of a team made together. Each rank uses its handle with
 * one thread at a time.
 */
typedef struct {
    /**
     * The number of the lock; 0 is none.
     */
    uint64_t id;
} farside_rwlock_t;

/**
 * Memory with a part on every member of a team, whose operations are done in epochs and complete
 * when their epoch ends.
 */
typedef struct {
    /**
     * The number of the window; 0 is none.
     */
    uint64_t id;
} farside_epoch_t;

/**
 * A handler: is given who calls and the request, and writes a reply of `room` bytes at most to
 * `reply` and its length to `reply_bytes`, which is 0 before. It returns 0, or a number of its own
 * that the caller is told with FARSIDE_ERROR_HANDLER. It runs in a thread of its own, must not
 * block, and must not use a context: what it remembers is in memory of windows of its node.
 */
typedef int (*farside_handler_t)(void *user,
                                 uint32_t from,
                                 const void *request,
                                 size_t bytes,
                                 void *reply,
                                 size_t room,
                                 size_t *reply_bytes);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the text of this thread's last error: the value that was wrong and the way out. The
 * text is empty if there was none, and stays until the next call of this thread that fails.
 */
const char *farside_error_text(void);

/**
 * Returns the rank whose loss this thread's last error reports, or FARSIDE_NO_RANK if it reports
 * none.
 */
uint32_t farside_error_rank(void);

/**
 * Returns the name of a code, such as "FARSIDE_ERROR_LOST"; for any other number
 * "FARSIDE_ERROR_UNKNOWN".
 */
const char *farside_error_name(int code);

/**
 * Returns the version of the library, such as "0.1.0".
 */
const char *farside_version(void);

/**
 * Joins the job that this process was started for by `farside run`, `mpirun`, `mpiexec` or `srun`,
 * or, if it was started without a launcher, a job of one rank. A process joins once.
 */
int farside_join(farside_context_t *world);

/**
 * Joins a job whose processes another runtime has started, as `rank` of `size`. What the processes
 * have to tell each other they exchange with `gather`, which is called with `user` and is not used
 * any more when the call returns. All processes call it.
 */
int farside_join_with(uint32_t rank,
                      uint32_t size,
                      farside_all_gather_t gather,
                      void *user,
                      farside_context_t *world);

/**
 * Leaves the job in order. Windows, teams and locks that were not freed go with it. A process that
 * ends without leaving counts as lost, and the ranks that need it get FARSIDE_ERROR_LOST. It is an
 * error if a lock is held, a window with epochs is not freed, or a started collective is not
 * waited for.
 */
int farside_leave(farside_context_t world);

/**
 * Ends this process at once with `status`, without leaving the job: the other ranks are told that
 * it is lost, and `farside run` ends them unless it was told to keep going. It returns only if
 * there is no such context.
 */
int farside_abort(farside_context_t world, int status);

/**
 * Makes a context for another thread of this rank.
 */
int farside_context_create(farside_context_t context, farside_context_t *created);

/**
 * Frees a context that farside_context_create has made. What was put through it and not flushed
 * may be lost.
 */
int farside_context_free(farside_context_t context);

/**
 * Gives this rank's number.
 */
int farside_rank(farside_context_t context, uint32_t *rank);

/**
 * Gives the number of ranks of the job.
 */
int farside_size(farside_context_t context, uint32_t *size);

/**
 * Gives the number of nodes of the job.
 */
int farside_nodes(farside_context_t context, uint32_t *nodes);

/**
 * Gives the node that a rank is on.
 */
int farside_node_of(farside_context_t context, uint32_t rank, uint32_t *node);

/**
 * Gives 1 if a rank is on this rank's node, so that loads and stores may reach its windows; else
 * 0.
 */
int farside_is_near(farside_context_t context, uint32_t rank, int *is_near);

/**
 * Gives the time in nanoseconds, for measuring: since some moment that all ranks of a node share.
 */
int farside_clock(farside_context_t context, uint64_t *ns);

/**
 * Gives what a context has done to a rank so far, or to all together for FARSIDE_NO_RANK.
 */
int farside_counters(farside_context_t context, uint32_t rank, farside_counters_t *counters);

/**
 * Gives the number of ranks that were lost, and writes as many of them to `ranks` as there is
 * `room` for, in the order of their numbers. `ranks` may be null if `room` is 0.
 */
int farside_lost(farside_context_t context, uint32_t *ranks, size_t room, size_t *count);

/**
 * Gives the state of a rank, one of FARSIDE_STATE_..., and the signal or the exit status that
 * belongs to it, else 0. `number` may be null.
 */
int farside_peer_state(farside_context_t context, uint32_t rank, int *state, int *number);

/**
 * Gives the team of all ranks of the job.
 */
int farside_team_world(farside_context_t world, farside_team_t *team);

/**
 * Splits a team: members with the same `colour` form a new team, ordered by `key`, then by rank. A
 * member whose colour is FARSIDE_NO_COLOUR gets the team 0, which is none. Collective.
 */
int farside_team_split(farside_team_t team, uint64_t colour, uint64_t key, farside_team_t *part);

/**
 * Splits a team into those of its members that share a node. Collective.
 */
int farside_team_split_by_node(farside_team_t team, farside_team_t *part);

/**
 * Gives the number of members.
 */
int farside_team_size(farside_team_t team, uint32_t *size);

/**
 * Gives which of the members this rank is, from 0.
 */
int farside_team_index(farside_team_t team, uint32_t *index);

/**
 * Gives the number of members, and writes as many of their ranks to `ranks` as there is `room`
 * for, in the order of the team. `ranks` may be null if `room` is 0.
 */
int farside_team_members(farside_team_t team, uint32_t *ranks, size_t room, size_t *count);

/**
 * Frees a team. Of one that was made by a split that is collective, and its windows, locks and
 * started collectives must be freed before. Whatever it returns, except FARSIDE_ERROR_STATE, the
 * handle is not valid any more.
 */
int farside_team_free(farside_team_t team);

/**
 * Returns when every member has called it. It says nothing about puts: see farside_sync.
 */
int farside_barrier(farside_team_t team);

/**
 * Returns when every member has called it and all that any member has put before, to any rank, has
 * landed.
 */
int farside_sync(farside_team_t team);

/**
 * Allocates `bytes` on this member; the others may choose other lengths. Fresh memory is zero and
 * begins at a page. Collective.
 */
int farside_window_allocate(farside_team_t team, size_t bytes, farside_window_t *window);

/**
 * Makes a window of memory that the caller has: `bytes` from `memory` on, of this member; the
 * others may attach other lengths. Offset 0 is its first byte, and its contents stay. Collective.
 *
 * Whole pages are shared, with what else is in them. Two windows must not have a page in common,
 * the memory must not be on the stack, no other thread may write to its pages during the call, and
 * it must not be freed before the window is.
 */
int farside_window_attach(farside_team_t team,
                          void *memory,
                          size_t bytes,
                          farside_window_t *window);

/**
 * Frees a window. Collective over the team that allocated it. Pointers into it dangle afterwards;
 * memory that the caller attached is the caller's alone again, with its contents.
 * Whatever it returns, the handle is not valid any more, unless it is of another team.
 */
int farside_window_free(farside_team_t team, farside_window_t window);

/**
 * Gives the address of this rank's own part.
 */
int farside_window_base(farside_window_t window, void **base);

/**
 * Gives the length of a rank's part in bytes.
 */
int farside_window_bytes(farside_window_t window, uint32_t rank, size_t *bytes);

/**
 * Gives the address of a rank's part in this process, or null if loads and stores do not reach it.
 */
int farside_window_pointer(farside_window_t window, uint32_t rank, void **pointer);

/**
 * Writes `bytes` bytes of `data` to a rank's part of a window, from `offset` on. Returns as soon
 * as `data` may be reused; farside_flush tells when the bytes have landed.
 */
int farside_put(farside_context_t context,
                farside_window_t window,
                uint32_t rank,
                uint64_t offset,
                const void *data,
                size_t bytes);

/**
 * Reads `bytes` bytes of a rank's part of a window, from `offset` on, into `into`.
 */
int farside_get(farside_context_t context,
                farside_window_t window,
                uint32_t rank,
                uint64_t offset,
                void *into,
                size_t bytes);

/**
 * Starts a farside_put. `data` must not be changed before the next farside_flush of the rank,
 * farside_flush_all or farside_sync of the same context.
 */
int farside_put_nbi(farside_context_t context,
                    farside_window_t window,
                    uint32_t rank,
                    uint64_t offset,
                    const void *data,
                    size_t bytes);

/**
 * Starts a farside_get. The bytes are there, and `into` may be touched, after the next
 * farside_flush of the rank, farside_flush_all or farside_sync of the same context.
 */
int farside_get_nbi(farside_context_t context,
                    farside_window_t window,
                    uint32_t rank,
                    uint64_t offset,
                    void *into,
                    size_t bytes);

/**
 * Writes a block of memory of the caller to a block of a rank's part of a window: like farside_put
 * for all of its elements.
 */
int farside_put_strided(farside_context_t context,
                        farside_window_t window,
                        uint32_t rank,
                        uint64_t offset,
                        const void *data,
                        const farside_strides_t *strides);

/**
 * Reads a block of a rank's part of a window into a block of memory of the caller.
 */
int farside_get_strided(farside_context_t context,
                        farside_window_t window,
                        uint32_t rank,
                        uint64_t offset,
                        void *into,
                        const farside_strides_t *strides);

/**
 * Writes pieces of memory of the caller to pieces of a rank's part of a window, in one operation.
 */
int farside_put_vector(farside_context_t context,
                       farside_window_t window,
                       uint32_t rank,
                       const farside_piece_t *pieces,
                       size_t count);

/**
 * Reads pieces of a rank's part of a window into pieces of memory of the caller, in one operation.
 */
int farside_get_vector(farside_context_t context,
                       farside_window_t window,
                       uint32_t rank,
                       const farside_piece_t *pieces,
                       size_t count);

/**
 * Does what farside_put does and then, when the bytes are there, stores or adds a value to a word
 * of the same rank, which wakes a rank that waits for it.
 */
int farside_put_signal(farside_context_t context,
                       farside_window_t window,
                       uint32_t rank,
                       uint64_t offset,
                       const void *data,
                       size_t bytes,
                       const farside_signal_t *signal);

/**
 * Combines `count` elements of `data` with those of a rank's part of a window, from `offset` on;
 * accumulates on the same elements do not disturb each other. `number` is their kind, one of
 * FARSIDE_I32 to FARSIDE_F64_INDEX, `operation` one of FARSIDE_SUM to FARSIDE_NO_OP that they have
 * (else FARSIDE_ERROR_UNSUPPORTED), and a sum may multiply the elements of `data` by `scale`; NULL
 * is one. Returns as soon as `data` may be reused.
 */
int farside_accumulate(farside_context_t context,
                       farside_window_t window,
                       uint32_t rank,
                       uint64_t offset,
                       const void *data,
                       size_t count,
                       int number,
                       int operation,
                       const void *scale);

/**
 * Does a farside_accumulate, and writes what the elements were before to `old`: each is read and
 * changed in one step. For FARSIDE_NO_OP, `data` may be NULL.
 */
int farside_get_accumulate(farside_context_t context,
                           farside_window_t window,
                           uint32_t rank,
                           uint64_t offset,
                           const void *data,
                           void *old,
                           size_t count,
                           int number,
                           int operation);

/**
 * Orders puts: what this context put before lands ahead of what it puts, signals, accumulates or
 * does atomically at the same rank afterwards.
 */
int farside_fence(farside_context_t context);

/**
 * Returns when all that this context put to `rank` has landed there, and what it got from it by
 * farside_get_nbi is here.
 */
int farside_flush(farside_context_t context, uint32_t rank);

/**
 * Returns when all that this context put to any rank has landed there, and what it got by
 * farside_get_nbi is here.
 */
int farside_flush_all(farside_context_t context);

/**
 * Executes an atomic, one of FARSIDE_ATOMIC_..., on the word of `bits` bits at `offset` of a
 * rank's part of a window. Words of 32 and 64 bits have all operations; those of 128 bits, whose
 * low half comes first, are loaded, stored, swapped and compared only. `operand`, `compare` and
 * `result` point to words of that width: the operand of all but a load, what a compare-and-swap
 * compares with, and where to write what the word held before, which may be null. Ranks that wait
 * for the word are woken.
 */
int farside_atomic(farside_context_t context,
                   farside_window_t window,
                   uint32_t rank,
                   uint64_t offset,
                   int bits,
                   int operation,
                   const void *operand,
                   const void *compare,
                   void *result);

/**
 * Adds to a word of 64 bits, wrapping, and gives what it held before. `held` may be null.
 */
int farside_fetch_add(farside_context_t context,
                      farside_window_t window,
                      uint32_t rank,
                      uint64_t offset,
                      uint64_t value,
                      uint64_t *held);

/**
 * Writes `desired` to a word of 64 bits if it holds `expected`, and gives what it held before,
 * which is `expected` if it was written.
 */
int farside_compare_swap(farside_context_t context,
                         farside_window_t window,
                         uint32_t rank,
                         uint64_t offset,
                         uint64_t expected,
                         uint64_t desired,
                         uint64_t *held);

/**
 * Writes a word of 64 bits, and gives what it held before.
 */
int farside_swap(farside_context_t context,
                 farside_window_t window,
                 uint32_t rank,
                 uint64_t offset,
                 uint64_t value,
                 uint64_t *held);

/**
 * Reads a word of 64 bits atomically.
 */
int farside_load(farside_context_t context,
                 farside_window_t window,
                 uint32_t rank,
                 uint64_t offset,
                 uint64_t *value);

/**
 * Writes a word of 64 bits atomically, and wakes a rank that waits for it. Returns when it has
 * landed.
 */
int farside_store(farside_context_t context,
                  farside_window_t window,
                  uint32_t rank,
                  uint64_t offset,
                  uint64_t value);

/**
 * Posts a farside_store: it lands later, in order with what was put before only if a fence stands
 * between.
 */
int farside_signal(farside_context_t context,
                   farside_window_t window,
                   uint32_t rank,
                   uint64_t offset,
                   uint64_t value);

/**
 * Posts an addition to a word of 64 bits: it has landed after a flush.
 */
int farside_post_add(farside_context_t context,
                     farside_window_t window,
                     uint32_t rank,
                     uint64_t offset,
                     uint64_t value);

/**
 * Posts that a word of 64 bits keeps the bits that `value` has too: it has landed after a flush.
 */
int farside_post_and(farside_context_t context,
                     farside_window_t window,
                     uint32_t rank,
                     uint64_t offset,
                     uint64_t value);

/**
 * Posts that the bits of `value` are set in a word of 64 bits: it has landed after a flush.
 */
int farside_post_or(farside_context_t context,
                    farside_window_t window,
                    uint32_t rank,
                    uint64_t offset,
                    uint64_t value);

/**
 * Posts that the bits of `value` are flipped in a word of 64 bits: it has landed after a flush.
 */
int farside_post_xor(farside_context_t context,
                     farside_window_t window,
                     uint32_t rank,
                     uint64_t offset,
                     uint64_t value);

/**
 * Waits until the word of `bits` bits, 32 or 64, at `offset` of this rank's own part of a window
 * satisfies a comparison with `value`, for at most `timeout_ns` nanoseconds or FARSIDE_FOREVER,
 * and gives what it held then; `seen` may be null. Atomics and signals wake the rank; a plain put
 * to the word need not be noticed. Fails with FARSIDE_ERROR_LOST if a rank was lost, since it
 * might have been the one to signal.
 */
int farside_wait(farside_context_t context,
                 farside_window_t window,
                 uint64_t offset,
                 int bits,
                 int comparison,
                 uint64_t value,
                 uint64_t timeout_ns,
                 uint64_t *seen);

/**
 * Gives 1 if farside_wait would return at once, else 0, and what the word holds; `seen` may be
 * null.
 */
int farside_test(farside_context_t context,
                 farside_window_t window,
                 uint64_t offset,
                 int bits,
                 int comparison,
                 uint64_t value,
                 int *holds,
                 uint64_t *seen);

/**
 * Waits until one of `count` words of 64 bits of this rank's own memory satisfies its condition,
 * and gives which and what it held; `seen` may be null. See farside_wait.
 */
int farside_wait_any(farside_context_t context,
                     const farside_condition_t *conditions,
                     size_t count,
                     uint64_t timeout_ns,
                     size_t *which,
                     uint64_t *seen);

/**
 * Stands in a loop that polls memory of another rank: lets other ranks run, and fails with
 * FARSIDE_ERROR_LOST once a rank was lost.
 */
int farside_relax(farside_context_t context);

/**
 * Starts a farside_put. When the request is complete `data` may be changed; the bytes have landed
 * after a flush.
 */
int farside_put_request(farside_context_t context,
                        farside_window_t window,
                        uint32_t rank,
                        uint64_t offset,
                        const void *data,
                        size_t bytes,
                        farside_request_t *request);

/**
 * Starts a farside_get. The bytes are there, and `into` may be touched, when the request is
 * complete.
 */
int farside_get_request(farside_context_t context,
                        farside_window_t window,
                        uint32_t rank,
                        uint64_t offset,
                        void *into,
                        size_t bytes,
                        farside_request_t *request);

/**
 * Starts a farside_get_accumulate. `data` may be changed when the call returns; what was there is
 * in `old`, which may be touched, when the request is complete.
 */
int farside_get_accumulate_request(farside_context_t context,
                                   farside_window_t window,
                                   uint32_t rank,
                                   uint64_t offset,
                                   const void *data,
                                   void *old,
                                   size_t count,
                                   int number,
                                   int operation,
                                   farside_request_t *request);

/**
 * Starts a barrier: the request is complete when all members have started it. Between times any
 * other operation or collective may be made. A team can have 8 started collectives that were not
 * waited for.
 */
int farside_barrier_nb(farside_team_t team, farside_request_t *request);

/**
 * Starts a farside_all_reduce of 4 KiB at most. `send` may be changed when the call returns;
 * `receive` must stay until the request is complete, and holds the result then.
 */
int farside_all_reduce_nb(farside_team_t team,
                          const void *send,
                          void *receive,
                          size_t count,
                          int number,
                          int operation,
                          farside_request_t *request);

/**
 * Gives 1 if a request is complete, else 0, without waiting. Once it is complete, and after an
 * error, the request is not valid any more.
 */
int farside_request_test(farside_request_t request, int *is_complete);

/**
 * Waits until a request is complete. Whatever it returns, the request is not valid any more, and
 * its memory is the caller's again.
 */
int farside_request_wait(farside_request_t request);

/**
 * Waits until `count` requests are complete, all of them also after one has failed, and returns
 * the first error.
 */
int farside_request_wait_all(const farside_request_t *requests, size_t count);

/**
 * Gives every member a copy of the `bytes` bytes that the member `root`, a rank of the job, has
 * at `data`.
 */
int farside_broadcast(farside_team_t team, uint32_t root, void *data, size_t bytes);

/**
 * Folds all members' `count` numbers of `send`, element by element, with `operation`, one of
 * FARSIDE_SUM to FARSIDE_XOR, and writes the result to `receive` of the member `root`, a rank of
 * the job. The others' `receive` is not touched and may be null. `number` is one of FARSIDE_I32 to
 * FARSIDE_C64. `receive` may be `send`.
 */
int farside_reduce(farside_team_t team,
                   uint32_t root,
                   const void *send,
                   void *receive,
                   size_t count,
                   int number,
                   int operation);

/**
 * Folds all members' `count` numbers of `send`, element by element, and writes the same result,
 * bit by bit, to `receive` of every member. `receive` may be `send`. See farside_reduce.
 */
int farside_all_reduce(farside_team_t team,
                       const void *send,
                       void *receive,
                       size_t count,
                       int number,
                       int operation);

/**
 * Writes the fold, element by element, of the numbers of all members up to and including this one,
 * in the order of the team, to `receive`. `receive` may be `send`. See farside_reduce.
 */
int farside_scan(farside_team_t team,
                 const void *send,
                 void *receive,
                 size_t count,
                 int number,
                 int operation);

/**
 * Writes the fold, element by element, of the numbers of all members before this one, in the order
 * of the team, to `receive`; the first member gets the number that the operation leaves all others
 * as they are with, such as 0 for a sum. `receive` may be `send`. See farside_reduce.
 */
int farside_exclusive_scan(farside_team_t team,
                           const void *send,
                           void *receive,
                           size_t count,
                           int number,
                           int operation);

/**
 * Writes every member's `bytes` bytes of `send` to `receive` of all, one after the other in the
 * order of the team. All send the same length.
 */
int farside_all_gather(farside_team_t team, const void *send, size_t bytes, void *receive);

/**
 * Sends the i-th block of `bytes` bytes of `send` to the i-th member, and writes what the members
 * sent here to `receive`, in their order. All send the same length.
 */
int farside_all_to_all(farside_team_t team, const void *send, size_t bytes, void *receive);

/**
 * Sends parts of any lengths: the i-th member gets `send_bytes[i]` bytes of `send`, whose parts
 * lie one after the other. What the members sent here is written to `receive`, one after the other
 * in their order, and how much each has sent to `receive_bytes`. If that is more than there is
 * `room` for, the call fails with FARSIDE_ERROR_BOUNDS after `receive_bytes` was written, and the
 * data is lost.
 */
int farside_all_to_all_v(farside_team_t team,
                         const void *send,
                         const size_t *send_bytes,
                         void *receive,
                         size_t room,
                         size_t *receive_bytes);

/**
 * Makes an exclusive lock for the members of a team. What they share of it lies in the memory of
 * the member `home`, a rank of the job. `kind` names the algorithm, such as "rma-mcs" or "ticket";
 * null is the fastest that is known for these members. Collective.
 */
int farside_lock_create(farside_team_t team, uint32_t home, const char *kind, farside_lock_t *lock);

/**
 * Makes a semaphore for the members of a team: a lock that as many ranks have at a time as it has
 * permits, in the order in which they came. It is used like any lock. Collective.
 */
int farside_semaphore_create(farside_team_t team,
                             uint32_t home,
                             uint32_t permits,
                             farside_lock_t *semaphore);

/**
 * Waits until this rank has a lock, for at most `timeout_ns` nanoseconds or FARSIDE_FOREVER; with
 * 0 it takes the lock only if it is free. Then FARSIDE_ERROR_TIMED_OUT. What was put under the
 * lock by the context that releases it has landed when the next rank has the lock. The loss of a
 * member poisons the lock: FARSIDE_ERROR_POISONED until farside_lock_recover.
 */
int farside_lock_acquire(farside_context_t context, farside_lock_t lock, uint64_t timeout_ns);

/**
 * Releases a lock that this rank has. Whatever it returns, the rank does not have it any more.
 */
int farside_lock_release(farside_lock_t lock);

/**
 * Makes a poisoned lock free and usable again. Collective over `survivors`, a team of members that
 * are all alive and that was made before the loss; they are its members from then on.
 */
int farside_lock_recover(farside_lock_t lock, farside_team_t survivors);

/**
 * Frees a lock. Collective over the team that made it. Whatever it returns, except
 * FARSIDE_ERROR_STATE because this rank has it, the handle is not valid any more.
 */
int farside_lock_free(farside_team_t team, farside_lock_t lock);

/**
 * Makes a reader-writer lock for the members of a team. `kind` names the algorithm, such as
 * "rma-rw"; null is the fastest that is known for these members. See farside_lock_create.
 * Collective.
 */
int farside_rwlock_create(farside_team_t team,
                          uint32_t home,
                          const char *kind,
                          farside_rwlock_t *lock);

/**
 * Waits until this rank may read: others may read at the same time, and no rank writes. See
 * farside_lock_acquire for the time limit and for losses.
 */
int farside_rwlock_read(farside_context_t context, farside_rwlock_t lock, uint64_t timeout_ns);

/**
 * Waits until this rank may write: no other rank reads or writes. See farside_lock_acquire for the
 * time limit and for losses.
 */
int farside_rwlock_write(farside_context_t context, farside_rwlock_t lock, uint64_t timeout_ns);

/**
 * Ends the reading or writing of this rank. Whatever it returns, the rank does not have the lock
 * any more.
 */
int farside_rwlock_release(farside_rwlock_t lock);

/**
 * Makes a poisoned lock free and usable again. See farside_lock_recover.
 */
int farside_rwlock_recover(farside_rwlock_t lock, farside_team_t survivors);

/**
 * Frees a lock. See farside_lock_free.
 */
int farside_rwlock_free(farside_team_t team, farside_rwlock_t lock);

/**
 * Allocates a window with epochs: `bytes` on this member, all zero, displacements to which count
 * `unit` bytes. `design` is FARSIDE_EPOCH_DIRECT or FARSIDE_EPOCH_TWO_SIDED, the same on all
 * members. The rules of epochs are checked: a call that breaks one returns FARSIDE_ERROR_EPOCH.
 * Collective.
 */
int farside_epoch_allocate(farside_team_t team,
                           size_t bytes,
                           size_t unit,
                           int design,
                           farside_epoch_t *epoch);

/**
 * Frees a window with epochs, all of which must be over. Collective. Whatever it returns, the
 * handle is not valid any more.
 */
int farside_epoch_free(farside_epoch_t epoch);

/**
 * Ends the fence epoch before it, if there is one, and begins another: whatever any member did in
 * the epoch before is complete everywhere. Collective.
 */
int farside_epoch_fence(farside_epoch_t epoch);

/**
 * Ends the fence epoch before it, and begins none. Collective.
 */
int farside_epoch_last_fence(farside_epoch_t epoch);

/**
 * Begins an exposure epoch of this rank's own part for `count` origins.
 */
int farside_epoch_post(farside_epoch_t epoch, const uint32_t *origins, size_t count);

/**
 * Begins an access epoch to `count` targets; returns when they have posted theirs.
 */
int farside_epoch_start(farside_epoch_t epoch, const uint32_t *targets, size_t count);

/**
 * Ends the access epoch of farside_epoch_start.
 */
int farside_epoch_complete(farside_epoch_t epoch);

/**
 * Ends the exposure epoch of farside_epoch_post: returns when its origins have completed.
 */
int farside_epoch_wait(farside_epoch_t epoch);

/**
 * Gives 1 if farside_epoch_wait would return at once, and ends the exposure epoch then; else 0.
 */
int farside_epoch_test(farside_epoch_t epoch, int *is_over);

/**
 * Begins a passive access epoch to one target; `mode` is FARSIDE_SHARED or FARSIDE_EXCLUSIVE.
 */
int farside_epoch_lock(farside_epoch_t epoch, uint32_t target, int mode);

/**
 * Ends a passive access epoch: all its operations are complete, here and at the target.
 */
int farside_epoch_unlock(farside_epoch_t epoch, uint32_t target);

/**
 * Begins a passive access epoch to all members, in shared mode. Not collective.
 */
int farside_epoch_lock_all(farside_epoch_t epoch);

/**
 * Ends an epoch of farside_epoch_lock_all.
 */
int farside_epoch_unlock_all(farside_epoch_t epoch);

/**
 * Within a passive epoch: all operations on a target are complete, here and there.
 */
int farside_epoch_flush(farside_epoch_t epoch, uint32_t target);

/**
 * Within a passive epoch: all operations on all targets that are locked are complete, here and
 * there.
 */
int farside_epoch_flush_all(farside_epoch_t epoch);

/**
 * Makes what this rank has written to its own part visible, and what others have written visible
 * to it; serves others where the design needs it.
 */
int farside_epoch_sync(farside_epoch_t epoch);

/**
 * Returns when every member has called it; serves others meanwhile, where the design needs it.
 */
int farside_epoch_barrier(farside_epoch_t epoch);

/**
 * Writes `bytes` bytes of `data` to a target, from displacement `at` on. `data` may be reused at
 * once; it has landed when the epoch ends, or after a flush.
 */
int farside_epoch_put(farside_epoch_t epoch,
                      uint32_t target,
                      uint64_t at,
                      const void *data,
                      size_t bytes);

/**
 * Reads `bytes` bytes of a target, from displacement `at` on, into `into`. Returns when they are
 * there.
 */
int farside_epoch_get(farside_epoch_t epoch,
                      uint32_t target,
                      uint64_t at,
                      void *into,
                      size_t bytes);

/**
 * Combines `count` elements of `data` with those of a target, from displacement `at` on. See
 * farside_accumulate.
 */
int farside_epoch_accumulate(farside_epoch_t epoch,
                             uint32_t target,
                             uint64_t at,
                             const void *data,
                             size_t count,
                             int number,
                             int operation,
                             const void *scale);

/**
 * Does a farside_epoch_accumulate, and writes what the elements were before to `old`. See
 * farside_get_accumulate.
 */
int farside_epoch_get_accumulate(farside_epoch_t epoch,
                                 uint32_t target,
                                 uint64_t at,
                                 const void *data,
                                 void *old,
                                 size_t count,
                                 int number,
                                 int operation);

/**
 * Changes one word of 64 bits of a target by FARSIDE_FETCH_SUM to FARSIDE_FETCH_XOR, and gives
 * what it held before.
 */
int farside_epoch_fetch_op(farside_epoch_t epoch,
                           uint32_t target,
                           uint64_t at,
                           int operation,
                           uint64_t value,
                           uint64_t *held);

/**
 * Writes `desired` to a word of 64 bits of a target if it holds `expected`, and gives what it held
 * before.
 */
int farside_epoch_compare_swap(farside_epoch_t epoch,
                               uint32_t target,
                               uint64_t at,
                               uint64_t expected,
                               uint64_t desired,
                               uint64_t *held);

/**
 * Reads this rank's own part by itself, from displacement `at` on.
 */
int farside_epoch_read_own(farside_epoch_t epoch, uint64_t at, void *into, size_t bytes);

/**
 * Writes this rank's own part by itself, from displacement `at` on.
 */
int farside_epoch_write_own(farside_epoch_t epoch, uint64_t at, const void *data, size_t bytes);

/**
 * Registers a handler with every node, and gives its number. Collective over all ranks: all
 * register the same handlers in the same order. A node runs one handler at a time, in the process
 * of one of its ranks, with that rank's `user`.
 */
int farside_serve(farside_context_t world, farside_handler_t handler, void *user, uint32_t *number);

/**
 * Has a node run a handler, and waits for its reply, which is written to `reply`, and its length
 * to `reply_bytes`, which may be null. The handler is told that there is `room` for it.
 */
int farside_call(farside_context_t context,
                 uint32_t node,
                 uint32_t number,
                 const void *request,
                 size_t bytes,
                 void *reply,
                 size_t room,
                 size_t *reply_bytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FARSIDE_H */
