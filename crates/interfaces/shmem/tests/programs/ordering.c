/* fence and quiet: what a PE sees that has seen a flag. */
#define _GNU_SOURCE /* for processors */
#include "check.h"
#include <sched.h>
#include <time.h>

enum { WORDS = 600, ROUNDS = 40 };

typedef struct {
    uint64_t data[MAX_PES][WORDS];
    uint64_t flag[MAX_PES];
    uint64_t acknowledged[MAX_PES];
} mailbox;

static mailbox static_box;
static shmem_ctx_t ctx;

enum { FENCE, QUIET, CTX_FENCE, CTX_QUIET, NBI_FENCE, NBI_QUIET, WAYS };

/* Sends `round` to a PE: data, then order, then the flag. */
static void send(mailbox *box, int way, uint64_t round, int pe)
{
    static uint64_t own[ROUNDS * WAYS * 4 + 1][WORDS / 100];
    uint64_t *piece = own[round % (ROUNDS * WAYS * 4 + 1)];
    enum { PIECE = WORDS / 100 };
    for (int i = 0; i < PIECE; i++)
        piece[i] = round * 1000 + (uint64_t)me;
    for (int i = 0; i < WORDS; i += PIECE) {
        if (way == CTX_FENCE || way == CTX_QUIET)
            shmem_ctx_put64(ctx, &box->data[me][i], piece, PIECE, pe);
        else if (way == NBI_FENCE || way == NBI_QUIET)
            shmem_put64_nbi(&box->data[me][i], piece, PIECE, pe);
        else
            shmem_put64(&box->data[me][i], piece, PIECE, pe);
    }
    switch (way) {
    case FENCE:
    case NBI_FENCE:
        shmem_fence();
        break;
    case QUIET:
    case NBI_QUIET:
        shmem_quiet();
        break;
    case CTX_FENCE:
        shmem_ctx_fence(ctx);
        break;
    default:
        shmem_ctx_quiet(ctx);
    }
    if (way == CTX_FENCE)
        shmem_ctx_uint64_p(ctx, &box->flag[me], round, pe);
    else if (round % 2)
        shmem_uint64_atomic_set(&box->flag[me], round, pe);
    else
        shmem_uint64_p(&box->flag[me], round, pe);
}

/* Waits for `round` of a PE, checks that the data came before, and says so. */
static void receive(mailbox *box, uint64_t round, int pe)
{
    shmem_uint64_wait_until(&box->flag[pe], SHMEM_CMP_EQ, round);
    for (int i = 0; i < WORDS; i++)
        CHECK_AT("message", pe, i, box->data[pe][i], round * 1000 + (uint64_t)pe);
    shmem_uint64_p(&box->acknowledged[me], round, pe);
}

/* All PEs send to their neighbour and to the last PE and receive what comes. */
static void exchange(mailbox *box)
{
    uint64_t round = 0;
    memset(box, 0, sizeof *box);
    shmem_barrier_all();
    for (int way = 0; way < WAYS; way++)
        for (int i = 0; i < ROUNDS; i++) {
            int kind = i % KINDS;
            round++;
            send(box, way, round, target_of(kind, me));
            for (int pe = 0; pe < pes; pe++)
                if (target_of(kind, pe) == me)
                    receive(box, round, pe);
            shmem_uint64_wait_until(&box->acknowledged[target_of(kind, me)], SHMEM_CMP_EQ, round);
            shmem_ctx_quiet(ctx);
        }
    shmem_barrier_all();
}

/* Two puts to one word with a fence between them: the second one stays. */
static void overwrite(long *word)
{
    for (long i = 0; i < 200; i++) {
        shmem_long_p(word + me, -1 - i, pes - 1);
        shmem_fence();
        shmem_long_p(word + me, i, pes - 1);
        shmem_quiet();
        CHECK_EQ(shmem_long_g(word + me, pes - 1), i);
    }
    shmem_barrier_all();
}

/* Quiet completes: a third PE that is told of the put sees it at the target. */
static void third_party(long *words)
{
    long *data = words, *told = words + 1;
    words[0] = words[1] = 0;
    shmem_barrier_all();
    int target = pes - 1, reader = pes / 2;
    for (long i = 1; i <= 50; i++) {
        if (me == 0) {
            shmem_long_p(data, i, target);
            shmem_quiet();
            shmem_long_atomic_set(told, i, reader);
        }
        if (me == reader) {
            shmem_long_wait_until(told, SHMEM_CMP_EQ, i);
            CHECK_EQ(shmem_long_g(data, target), i);
        }
        shmem_barrier_all();
    }
}

/* Stores of this PE and through shmem_ptr are visible after barrier_all, and before a flag. */
static void stores(long *words)
{
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    words[0] = words[1] = 0;
    shmem_barrier_all();
    long *near = shmem_ptr(words, next);
    if (near)
        near[0] = 70 + me;
    shmem_barrier_all();
    if (shmem_ptr(words, previous))
        CHECK_EQ(words[0], 70 + previous);
    shmem_barrier_all();
    words[1] = 500 + me;
    shmem_barrier_all();
    for (int pe = 0; pe < pes; pe++)
        CHECK_EQ(shmem_long_g(words + 1, pe), 500 + pe);
    shmem_barrier_all();
}

/* Keeps this PE on one of two processors; where there are fewer, it returns false. */
static int stay_on(int number, cpu_set_t *before)
{
    cpu_set_t one;
    if (sched_getaffinity(0, sizeof *before, before) != 0 || CPU_COUNT(before) < 2)
        return 0;
    CPU_ZERO(&one);
    for (int at = 0, found = 0; found <= number; at++)
        if (CPU_ISSET(at, before) && found++ == number)
            CPU_SET(at, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

/* Two PEs store to each other's words at the same moment, and read their own words after a quiet,
 * which completes stores, too: one of the two finds what the other has stored. Returns in how many
 * rounds neither has. */
static long stale_rounds(long *words)
{
    enum { ROUND_MAX = 100000, PATIENCE_S = 5, OVER = -1, COLD = 4 << 20 };
    volatile long *cold = malloc(COLD * sizeof *cold);
    long *word = words, *go = words + 8, *got = words + 16, *done = words + 24;
    long *there = me < 2 ? shmem_ptr(words, 1 - me) : NULL, stale = 0;
    time_t begin = time(NULL);
    cpu_set_t processors;
    if (there && !stay_on(me, &processors))
        there = NULL;
    memset(words, 0, 32 * sizeof *words);
    shmem_barrier_all();
    for (long round = 1; there && round <= ROUND_MAX; round++) {
        long begins = time(NULL) - begin < PATIENCE_S && round < ROUND_MAX ? round : OVER;
        if (me == 0) {
            __atomic_store_n(there + 8, begins, __ATOMIC_RELEASE);
            /* The other one takes a while to see it. */
            for (volatile long i = 0; i < round % 256; i++)
                continue;
        } else {
            begins = 0;
            for (long i = 1; begins != round && begins != OVER; i++) {
                begins = __atomic_load_n(go, __ATOMIC_ACQUIRE);
                if (i % 1000 == 0)
                    sched_yield();
            }
        }
        if (begins == OVER)
            break;
        /* Stores leave a processor in order, and these take a while. */
        for (long i = 0; i < 8; i++)
            cold[(round * 8 + i) * 7919 % COLD] = round;
        __atomic_store_n(there, round, __ATOMIC_RELAXED);
        shmem_quiet();
        long mine = shmem_long_g(word, me);
        if (me == 1) {
            there[16] = mine;
            __atomic_store_n(there + 24, round, __ATOMIC_RELEASE);
            continue;
        }
        for (long i = 1; __atomic_load_n(done, __ATOMIC_ACQUIRE) != round; i++)
            if (i % 1000 == 0)
                sched_yield();
        stale += mine != round && *got != round;
    }
    if (there)
        sched_setaffinity(0, sizeof processors, &processors);
    free((void *)cold);
    shmem_barrier_all();
    return stale;
}

/* quiet and fence with nothing to order, many times, and on a context without operations. */
static void idle(void)
{
    for (int i = 0; i < 100; i++) {
        shmem_quiet();
        shmem_fence();
        shmem_ctx_quiet(ctx);
        shmem_ctx_fence(ctx);
        shmem_ctx_quiet(SHMEM_CTX_DEFAULT);
        shmem_ctx_fence(SHMEM_CTX_DEFAULT);
    }
}

int main(void)
{
    static long static_words[MAX_PES], static_lines[32] __attribute__((aligned(64)));
    check_begin();
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    mailbox *heap_box = heap_block(sizeof *heap_box);
    long *heap_words = heap_block(sizeof static_words);
    long *heap_lines = heap_block(sizeof static_lines);
    exchange(&static_box);
    exchange(heap_box);
    overwrite(static_words);
    overwrite(heap_words);
    third_party(static_words);
    third_party(heap_words);
    stores(static_words);
    stores(heap_words);
    if (pes > 1) {
        CHECK_EQ(stale_rounds(static_lines), 0);
        CHECK_EQ(stale_rounds(heap_lines), 0);
    }
    idle();
    shmem_ctx_destroy(ctx);
    shmem_free(heap_lines);
    shmem_free(heap_words);
    shmem_free(heap_box);
    return check_end("ordering");
}
