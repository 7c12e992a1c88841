/* Threads of POSIX, for the checker of races: calls from the program's objects, which the linker
 * sends here (--wrap). */

#define _GNU_SOURCE

#include "strand.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);
int __real_pthread_join(pthread_t, void **);
int __real_pthread_detach(pthread_t);
int __real_pthread_mutex_lock(pthread_mutex_t *);
int __real_pthread_mutex_unlock(pthread_mutex_t *);

/* A thread that was made and not yet joined. */
struct thread {
    struct thread *next;
    pthread_t id;
    void *(*run)(void *);
    void *argument;
    uint32_t strand;
    int is_known;    /* whether its number is in `id` */
    int is_detached;
    int is_over;
};

static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static struct thread *threads;

/* With the lock. */
static void forget_thread(struct thread *thread)
{
    for (struct thread **at = &threads; *at; at = &(*at)->next) {
        if (*at == thread) {
            *at = thread->next;
            break;
        }
    }
    farside_end(thread->strand);
    free(thread);
}

static void over(void *argument)
{
    struct thread *thread = argument;
    __real_pthread_mutex_lock(&threads_lock);
    thread->is_over = 1;
    if (thread->is_detached) {
        forget_thread(thread);
    }
    __real_pthread_mutex_unlock(&threads_lock);
}

/* The stack may have been another thread's. */
static void forget_stack(void)
{
    pthread_attr_t attributes;
    void *lowest;
    size_t bytes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &lowest, &bytes) == 0) {
            farside_forget(lowest, bytes);
        }
        pthread_attr_destroy(&attributes);
    }
}

static void *begin(void *argument)
{
    struct thread *thread = argument;
    void *result;
    forget_stack();
    farside_enter(thread->strand);
    pthread_cleanup_push(over, thread);
    result = thread->run(thread->argument);
    pthread_cleanup_pop(1);
    return result;
}

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*run)(void *),
    void *argument)
{
    struct thread *thread = calloc(1, sizeof(*thread));
    uint32_t strand = thread ? farside_new(farside_strand) : NO_STRAND;
    if (strand == NO_STRAND) {
        free(thread);
        return __real_pthread_create(id, attributes, run, argument);
    }
    int state = PTHREAD_CREATE_JOINABLE;
    if (attributes) {
        pthread_attr_getdetachstate(attributes, &state);
    }
    thread->run = run;
    thread->argument = argument;
    thread->strand = strand;
    thread->is_detached = state == PTHREAD_CREATE_DETACHED;
    __real_pthread_mutex_lock(&threads_lock);
    thread->next = threads;
    threads = thread;
    int error = __real_pthread_create(id, attributes, begin, thread);
    if (error) {
        forget_thread(thread);
    } else {
        /* A thread that is over still waits for the lock. */
        thread->id = *id;
        thread->is_known = 1;
    }
    __real_pthread_mutex_unlock(&threads_lock);
    return error;
}

/* With the lock. */
static struct thread *thread_of(pthread_t id)
{
    struct thread *at = threads;
    while (at && !(at->is_known && !at->is_detached && pthread_equal(at->id, id))) {
        at = at->next;
    }
    return at;
}

int __wrap_pthread_join(pthread_t id, void **result)
{
    int error = __real_pthread_join(id, result);
    if (!error) {
        __real_pthread_mutex_lock(&threads_lock);
        struct thread *thread = thread_of(id);
        if (thread) {
            farside_join(farside_strand, thread->strand);
            forget_thread(thread);
        }
        __real_pthread_mutex_unlock(&threads_lock);
    }
    return error;
}

int __wrap_pthread_detach(pthread_t id)
{
    __real_pthread_mutex_lock(&threads_lock);
    struct thread *thread = thread_of(id);
    if (thread) {
        thread->is_detached = 1;
        if (thread->is_over) {
            forget_thread(thread);
        }
    }
    __real_pthread_mutex_unlock(&threads_lock);
    return __real_pthread_detach(id);
}

/* What a call acquires if it returns 0, and what it releases. */
#define ACQUIRES(name, parameters, arguments, object) \
    int __real_##name parameters; \
    int __wrap_##name parameters; \
    int __wrap_##name parameters \
    { \
        int error = __real_##name arguments; \
        if (!error) { \
            farside_acquire(object); \
        } \
        return error; \
    }
#define RELEASES(name, parameters, arguments, object) \
    int __real_##name parameters; \
    int __wrap_##name parameters; \
    int __wrap_##name parameters \
    { \
        farside_release(object); \
        return __real_##name arguments; \
    }
typedef const struct timespec deadline;
ACQUIRES(pthread_mutex_lock, (pthread_mutex_t * it), (it), it)
ACQUIRES(pthread_mutex_trylock, (pthread_mutex_t * it), (it), it)
ACQUIRES(pthread_mutex_timedlock, (pthread_mutex_t * it, deadline *end), (it, end), it)
RELEASES(pthread_mutex_unlock, (pthread_mutex_t * it), (it), it)
ACQUIRES(pthread_rwlock_rdlock, (pthread_rwlock_t * it), (it), it)
ACQUIRES(pthread_rwlock_tryrdlock, (pthread_rwlock_t * it), (it), it)
ACQUIRES(pthread_rwlock_wrlock, (pthread_rwlock_t * it), (it), it)
ACQUIRES(pthread_rwlock_trywrlock, (pthread_rwlock_t * it), (it), it)
RELEASES(pthread_rwlock_unlock, (pthread_rwlock_t * it), (it), it)
ACQUIRES(pthread_spin_lock, (pthread_spinlock_t * it), (it), (const void *) it)
ACQUIRES(pthread_spin_trylock, (pthread_spinlock_t * it), (it), (const void *) it)
RELEASES(pthread_spin_unlock, (pthread_spinlock_t * it), (it), (const void *) it)
ACQUIRES(sem_wait, (sem_t * it), (it), it)
ACQUIRES(sem_trywait, (sem_t * it), (it), it)
ACQUIRES(sem_timedwait, (sem_t * it, deadline *end), (it, end), it)
RELEASES(sem_post, (sem_t * it), (it), it)
RELEASES(pthread_cond_signal, (pthread_cond_t * it), (it), it)
RELEASES(pthread_cond_broadcast, (pthread_cond_t * it), (it), it)

#define WAITS(name, parameters, arguments) \
    int __real_##name parameters; \
    int __wrap_##name parameters; \
    int __wrap_##name parameters \
    { \
        farside_release(mutex); \
        int error = __real_##name arguments; \
        farside_acquire(mutex); \
        if (!error) { \
            farside_acquire(it); \
        } \
        return error; \
    }
WAITS(pthread_cond_wait, (pthread_cond_t * it, pthread_mutex_t *mutex), (it, mutex))
WAITS(pthread_cond_timedwait, (pthread_cond_t * it, pthread_mutex_t *mutex, deadline *end),
    (it, mutex, end))

int __real_pthread_barrier_wait(pthread_barrier_t *);
int __wrap_pthread_barrier_wait(pthread_barrier_t *barrier);
int __wrap_pthread_barrier_wait(pthread_barrier_t *barrier)
{
    farside_release(barrier);
    int result = __real_pthread_barrier_wait(barrier);
    farside_acquire(barrier);
    return result;
}

int __real_pthread_once(pthread_once_t *, void (*)(void));
int __wrap_pthread_once(pthread_once_t *once, void (*run)(void));
int __wrap_pthread_once(pthread_once_t *once, void (*run)(void))
{
    int error = __real_pthread_once(once, run);
    farside_release((const void *) once);
    farside_acquire((const void *) once);
    return error;
}
