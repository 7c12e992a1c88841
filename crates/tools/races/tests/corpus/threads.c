/* Labelled programs for OpenSHMEM with threads: one idea each, on three PEs, of which mostly one
 * has two threads. The argument names the program to run. The test reads the labels from the lines
 * that begin with RACY or RIGHT. */

#define _GNU_SOURCE

#include <omp.h>
#include <pthread.h>
#include <semaphore.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <unistd.h>

static int x, y[8];
static long flag, counter;
static double real;
static volatile int sink;
static int me;

#define RACY(name) static void name(void)
#define RIGHT(name) static void name(void)
#define ON(pe) if (me == (pe))

/* A buffer that one thread lets an operation fill, and another reads. */
static void fetch(int *into)
{
    shmem_int_get_nbi(into, &x, 1, 1);
    shmem_quiet();
}

RACY(filled_by_one_read_by_another)
{
    int v = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) fetch(&v);
        else sink = v;
    }
}

RIGHT(barrier_between)
{
    int v = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) fetch(&v);
#pragma omp barrier
        sink = v;
    }
}

RIGHT(end_of_region_between)
{
    int v = 0;
    ON(0) {
#pragma omp parallel num_threads(2)
        if (omp_get_thread_num() == 1) fetch(&v);
        sink = v;
#pragma omp parallel num_threads(2)
        if (omp_get_thread_num() == 1) fetch(&v);
    }
}

RACY(quiet_after_the_barrier)
{
    int v = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) shmem_int_get_nbi(&v, &x, 1, 1);
#pragma omp barrier
        if (omp_get_thread_num() == 1) sink = v;
#pragma omp barrier
        if (omp_get_thread_num() == 0) shmem_quiet();
    }
}

RIGHT(quiet_by_the_other_thread)
{
    int v = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) shmem_int_get_nbi(&v, &x, 1, 1);
#pragma omp barrier
        if (omp_get_thread_num() == 1) {
            shmem_quiet();
            sink = v;
        }
    }
}

RACY(blocking_put_of_what_another_stores)
{
    int v = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) shmem_int_put(&x, &v, 1, 1);
        else v = 3;
    }
}

RIGHT(single_with_its_barrier)
{
    int v = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        fetch(&v);
        sink = v;
    }
}

/* As docs/races.md shows it. */
RACY(single_without_a_barrier)
{
    int v = 0;
    ON(0)
    #pragma omp parallel num_threads(2)
    {
        #pragma omp single nowait
        {
            shmem_get_nbi(&v, &x, 1, 1);
            shmem_quiet();
        }
        printf("%d\n", v); /* RACE: the other thread may read while the get writes */
    }
}

RIGHT(critical_sections)
{
    int v = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
#pragma omp critical
        {
            fetch(&v);
            sink = v;
        }
    }
}

RACY(critical_for_one_alone)
{
    int v = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
#pragma omp critical
            fetch(&v);
        } else {
            sink = v;
        }
    }
}

RIGHT(locks_of_openmp)
{
    int v = 0;
    omp_lock_t lock;
    omp_init_lock(&lock);
    ON(0)
#pragma omp parallel num_threads(2)
    {
        omp_set_lock(&lock);
        fetch(&v);
        sink = v;
        omp_unset_lock(&lock);
    }
    omp_destroy_lock(&lock);
}

RIGHT(ordered_iterations)
{
    int v = 0;
    ON(0)
#pragma omp parallel for ordered schedule(static, 1) num_threads(2)
    for (int i = 0; i < 4; i++) {
#pragma omp ordered
        {
            fetch(&v);
            sink = v;
        }
    }
}

RACY(iterations_that_share_a_buffer)
{
    int v = 0;
    ON(0)
#pragma omp parallel for schedule(static, 1) num_threads(2)
    for (int i = 0; i < 4; i++) {
        fetch(&v);
        sink = v;
    }
}

RIGHT(iterations_with_buffers_of_their_threads)
{
    ON(0)
#pragma omp parallel num_threads(2)
    {
        int *v = malloc(sizeof(*v));
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < 16; i++) {
            fetch(v);
            sink = *v;
            *v = i;
        }
        free(v);
    }
}

RACY(sections_of_one_construct)
{
    int v = 0;
    ON(0)
#pragma omp parallel sections num_threads(2)
    {
#pragma omp section
        fetch(&v);
#pragma omp section
        sink = v;
    }
}

RIGHT(sections_of_two_constructs)
{
    int v = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
#pragma omp sections
        {
#pragma omp section
            fetch(&v);
        }
#pragma omp sections
        {
#pragma omp section
            sink = v;
        }
    }
}

/* Tasks. The other thread is made to run them: the one that made it waits without a barrier. */
static void until(int *word)
{
    int seen = 0;
    while (!seen) {
        usleep(10);
#pragma omp atomic read
        seen = *word;
    }
}

RACY(task_nobody_waits_for)
{
    int v = 0, began = 0;
    ON(0)
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task shared(v, began)
        {
#pragma omp atomic write
            began = 1;
            fetch(&v);
        }
        until(&began);
        sink = v;
    }
}

RIGHT(task_waited_for)
{
    int v = 0, began = 0;
    ON(0)
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        v = 2;
#pragma omp task shared(v, began)
        {
#pragma omp atomic write
            began = 1;
            fetch(&v);
        }
        until(&began);
#pragma omp taskwait
        sink = v;
    }
}

RIGHT(tasks_that_depend)
{
    int v = 0;
    ON(0)
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 8; i++) {
#pragma omp task shared(v) depend(inout : v)
        {
            fetch(&v);
            sink = v;
        }
    }
}

RIGHT(tasks_in_a_group)
{
    int v[4] = {0};
    ON(0)
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp taskgroup
        for (int i = 0; i < 4; i++) {
#pragma omp task shared(v) firstprivate(i)
            fetch(&v[i]);
        }
        sink = v[0] + v[3];
    }
}

RIGHT(tasks_with_values_of_their_own)
{
    ON(0)
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 12; i++) {
        int v = i;
#pragma omp task firstprivate(v)
        {
            shmem_int_put(&y[v % 8], &v, 0, 1);
            fetch(&v);
            sink = v;
        }
    }
}

RIGHT(tasks_of_a_loop)
{
    int v[8] = {0};
    ON(0)
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        for (int i = 0; i < 8; i++) v[i] = i;
#pragma omp taskloop grainsize(1) shared(v)
        for (int i = 0; i < 8; i++) fetch(&v[i]);
        sink = v[7];
    }
}

RIGHT(tasks_end_at_a_barrier)
{
    int v = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
#pragma omp task shared(v)
            fetch(&v);
        }
#pragma omp barrier
        sink = v;
    }
}

/* One thread meets other PEs, another goes on. */
RACY(sync_by_another_thread)
{
    ON(0) {
        shmem_int_p(&x, 1, 1);
        shmem_quiet();
    }
    if (me != 1) shmem_sync_all();
    else
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) shmem_sync_all();
        else sink = x;
    }
}

RIGHT(sync_by_another_thread_and_barrier)
{
    ON(0) {
        shmem_int_p(&x, 1, 1);
        shmem_quiet();
    }
    if (me != 1) shmem_sync_all();
    else
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) shmem_sync_all();
#pragma omp barrier
        sink = x;
    }
}

RACY(put_of_one_thread_sync_of_another)
{
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            shmem_int_p(&x, 1, 1);
            shmem_quiet();
        } else {
            usleep(100000);
            shmem_sync_all();
        }
    }
    else shmem_sync_all();
    ON(1) sink = x;
}

RIGHT(put_of_one_thread_barrier_sync_of_another)
{
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            shmem_int_p(&x, 1, 1);
            shmem_quiet();
        }
#pragma omp barrier
        if (omp_get_thread_num() == 1) shmem_sync_all();
    }
    else shmem_sync_all();
    ON(1) sink = x;
}

RACY(fence_of_one_thread_flag_of_another)
{
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            shmem_int_p(&x, 1, 1);
            shmem_fence();
        } else {
            usleep(100000);
            shmem_long_atomic_set(&flag, 1, 1);
        }
    }
    ON(1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        sink = x;
    }
}

/* Two threads that use the default context together. */
RACY(puts_of_two_threads_to_one_word)
{
    ON(0)
#pragma omp parallel num_threads(2)
    shmem_int_p(&x, omp_get_thread_num(), 1);
}

RIGHT(puts_of_two_threads_to_two_words)
{
    ON(0)
#pragma omp parallel num_threads(2)
    shmem_int_p(&y[omp_get_thread_num() * 2], 1, 1);
}

RIGHT(atomics_of_two_threads_on_one_word)
{
    ON(0)
#pragma omp parallel num_threads(2)
    shmem_long_atomic_inc(&counter, 1);
}

RACY(puts_of_threads_in_turn_without_a_fence)
{
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) shmem_int_p(&x, 1, 1);
#pragma omp barrier
        if (omp_get_thread_num() == 1) shmem_int_p(&x, 2, 1);
    }
}

RIGHT(puts_of_threads_in_turn_with_a_fence)
{
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) shmem_int_p(&x, 1, 1);
#pragma omp barrier
        if (omp_get_thread_num() == 1) {
            shmem_fence();
            shmem_int_p(&x, 2, 1);
        }
    }
}

RACY(put_and_get_of_two_threads)
{
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) shmem_int_p(&x, 1, 1);
        else sink = shmem_int_g(&x, 1);
    }
}

/* Each thread puts by a context of its own, and completes it or not; then the PEs meet, without
 * completing anything. */
static void put_by_own_contexts(int is_quiet)
{
    ON(0)
#pragma omp parallel num_threads(2)
    {
        shmem_ctx_t ctx;
        shmem_ctx_create(SHMEM_CTX_SERIALIZED, &ctx);
        shmem_ctx_int_p(ctx, &y[omp_get_thread_num() * 2], 1, 1);
        if (is_quiet) shmem_ctx_quiet(ctx);
        else shmem_quiet();
#pragma omp barrier
        if (omp_get_thread_num() == 0) shmem_sync_all();
#pragma omp barrier
        shmem_ctx_destroy(ctx);
    }
    else shmem_sync_all();
    ON(1) sink = y[0] + y[2];
}

RIGHT(contexts_of_two_threads_completed)
{
    put_by_own_contexts(1);
}

RACY(contexts_of_two_threads_not_completed)
{
    put_by_own_contexts(0);
}

RIGHT(threads_order_each_other_by_a_flag)
{
    int v = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            fetch(&v);
            shmem_long_atomic_set(&flag, 1, 0);
        } else {
            shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
            sink = v;
        }
    }
}

RIGHT(instructions_of_threads_are_not_looked_at)
{
    ON(0)
#pragma omp parallel num_threads(2)
    x = omp_get_thread_num();
}

/* Threads of POSIX, and atomics of C. */
static void *fetches(void *into)
{
    fetch(into);
    return NULL;
}

RIGHT(thread_joined)
{
    int v = 1;
    pthread_t thread;
    ON(0) {
        pthread_create(&thread, NULL, fetches, &v);
        pthread_join(thread, NULL);
        sink = v;
    }
}

RACY(thread_joined_too_late)
{
    int v = 1;
    pthread_t thread;
    ON(0) {
        pthread_create(&thread, NULL, fetches, &v);
        sink = v;
        pthread_join(thread, NULL);
    }
}

static int fetches_c11(void *into)
{
    fetch(into);
    return 7;
}

RIGHT(thread_of_c11_joined)
{
    int v = 0, result = 0;
    thrd_t thread;
    ON(0) {
        thrd_create(&thread, fetches_c11, &v);
        thrd_join(thread, &result);
        sink = v;
        if (result != 7) abort();
    }
}

RACY(thread_of_c11_joined_too_late)
{
    int v = 0;
    thrd_t thread;
    ON(0) {
        thrd_create(&thread, fetches_c11, &v);
        sink = v;
        thrd_join(thread, NULL);
    }
}

static mtx_t c11_mutex;
static cnd_t c11_changed;
static int is_there_c11;

static int fetches_and_tells_c11(void *into)
{
    fetch(into);
    mtx_lock(&c11_mutex);
    is_there_c11 = 1;
    cnd_signal(&c11_changed);
    mtx_unlock(&c11_mutex);
    return 0;
}

RIGHT(condition_of_c11_waited_for)
{
    int v = 0;
    thrd_t thread;
    ON(0) {
        mtx_init(&c11_mutex, mtx_plain);
        cnd_init(&c11_changed);
        thrd_create(&thread, fetches_and_tells_c11, &v);
        mtx_lock(&c11_mutex);
        while (!is_there_c11) cnd_wait(&c11_changed, &c11_mutex);
        mtx_unlock(&c11_mutex);
        sink = v;
        thrd_join(thread, NULL);
    }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_there;

static void *fetches_and_tells(void *into)
{
    fetch(into);
    pthread_mutex_lock(&mutex);
    is_there = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

RIGHT(condition_waited_for)
{
    int v = 1;
    pthread_t thread;
    ON(0) {
        pthread_create(&thread, NULL, fetches_and_tells, &v);
        pthread_mutex_lock(&mutex);
        while (!is_there) pthread_cond_wait(&changed, &mutex);
        pthread_mutex_unlock(&mutex);
        sink = v;
        pthread_join(thread, NULL);
    }
}

static sem_t semaphore;

static void *fetches_and_posts(void *into)
{
    fetch(into);
    sem_post(&semaphore);
    return NULL;
}

RIGHT(semaphore_and_stacks_used_again)
{
    int v = 1;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sem_init(&semaphore, 0, 0);
    ON(0) {
        for (int i = 0; i < 8; i++) {
            pthread_t thread;
            pthread_create(&thread, &detached, fetches_and_posts, &v);
            sem_wait(&semaphore);
            sink = v;
        }
    }
    pthread_attr_destroy(&detached);
}

static void *fetches_into_heap(void *unused)
{
    int *v = malloc(64);
    (void) unused;
    fetch(v);
    sink = *v;
    free(v);
    return NULL;
}

RIGHT(heap_used_again)
{
    pthread_t thread[2];
    ON(0) {
        for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, fetches_into_heap, NULL);
        fetches_into_heap(NULL);
        for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    }
}

RIGHT(atomic_that_releases)
{
    int v = 0, is_filled = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            fetch(&v);
            __atomic_store_n(&is_filled, 1, __ATOMIC_RELEASE);
        } else {
            while (!__atomic_load_n(&is_filled, __ATOMIC_ACQUIRE)) usleep(10);
            sink = v;
        }
    }
}

RACY(atomic_that_is_relaxed)
{
    int v = 0, is_filled = 0;
    ON(0)
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
            fetch(&v);
            __atomic_store_n(&is_filled, 1, __ATOMIC_RELAXED);
        } else {
            while (!__atomic_load_n(&is_filled, __ATOMIC_RELAXED)) usleep(10);
            sink = v;
        }
    }
}

/* Atomics that do not exclude each other, and what a fence does not order. */
RACY(atomics_of_two_types)
{
    ON(0) shmem_double_atomic_set(&real, 1.5, 2);
    ON(1) shmem_long_atomic_set((long *) &real, 2, 2);
}

RIGHT(atomics_of_one_width_and_sort)
{
    ON(0) shmem_long_atomic_add(&counter, 1, 2);
    ON(1) shmem_ulong_atomic_inc((unsigned long *) &counter, 2);
}

static void add_in(shmem_team_t team)
{
    shmem_ctx_t ctx;
    shmem_team_create_ctx(team, 0, &ctx);
    int there = shmem_team_translate_pe(SHMEM_TEAM_WORLD, 2, team);
    shmem_ctx_long_atomic_add(ctx, &counter, 1, there);
    shmem_ctx_destroy(ctx);
}

RACY(atomics_of_two_domains)
{
    ON(0) add_in(SHMEM_TEAM_WORLD);
    ON(1) add_in(SHMEM_TEAM_SHARED);
}

RIGHT(atomics_of_one_domain)
{
    ON(0) add_in(SHMEM_TEAM_SHARED);
    ON(1) add_in(SHMEM_TEAM_SHARED);
}

RACY(atomic_nbi_result_read)
{
    long held = 0;
    ON(0) {
        shmem_long_atomic_fetch_add_nbi(&held, &counter, 1, 1);
        sink = (int) held;
        shmem_quiet();
    }
}

RIGHT(atomic_nbi_result_read_after_quiet)
{
    long held = 0;
    ON(0) {
        shmem_long_atomic_fetch_add_nbi(&held, &counter, 1, 1);
        shmem_quiet();
        sink = (int) held;
    }
}

RACY(fence_does_not_order_gets)
{
    int v = 0, w = 1;
    ON(0) {
        shmem_int_get_nbi(&v, &x, 1, 1);
        shmem_fence();
        shmem_int_put(&x, &w, 1, 1);
        shmem_quiet();
        sink = v;
    }
}

RACY(compared_while_under_way)
{
    char text[16] = "", *others = (char *) y;
    ON(0) {
        shmem_getmem_nbi(text, others, sizeof(text), 1);
        sink = memcmp(text, "none", 4);
        shmem_quiet();
    }
}

struct program { const char *name; void (*run)(void); };
static const struct program programs[] = {
#include "shmem_programs.h"
};

int main(int argc, char **argv)
{
    int provided;
    shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
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
