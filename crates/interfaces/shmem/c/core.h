/* What the typed interface stands on: one function for each idea, without types. Implemented in
 * Rust (../src). `call` is the name of the function that the program has called, for messages. */
#ifndef FARSIDE_SHMEM_CORE_H
#define FARSIDE_SHMEM_CORE_H

#include <stddef.h>
#include <stdint.h>
#include <shmem.h>

/* Where the program has called from (caller.c): whether to note it, the note, and the address that
 * this thread's last call of a name returns to, null if its last call was another one. */
void farside_shmem_want_callers(int wants);
void farside_shmem_note_caller(const char *call, void *address);
void *farside_shmem_caller(const char *call);

/* Set-up. */
int farside_shmem_init(int requested, int *provided, const char *call);
void farside_shmem_start_pes(const char *call);
void farside_shmem_finalize(const char *call);
_Noreturn void farside_shmem_global_exit(int status, const char *call);
int farside_shmem_my_pe(const char *call);
int farside_shmem_n_pes(const char *call);
int farside_shmem_query_thread(const char *call);
/* May be called at any time. */
int farside_shmem_is_initialized(void);
int farside_shmem_pe_accessible(int pe, const char *call);
int farside_shmem_addr_accessible(const void *address, int pe, const char *call);
void *farside_shmem_ptr(const void *dest, int pe, const char *call);

/* Memory. */
void *farside_shmem_malloc(size_t size, const char *call);
void *farside_shmem_calloc(size_t count, size_t size, const char *call);
void *farside_shmem_align(size_t alignment, size_t size, const char *call);
void *farside_shmem_realloc(void *block, size_t size, const char *call);
void farside_shmem_free(void *block, const char *call);

/* Contexts and teams. */
int farside_shmem_ctx_create(shmem_team_t team, long options, shmem_ctx_t *ctx, const char *call);
void farside_shmem_ctx_destroy(shmem_ctx_t ctx, const char *call);
int farside_shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team, const char *call);
int farside_shmem_team_my_pe(shmem_team_t team, const char *call);
int farside_shmem_team_n_pes(shmem_team_t team, const char *call);
int farside_shmem_team_contexts(shmem_team_t team, int *num_contexts, const char *call);
int farside_shmem_team_translate_pe(shmem_team_t source, int pe, shmem_team_t dest,
                                    const char *call);
int farside_shmem_team_split_strided(shmem_team_t parent, int start, int stride, int size,
                                     int num_contexts, shmem_team_t *team, const char *call);
int farside_shmem_team_split_2d(shmem_team_t parent, int xrange, int x_contexts,
                                shmem_team_t *x_team, int y_contexts, shmem_team_t *y_team,
                                const char *call);
void farside_shmem_team_destroy(shmem_team_t team, const char *call);

/* Transfers. Values of at most eight bytes travel in the low bytes of a word. */
void farside_shmem_put(shmem_ctx_t ctx, void *dest, const void *source, size_t bytes, int pe,
                       const char *call);
void farside_shmem_get(shmem_ctx_t ctx, void *dest, const void *source, size_t bytes, int pe,
                       const char *call);
void farside_shmem_put_nbi(shmem_ctx_t ctx, void *dest, const void *source, size_t bytes, int pe,
                           const char *call);
void farside_shmem_get_nbi(shmem_ctx_t ctx, void *dest, const void *source, size_t bytes, int pe,
                           const char *call);
void farside_shmem_put_value(shmem_ctx_t ctx, void *dest, uint64_t value, size_t bytes, int pe,
                             const char *call);
uint64_t farside_shmem_get_value(shmem_ctx_t ctx, const void *source, size_t bytes, int pe,
                                 const char *call);
/* Strides count elements. */
void farside_shmem_iput(shmem_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride,
                        ptrdiff_t source_stride, size_t nelems, size_t element, int pe,
                        const char *call);
void farside_shmem_iget(shmem_ctx_t ctx, void *dest, const void *source, ptrdiff_t dest_stride,
                        ptrdiff_t source_stride, size_t nelems, size_t element, int pe,
                        const char *call);
/* `signal_op` is SHMEM_SIGNAL_SET or SHMEM_SIGNAL_ADD. */
void farside_shmem_put_signal(shmem_ctx_t ctx, void *dest, const void *source, size_t bytes,
                              uint64_t *sig_addr, uint64_t signal, int signal_op, int pe,
                              const char *call);
void farside_shmem_put_signal_nbi(shmem_ctx_t ctx, void *dest, const void *source, size_t bytes,
                                  uint64_t *sig_addr, uint64_t signal, int signal_op, int pe,
                                  const char *call);

/* Atomics on words of four or eight bytes; operands and results in the low bytes. */
enum farside_shmem_atomic {
    FARSIDE_SHMEM_FETCH,
    FARSIDE_SHMEM_SWAP, /* also set */
    FARSIDE_SHMEM_COMPARE_SWAP,
    FARSIDE_SHMEM_ADD,
    FARSIDE_SHMEM_AND,
    FARSIDE_SHMEM_OR,
    FARSIDE_SHMEM_XOR
};
/* Returns what the word held before. `compare` is for compare-swap alone. */
uint64_t farside_shmem_atomic(shmem_ctx_t ctx, const void *dest, size_t bytes, int op,
                              uint64_t value, uint64_t compare, int pe, const char *call);
void farside_shmem_atomic_post(shmem_ctx_t ctx, void *dest, size_t bytes, int op, uint64_t value,
                               int pe, const char *call);
/* Writes what the word held before to `fetch`, which has room for `bytes`, by the next quiet. */
void farside_shmem_atomic_nbi(shmem_ctx_t ctx, void *fetch, const void *dest, size_t bytes, int op,
                              uint64_t value, uint64_t compare, int pe, const char *call);

/* Waiting and testing. Values are sign-extended or zero-extended to 64 bits, by the type. */
enum farside_shmem_word {
    FARSIDE_SHMEM_I16,
    FARSIDE_SHMEM_U16,
    FARSIDE_SHMEM_I32,
    FARSIDE_SHMEM_U32,
    FARSIDE_SHMEM_I64,
    FARSIDE_SHMEM_U64
};
/* Returns the value that satisfied the comparison. */
uint64_t farside_shmem_wait(const volatile void *ivar, int word, int cmp, uint64_t value,
                            const char *call);
int farside_shmem_test(const volatile void *ivar, int word, int cmp, uint64_t value,
                       const char *call);
/* A question about several words. `values` is one value of the word's type, or with `is_vector` one
 * for each word. */
struct farside_shmem_question {
    const volatile void *ivars;
    int word;
    size_t nelems;
    const int *status;
    int cmp;
    const void *values;
    int is_vector;
};
void farside_shmem_wait_all(const struct farside_shmem_question *question, const char *call);
size_t farside_shmem_wait_any(const struct farside_shmem_question *question, const char *call);
size_t farside_shmem_wait_some(const struct farside_shmem_question *question, size_t *indices,
                               const char *call);
int farside_shmem_test_all(const struct farside_shmem_question *question, const char *call);
size_t farside_shmem_test_any(const struct farside_shmem_question *question, const char *call);
size_t farside_shmem_test_some(const struct farside_shmem_question *question, size_t *indices,
                               const char *call);

/* Order. */
void farside_shmem_fence(shmem_ctx_t ctx, const char *call);
void farside_shmem_quiet(shmem_ctx_t ctx, const char *call);

/* Collectives, of a team, or of an active set if `psync` is not null. */
struct farside_shmem_group {
    shmem_team_t team;
    int start;
    int log_stride;
    int size;
    long *psync;
};
int farside_shmem_barrier(const struct farside_shmem_group *group, const char *call);
int farside_shmem_sync(const struct farside_shmem_group *group, const char *call);
/* Where the group is an active set, the root's `dest` is left alone. */
int farside_shmem_broadcast(const struct farside_shmem_group *group, void *dest,
                            const void *source, size_t bytes, int root, const char *call);
int farside_shmem_collect(const struct farside_shmem_group *group, void *dest, const void *source,
                          size_t bytes, const char *call);
int farside_shmem_fcollect(const struct farside_shmem_group *group, void *dest,
                           const void *source, size_t bytes, const char *call);
/* `bytes` go to each member. */
int farside_shmem_alltoall(const struct farside_shmem_group *group, void *dest,
                           const void *source, size_t bytes, const char *call);
int farside_shmem_alltoalls(const struct farside_shmem_group *group, void *dest,
                            const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
                            size_t nelems, size_t element, const char *call);
/* `fold` sets into[i] = into[i] op from[i]. */
typedef void farside_shmem_fold(void *into, const void *from, size_t nelems);
int farside_shmem_reduce(const struct farside_shmem_group *group, void *dest, const void *source,
                         size_t nelems, size_t element, farside_shmem_fold *fold,
                         const char *call);
/* Folds the sources of the members before this one, with its own if `is_inclusive`; of none, the
 * result is zero. */
int farside_shmem_scan(const struct farside_shmem_group *group, void *dest, const void *source,
                       size_t nelems, size_t element, farside_shmem_fold *fold, int is_inclusive,
                       const char *call);

/* Locks. */
void farside_shmem_set_lock(long *lock, const char *call);
int farside_shmem_test_lock(long *lock, const char *call);
void farside_shmem_clear_lock(long *lock, const char *call);

#endif
