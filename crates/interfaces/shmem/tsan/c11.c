/* Threads of C11, for the checker of races: those of POSIX under other names, in the C library as
 * well as here. */

#define _GNU_SOURCE

#include "strand.h"

#include <pthread.h>
#include <stdlib.h>
#include <threads.h>

_Static_assert(sizeof(thrd_t) == sizeof(pthread_t), "thrd_t is a thread of POSIX");

int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);
int __wrap_pthread_join(pthread_t, void **);
int __wrap_pthread_detach(pthread_t);

struct start {
    thrd_start_t run;
    void *argument;
};

/* The C library's thrd_exit passes the result in the same way. */
static void *begin(void *argument)
{
    struct start start = *(struct start *) argument;
    free(argument);
    return (void *) (intptr_t) start.run(start.argument);
}

int __wrap_thrd_create(thrd_t *id, thrd_start_t run, void *argument);
int __wrap_thrd_create(thrd_t *id, thrd_start_t run, void *argument)
{
    struct start *start = malloc(sizeof(*start));
    if (!start) {
        return thrd_nomem;
    }
    *start = (struct start){run, argument};
    if (__wrap_pthread_create((pthread_t *) id, NULL, begin, start)) {
        free(start);
        return thrd_error;
    }
    return thrd_success;
}

int __wrap_thrd_join(thrd_t id, int *result);
int __wrap_thrd_join(thrd_t id, int *result)
{
    void *returned;
    if (__wrap_pthread_join((pthread_t) id, &returned)) {
        return thrd_error;
    }
    if (result) {
        *result = (int) (intptr_t) returned;
    }
    return thrd_success;
}

int __wrap_thrd_detach(thrd_t id);
int __wrap_thrd_detach(thrd_t id)
{
    return __wrap_pthread_detach((pthread_t) id) ? thrd_error : thrd_success;
}

#define ACQUIRES(name, parameters, arguments) \
    int __real_##name parameters; \
    int __wrap_##name parameters; \
    int __wrap_##name parameters \
    { \
        int error = __real_##name arguments; \
        if (error == thrd_success) { \
            farside_acquire(it); \
        } \
        return error; \
    }
#define RELEASES(name, parameters, arguments) \
    int __real_##name parameters; \
    int __wrap_##name parameters; \
    int __wrap_##name parameters \
    { \
        farside_release(it); \
        return __real_##name arguments; \
    }
#define WAITS(name, parameters, arguments) \
    int __real_##name parameters; \
    int __wrap_##name parameters; \
    int __wrap_##name parameters \
    { \
        farside_release(mutex); \
        int error = __real_##name arguments; \
        farside_acquire(mutex); \
        if (error == thrd_success) { \
            farside_acquire(it); \
        } \
        return error; \
    }
typedef const struct timespec deadline;
ACQUIRES(mtx_lock, (mtx_t * it), (it))
ACQUIRES(mtx_trylock, (mtx_t * it), (it))
ACQUIRES(mtx_timedlock, (mtx_t * it, deadline *end), (it, end))
RELEASES(mtx_unlock, (mtx_t * it), (it))
RELEASES(cnd_signal, (cnd_t * it), (it))
RELEASES(cnd_broadcast, (cnd_t * it), (it))
WAITS(cnd_wait, (cnd_t * it, mtx_t *mutex), (it, mutex))
WAITS(cnd_timedwait, (cnd_t * it, mtx_t *mutex, deadline *end), (it, mutex, end))

void __real_call_once(once_flag *, void (*)(void));
void __wrap_call_once(once_flag *once, void (*run)(void));
void __wrap_call_once(once_flag *once, void (*run)(void))
{
    __real_call_once(once, run);
    farside_release(once);
    farside_acquire(once);
}
