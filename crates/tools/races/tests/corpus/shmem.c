/* Labelled programs for OpenSHMEM: one idea each, on three PEs. The argument names the program to
 * run. The test reads the labels from the lines that begin with RACY or RIGHT. */

#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int x, y[8], source = 1;
static long flag, flag2, lock_word;
static uint64_t sig;
static long counter;
static int buffer[64];
static volatile int sink;
static int me;

#define RACY(name) static void name(void)
#define RIGHT(name) static void name(void)
#define ON(pe) if (me == (pe))

/* Conflicts of transfers with loads and stores. */
RACY(put_load)
{
    ON(0) shmem_int_put(&x, &source, 1, 1);
    ON(1) sink = x;
}

RIGHT(put_barrier_load)
{
    ON(0) shmem_int_put(&x, &source, 1, 1);
    shmem_barrier_all();
    ON(1) sink = x;
}

RACY(put_store)
{
    ON(0) shmem_int_put(&x, &source, 1, 1);
    ON(1) x = 2;
}

RIGHT(store_barrier_put)
{
    ON(1) x = 2;
    shmem_barrier_all();
    ON(0) shmem_int_put(&x, &source, 1, 1);
}

RACY(get_store)
{
    int v;
    ON(0) {
        shmem_int_get(&v, &x, 1, 1);
        sink = v;
    }
    ON(1) x = 2;
}

RIGHT(get_load)
{
    int v;
    ON(0) {
        shmem_int_get(&v, &x, 1, 1);
        sink = v;
    }
    ON(1) sink = x;
}

RIGHT(get_barrier_store)
{
    int v;
    ON(0) {
        shmem_int_get(&v, &x, 1, 1);
        sink = v;
    }
    shmem_barrier_all();
    ON(1) x = 2;
}

RACY(put_put)
{
    if (me != 2) shmem_int_put(&x, &source, 1, 2);
}

RIGHT(put_put_elsewhere)
{
    if (me != 2) shmem_int_put(&y[me], &source, 1, 2);
}

RACY(put_get)
{
    int v;
    ON(0) shmem_int_put(&x, &source, 1, 2);
    ON(1) {
        shmem_int_get(&v, &x, 1, 2);
        sink = v;
    }
}

RIGHT(get_get)
{
    int v;
    if (me != 2) {
        shmem_int_get(&v, &x, 1, 2);
        sink = v;
    }
}

RACY(p_load)
{
    ON(0) shmem_int_p(&x, 1, 1);
    ON(1) sink = x;
}

RACY(g_store)
{
    ON(0) sink = shmem_int_g(&x, 1);
    ON(1) x = 3;
}

RACY(put_overlaps)
{
    int v[4] = {1, 2, 3, 4};
    ON(0) shmem_int_put(y, v, 4, 2);
    ON(1) shmem_int_put(y + 3, v, 4, 2);
}

RIGHT(put_touches)
{
    int v[4] = {1, 2, 3, 4};
    ON(0) shmem_int_put(y, v, 4, 2);
    ON(1) shmem_int_put(y + 4, v, 4, 2);
}

RACY(iput_load)
{
    int v[2] = {1, 2};
    ON(0) shmem_int_iput(y, v, 4, 1, 2, 1);
    ON(1) sink = y[4];
}

RIGHT(iput_beside)
{
    int v[2] = {1, 2};
    ON(0) shmem_int_iput(y, v, 4, 1, 2, 1);
    ON(1) sink = y[3];
}

RACY(put_memset)
{
    ON(0) shmem_int_put(buffer, &source, 1, 1);
    ON(1) memset(buffer, 0, sizeof(buffer));
}

RACY(put_symmetric_source_stored)
{
    ON(0) shmem_int_put(&x, &source, 1, 1);
    ON(2) shmem_int_p(&source, 5, 0);
}

RACY(own_put_get)
{
    int v;
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_int_get(&v, &x, 1, 1);
        sink = v;
    }
}

RIGHT(own_put_quiet_get)
{
    int v;
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_quiet();
        shmem_int_get(&v, &x, 1, 1);
        sink = v;
    }
}

RACY(own_put_put)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_int_put(&x, &source, 1, 1);
    }
}

RIGHT(own_put_fence_put)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_fence();
        shmem_int_put(&x, &source, 1, 1);
    }
}

/* Heap. */
static int *heap_block(void)
{
    int *p = shmem_malloc(64);
    p[0] = 0;
    shmem_barrier_all();
    return p;
}

RACY(heap_put_load)
{
    int *p = heap_block();
    ON(0) shmem_int_put(p, &source, 1, 1);
    ON(1) sink = p[0];
    shmem_barrier_all();
    shmem_free(p);
}

RIGHT(heap_put_barrier_load)
{
    int *p = heap_block();
    ON(0) shmem_int_put(p, &source, 1, 1);
    shmem_barrier_all();
    ON(1) sink = p[0];
    shmem_barrier_all();
    shmem_free(p);
}

RIGHT(heap_used_again)
{
    int *p = heap_block();
    ON(0) shmem_int_put(p, &source, 1, 1);
    shmem_free(p);
    p = shmem_malloc(64);
    p[0] = 5;
    shmem_barrier_all();
    shmem_free(p);
}

/* Barrier, sync, quiet, fence. */
RACY(put_sync_load)
{
    ON(0) shmem_int_put(&x, &source, 1, 1);
    shmem_sync_all();
    ON(1) sink = x;
}

RIGHT(put_quiet_sync_load)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_quiet();
    }
    shmem_sync_all();
    ON(1) sink = x;
}

RACY(put_fence_sync_load)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_fence();
    }
    shmem_sync_all();
    ON(1) sink = x;
}

RACY(put_quiet_load)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_quiet();
    }
    ON(1) sink = x;
}

RIGHT(store_sync_get)
{
    ON(1) x = 2;
    shmem_sync_all();
    ON(0) sink = shmem_int_g(&x, 1);
}

RACY(barrier_then_put)
{
    shmem_barrier_all();
    ON(0) shmem_int_put(&x, &source, 1, 1);
    ON(1) sink = x;
}

RIGHT(rounds)
{
    for (int i = 0; i < 3; i++) {
        ON(0) shmem_int_p(&x, i, 1);
        shmem_barrier_all();
        ON(1) sink = x;
        shmem_barrier_all();
    }
}

RACY(rounds_with_one_barrier)
{
    for (int i = 0; i < 3; i++) {
        ON(0) shmem_int_p(&x, i, 1);
        shmem_barrier_all();
        ON(1) sink = x;
    }
}

/* Flags. */
RIGHT(put_quiet_flag)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_quiet();
        shmem_long_p(&flag, 1, 1);
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

RIGHT(put_fence_flag)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_fence();
        shmem_long_p(&flag, 1, 1);
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

RACY(put_flag)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_long_p(&flag, 1, 1);
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

RIGHT(put_quiet_atomic_flag)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_quiet();
        shmem_long_atomic_set(&flag, 1, 1);
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

RACY(put_atomic_flag)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_long_atomic_set(&flag, 1, 1);
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

RACY(flag_ahead_of_put)
{
    ON(0) {
        shmem_long_p(&flag, 1, 1);
        shmem_fence();
        shmem_int_put(&x, &source, 1, 1);
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

RACY(load_ahead_of_wait)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_quiet();
        shmem_long_p(&flag, 1, 1);
    }
    ON(1) {
        sink = x;
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
    }
}

RACY(flag_polled_by_loads)
{
    ON(0) shmem_long_p(&flag, 1, 1);
    ON(1) {
        for (long i = 0; i < 100000 && !*(volatile long *) &flag; i++) {
        }
    }
}

RIGHT(flag_tested)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_quiet();
        shmem_long_p(&flag, 1, 1);
    }
    ON(1) {
        while (!shmem_long_test(&flag, SHMEM_CMP_EQ, 1)) {
        }
        sink = x;
    }
}

RIGHT(flag_reset)
{
    ON(0) shmem_long_p(&flag, 1, 1);
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        flag = 0;
        sink = (int) flag;
    }
}

RACY(fence_orders_one_pe)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_fence();
        shmem_long_p(&flag, 1, 2);
    }
    ON(2) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = shmem_int_g(&x, 1);
    }
}

RIGHT(quiet_orders_all_pes)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_quiet();
        shmem_long_p(&flag, 1, 2);
    }
    ON(2) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = shmem_int_g(&x, 1);
    }
}

RIGHT(flags_in_a_chain)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 2);
        shmem_quiet();
        shmem_long_p(&flag, 1, 1);
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        shmem_long_p(&flag, 1, 2);
    }
    ON(2) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

RACY(flags_in_a_chain_without_quiet)
{
    ON(0) {
        shmem_int_put(&x, &source, 1, 2);
        shmem_long_p(&flag, 1, 1);
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        shmem_long_p(&flag, 1, 2);
    }
    ON(2) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

RIGHT(flag_answers)
{
    ON(0) {
        shmem_int_p(&x, 1, 1);
        shmem_fence();
        shmem_long_p(&flag, 1, 1);
        shmem_long_wait_until(&flag2, SHMEM_CMP_EQ, 1);
        shmem_int_p(&x, 2, 1);
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = x;
        shmem_long_p(&flag2, 1, 0);
    }
}

RACY(flag_without_answer)
{
    ON(0) {
        shmem_int_p(&x, 1, 1);
        shmem_fence();
        shmem_long_p(&flag, 1, 1);
        shmem_fence();
        shmem_int_p(&x, 2, 1);
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

RIGHT(wait_for_all_of_several)
{
    static long flags[3];
    if (me != 0) {
        shmem_int_p(&y[me], 1, 0);
        shmem_fence();
        shmem_long_p(&flags[me], 1, 0);
    } else {
        int status[3] = {1, 0, 0};
        shmem_long_wait_until_all(flags, 3, status, SHMEM_CMP_EQ, 1);
        sink = y[1] + y[2];
    }
}

/* Signals. */
RIGHT(put_signal)
{
    ON(0) shmem_int_put_signal(&x, &source, 1, &sig, 1, SHMEM_SIGNAL_SET, 1);
    ON(1) {
        shmem_signal_wait_until(&sig, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

RACY(put_signal_load_first)
{
    ON(0) shmem_int_put_signal(&x, &source, 1, &sig, 1, SHMEM_SIGNAL_SET, 1);
    ON(1) {
        sink = x;
        shmem_signal_wait_until(&sig, SHMEM_CMP_EQ, 1);
    }
}

RACY(put_signal_brings_its_own)
{
    ON(0) {
        shmem_int_p(&y[1], 1, 1);
        shmem_int_put_signal(&x, &source, 1, &sig, 1, SHMEM_SIGNAL_SET, 1);
    }
    ON(1) {
        shmem_signal_wait_until(&sig, SHMEM_CMP_EQ, 1);
        sink = y[1];
    }
}

RIGHT(put_signal_add)
{
    if (me) shmem_int_put_signal(&y[me], &source, 1, &sig, 1, SHMEM_SIGNAL_ADD, 0);
    else {
        shmem_signal_wait_until(&sig, SHMEM_CMP_EQ, 2);
        sink = y[1] + y[2];
    }
}

RIGHT(put_signal_nbi)
{
    ON(0) {
        shmem_int_put_signal_nbi(&x, &source, 1, &sig, 1, SHMEM_SIGNAL_SET, 1);
        shmem_quiet();
        source = 4;
    }
    ON(1) {
        shmem_signal_wait_until(&sig, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

RACY(put_signal_nbi_source)
{
    ON(0) {
        shmem_int_put_signal_nbi(&x, &source, 1, &sig, 1, SHMEM_SIGNAL_SET, 1);
        source = 4;
    }
    ON(1) {
        shmem_signal_wait_until(&sig, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

/* The receiver of a put with a signal tells its sender that it has come, by a flag. */
static void answer(void)
{
    shmem_signal_wait_until(&sig, SHMEM_CMP_EQ, 1);
    sink = x;
    shmem_long_atomic_set(&flag, 1, 0);
}

RIGHT(put_signal_nbi_source_behind_the_answer)
{
    ON(0) {
        shmem_int_put_signal_nbi(&x, &source, 1, &sig, 1, SHMEM_SIGNAL_SET, 1);
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        source = 4;
    }
    ON(1) answer();
}

RIGHT(put_signal_nbi_private_source_behind_the_answer)
{
    int mine[2] = {1, 2};
    ON(0) {
        shmem_int_put_signal_nbi(&x, mine, 1, &sig, 1, SHMEM_SIGNAL_SET, 1);
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        mine[0] = 4;
        shmem_quiet();
    }
    ON(1) answer();
}

RACY(put_signal_nbi_private_source)
{
    int mine[2] = {1, 2};
    ON(0) {
        shmem_int_put_signal_nbi(&x, mine, 1, &sig, 1, SHMEM_SIGNAL_SET, 1);
        mine[0] = 4;
        shmem_quiet();
    }
    ON(1) answer();
}

RACY(put_signal_nbi_source_of_another_answer)
{
    ON(0) {
        shmem_int_put_nbi(y, &source, 1, 1);
        shmem_int_put_signal_nbi(&x, &y[4], 1, &sig, 1, SHMEM_SIGNAL_SET, 1);
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        source = 4;
    }
    ON(1) answer();
}

/* Two signals to one word may change places. */
RACY(two_put_signals)
{
    ON(0) {
        shmem_int_put_signal(&x, &source, 1, &sig, 1, SHMEM_SIGNAL_SET, 1);
        shmem_int_put_signal(y, &source, 1, &sig, 2, SHMEM_SIGNAL_SET, 1);
    }
    ON(1) shmem_signal_wait_until(&sig, SHMEM_CMP_EQ, 2);
}

RIGHT(two_put_signals_and_a_fence)
{
    ON(0) {
        shmem_int_put_signal(&x, &source, 1, &sig, 1, SHMEM_SIGNAL_SET, 1);
        shmem_fence();
        shmem_int_put_signal(y, &source, 1, &sig, 2, SHMEM_SIGNAL_SET, 1);
    }
    ON(1) {
        shmem_signal_wait_until(&sig, SHMEM_CMP_EQ, 2);
        sink = x + y[0];
    }
}

RIGHT(two_put_signals_and_an_answer)
{
    ON(0) {
        shmem_int_put_signal(&x, &source, 1, &sig, 1, SHMEM_SIGNAL_SET, 1);
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        shmem_int_put_signal(y, &source, 1, &sig, 2, SHMEM_SIGNAL_SET, 1);
    }
    ON(1) {
        answer();
        shmem_signal_wait_until(&sig, SHMEM_CMP_EQ, 2);
        sink = x + y[0];
    }
}

/* Signals in ints, which are aligned to four bytes alone. */
static _Alignas(8) int words[4];
RIGHT(put_signal_to_an_int)
{
    uint64_t *at = (uint64_t *) &words[1];
    ON(0) shmem_int_put_signal(&x, &source, 1, at, 7, SHMEM_SIGNAL_SET, 1);
    ON(1) {
        shmem_int_wait_until(&words[1], SHMEM_CMP_EQ, 7);
        sink = x;
    }
}

RACY(put_signals_to_an_int)
{
    uint64_t *at = (uint64_t *) &words[1];
    if (me != 1) shmem_int_put_signal(&x, &source, 1, at, 7, SHMEM_SIGNAL_SET, 1);
}

/* A barrier completes what contexts have posted, a sync does not (below). */
RIGHT(context_and_barrier)
{
    shmem_ctx_t c;
    if (shmem_ctx_create(0, &c)) exit(3);
    ON(0) shmem_ctx_int_put(c, &x, &source, 1, 1);
    shmem_barrier_all();
    ON(1) sink = x;
    shmem_ctx_destroy(c);
}

/* Buffers of non-blocking operations. */
RACY(put_nbi_source_stored)
{
    int v = 1;
    ON(0) {
        shmem_int_put_nbi(&x, &v, 1, 1);
        v = 2;
        shmem_quiet();
        sink = v;
    }
}

RIGHT(put_nbi_quiet_source_stored)
{
    int v = 1;
    ON(0) {
        shmem_int_put_nbi(&x, &v, 1, 1);
        shmem_quiet();
        v = 2;
        sink = v;
    }
}

RIGHT(put_nbi_source_loaded)
{
    int v = 1;
    ON(0) {
        shmem_int_put_nbi(&x, &v, 1, 1);
        sink = v;
        shmem_quiet();
    }
}

RACY(get_nbi_dest_loaded)
{
    int v = 1;
    ON(0) {
        shmem_int_get_nbi(&v, &x, 1, 1);
        sink = v;
        shmem_quiet();
    }
}

RIGHT(get_nbi_quiet_dest_loaded)
{
    int v = 1;
    ON(0) {
        shmem_int_get_nbi(&v, &x, 1, 1);
        shmem_quiet();
        sink = v;
    }
}

RACY(get_nbi_fence_dest_loaded)
{
    int v = 1;
    ON(0) {
        shmem_int_get_nbi(&v, &x, 1, 1);
        shmem_fence();
        sink = v;
        shmem_quiet();
    }
}

RACY(get_nbi_symmetric_dest)
{
    ON(0) {
        shmem_int_get_nbi(&y[0], &x, 1, 1);
        sink = y[0];
        shmem_quiet();
    }
}

RACY(put_nbi_symmetric_source)
{
    ON(0) {
        shmem_int_put_nbi(&x, &source, 1, 1);
        source = 3;
        shmem_quiet();
    }
}

RIGHT(put_blocking_source_stored)
{
    int v = 1;
    ON(0) {
        shmem_int_put(&x, &v, 1, 1);
        v = 2;
        sink = v;
    }
}

RACY(get_nbi_then_remote_store)
{
    int v = 0;
    ON(0) {
        shmem_int_get_nbi(&v, &x, 1, 1);
        shmem_long_p(&flag, 1, 1);
        shmem_quiet();
        sink = v;
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        x = 5;
    }
}

RIGHT(get_then_remote_store)
{
    int v = 0;
    ON(0) {
        shmem_int_get(&v, &x, 1, 1);
        shmem_long_p(&flag, 1, 1);
        sink = v;
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        x = 5;
    }
}

/* Atomics and locks. */
RIGHT(atomic_adds)
{
    shmem_long_atomic_add(&counter, 1, 0);
}

RACY(atomic_add_load)
{
    ON(1) shmem_long_atomic_add(&counter, 1, 0);
    ON(0) sink = (int) counter;
}

RIGHT(atomic_add_barrier_load)
{
    shmem_long_atomic_add(&counter, 1, 0);
    shmem_barrier_all();
    ON(0) sink = (int) counter;
}

RACY(atomic_add_sync_load)
{
    ON(1) shmem_long_atomic_add(&counter, 1, 0);
    shmem_sync_all();
    ON(0) sink = (int) counter;
}

RIGHT(atomic_fetch_sync_load)
{
    ON(1) sink = (int) shmem_long_atomic_fetch_add(&counter, 1, 0);
    shmem_sync_all();
    ON(0) sink = (int) counter;
}

RACY(atomic_and_put)
{
    ON(1) shmem_long_atomic_add(&counter, 1, 0);
    ON(2) shmem_long_p(&counter, 5, 0);
}

RIGHT(atomic_and_fetch)
{
    ON(1) shmem_long_atomic_add(&counter, 1, 0);
    ON(2) sink = (int) shmem_long_atomic_fetch(&counter, 0);
}

static void inside(void) { int v = shmem_int_g(&x, 0); shmem_int_p(&x, v + 1, 0); }
RIGHT(lock_protects)
{
    shmem_set_lock(&lock_word);
    inside();
    shmem_clear_lock(&lock_word);
}

RACY(one_without_lock)
{
    if (me == 1) inside();
    else {
        shmem_set_lock(&lock_word);
        inside();
        shmem_clear_lock(&lock_word);
    }
}

RACY(lock_released_first)
{
    shmem_set_lock(&lock_word);
    shmem_clear_lock(&lock_word);
    inside();
}

/* Contexts and teams. */
static shmem_ctx_t ctx(void) { shmem_ctx_t c; if (shmem_ctx_create(0, &c)) exit(3); return c; }
RACY(context_not_quieted)
{
    shmem_ctx_t c = ctx();
    ON(0) {
        shmem_ctx_int_put(c, &x, &source, 1, 1);
        shmem_quiet();
    }
    shmem_sync_all();
    ON(1) sink = x;
    shmem_ctx_quiet(c);
    shmem_barrier_all();
    shmem_ctx_destroy(c);
}

RIGHT(context_quieted)
{
    shmem_ctx_t c = ctx();
    ON(0) {
        shmem_ctx_int_put(c, &x, &source, 1, 1);
        shmem_ctx_quiet(c);
    }
    shmem_sync_all();
    ON(1) sink = x;
    shmem_ctx_destroy(c);
}

RACY(fence_of_another_context)
{
    shmem_ctx_t c = ctx();
    ON(0) {
        shmem_ctx_int_put(c, &x, &source, 1, 1);
        shmem_fence();
        shmem_long_p(&flag, 1, 1);
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = x;
    }
    shmem_ctx_quiet(c);
    shmem_ctx_destroy(c);
}

static shmem_team_t team(int start, int stride, int size)
{
    shmem_team_t t;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, NULL, 0, &t);
    return t;
}
RIGHT(team_sync)
{
    shmem_team_t t = team(0, 1, 2);
    shmem_barrier_all();
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_quiet();
    }
    if (me < 2) shmem_team_sync(t);
    ON(1) sink = x;
}

RACY(team_sync_of_others)
{
    shmem_team_t t = team(0, 2, 2);
    shmem_barrier_all();
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_quiet();
    }
    if (me != 1) shmem_team_sync(t);
    ON(1) sink = x;
}

/* Collectives. */
RIGHT(broadcast)
{
    static int from[4], to[4];
    ON(0) from[0] = 1;
    shmem_int_broadcast(SHMEM_TEAM_WORLD, to, from, 4, 0);
    sink = to[0];
}

RIGHT(reduce)
{
    static int from, to;
    from = me;
    shmem_int_sum_reduce(SHMEM_TEAM_WORLD, &to, &from, 1);
    sink = to;
}

RACY(broadcast_then_put)
{
    static int from[4], to[4];
    shmem_int_broadcast(SHMEM_TEAM_WORLD, to, from, 4, 0);
    ON(0) shmem_int_p(&to[1], 2, 1);
    ON(1) sink = to[1];
}

RIGHT(fcollect)
{
    static int from[2], to[6];
    from[0] = me;
    shmem_int_fcollect(SHMEM_TEAM_WORLD, to, from, 2);
    sink = to[5];
}

RACY(broadcast_completes_no_put)
{
    static int from[4], to[4];
    ON(0) shmem_int_put(&x, &source, 1, 1);
    shmem_int_broadcast(SHMEM_TEAM_WORLD, to, from, 4, 0);
    ON(1) sink = x;
}

RIGHT(put_quiet_broadcast)
{
    static int from[4], to[4];
    ON(0) {
        shmem_int_put(&x, &source, 1, 1);
        shmem_quiet();
    }
    shmem_int_broadcast(SHMEM_TEAM_WORLD, to, from, 4, 0);
    ON(1) sink = x;
}

/* Pointers to memory of other PEs. */
RACY(pointer_store_load)
{
    ON(0) {
        int *p = shmem_ptr(&x, 1);
        if (p) *p = 4;
        else shmem_int_p(&x, 4, 1);
    }
    ON(1) sink = x;
}

RIGHT(pointer_store_barrier_load)
{
    ON(0) {
        int *p = shmem_ptr(&x, 1);
        if (p) *p = 4;
        else shmem_int_p(&x, 4, 1);
    }
    shmem_barrier_all();
    ON(1) sink = x;
}

RACY(atomics_of_two_widths)
{
    ON(0) shmem_long_atomic_add(&counter, 1, 2);
    ON(1) shmem_int_atomic_add((int *) &counter, 1, 2);
}

struct program { const char *name; void (*run)(void); };
static const struct program programs[] = {
#include "shmem_programs.h"
};

int main(int argc, char **argv)
{
    shmem_init();
    me = shmem_my_pe();
    shmem_barrier_all();
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        if (argc > 1 && strcmp(argv[1], programs[i].name) == 0) {
            programs[i].run();
            shmem_barrier_all();
            shmem_finalize();
            return 0;
        }
    }
    fprintf(stderr, "there is no program %s\n", argc > 1 ? argv[1] : "");
    return 2;
}
