/* Several threads of each rank in one-sided calls, on windows of their own and on the same one. An
 * MPI that does not provide MPI_THREAD_MULTIPLE has nothing to show here. */
#include <pthread.h>
#include "case.h"

enum { THREADS = 4, ROUNDS = 40 };

static bool has_threads(void)
{
    int level;
    MPI_Query_thread(&level);
    return CHECK(level == MPI_THREAD_MULTIPLE);
}

struct worker {
    int number;
    MPI_Win win;
    MPI_Comm comm;
    int *base;
    pthread_t thread;
};

static void run(struct worker *workers, void *(*work)(void *))
{
    for (int i = 0; i < THREADS; i++) {
        workers[i].number = i;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
}

static void *use_own_window(void *argument)
{
    struct worker *worker = argument;
    int value, back;
    for (int i = 0; i < ROUNDS; i++) {
        value = me * 1000 + worker->number * 100 + i;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, worker->win));
        OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, worker->win));
        OK(MPI_Win_flush(right(), worker->win));
        OK(MPI_Get(&back, 1, MPI_INT, right(), 0, 1, MPI_INT, worker->win));
        OK(MPI_Win_unlock(right(), worker->win));
        EQ(back, value);
    }
    return NULL;
}

static void windows_of_their_own(void)
{
    struct worker workers[THREADS];
    if (!has_threads())
        return;
    for (int i = 0; i < THREADS; i++)
        workers[i].win = make_ints(1, &workers[i].base);
    run(workers, use_own_window);
    for (int i = 0; i < THREADS; i++) {
        settle(workers[i].win);
        EQ(workers[i].base[0], left() * 1000 + i * 100 + ROUNDS - 1);
        OK(MPI_Win_free(&workers[i].win));
    }
}

static void *add_to_the_same(void *argument)
{
    struct worker *worker = argument;
    int one = 1, old;
    for (int i = 0; i < ROUNDS; i++)
        for (int to = 0; to < ranks; to++) {
            if ((i + worker->number) % 2 == 0) {
                OK(MPI_Accumulate(&one, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, worker->win));
            } else {
                OK(MPI_Fetch_and_op(&one, &old, MPI_INT, to, 0, MPI_SUM, worker->win));
            }
            OK(MPI_Win_flush(to, worker->win));
        }
    return NULL;
}

static void the_same_window(void)
{
    struct worker workers[THREADS];
    int *base;
    if (!has_threads())
        return;
    MPI_Win win = make_ints(1, &base);
    for (int i = 0; i < THREADS; i++)
        workers[i].win = win;
    OK(MPI_Win_lock_all(0, win));
    run(workers, add_to_the_same);
    OK(MPI_Win_unlock_all(win));
    settle(win);
    EQ(base[0], THREADS * ROUNDS * ranks);
    OK(MPI_Win_free(&win));
}

static void *put_to_own_place(void *argument)
{
    struct worker *worker = argument;
    int value;
    MPI_Request request;
    for (int i = 0; i < ROUNDS; i++) {
        value = me * 1000 + worker->number * 100 + i;
        OK(MPI_Rput(&value, 1, MPI_INT, right(), worker->number * ROUNDS + i, 1, MPI_INT,
                    worker->win, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    return NULL;
}

static void requests_on_the_same_window(void)
{
    struct worker workers[THREADS];
    int *base;
    if (!has_threads())
        return;
    MPI_Win win = make_ints(THREADS * ROUNDS, &base);
    for (int i = 0; i < THREADS; i++)
        workers[i].win = win;
    OK(MPI_Win_lock_all(0, win));
    run(workers, put_to_own_place);
    OK(MPI_Win_unlock_all(win));
    settle(win);
    for (int i = 0; i < THREADS * ROUNDS; i++)
        EQ(base[i], left() * 1000 + i / ROUNDS * 100 + i % ROUNDS);
    OK(MPI_Win_free(&win));
}

static void *fence_in_a_thread(void *argument)
{
    struct worker *worker = argument;
    int value;
    for (int i = 0; i < 8; i++) {
        value = me + i;
        OK(MPI_Win_fence(0, worker->win));
        OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, worker->win));
        OK(MPI_Win_fence(0, worker->win));
        EQ(worker->base[0], left() + i);
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, worker->win));
    return NULL;
}

/* Fences of different windows at the same time, in whichever order the threads come to them. */
static void fences_of_different_windows(void)
{
    struct worker workers[THREADS];
    if (!has_threads())
        return;
    for (int i = 0; i < THREADS; i++)
        workers[i].win = make_ints(1, &workers[i].base);
    run(workers, fence_in_a_thread);
    for (int i = 0; i < THREADS; i++)
        OK(MPI_Win_free(&workers[i].win));
}

static void *make_and_free(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < 4; i++) {
        int *base, value = me + worker->number;
        MPI_Win win;
        OK(MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, worker->comm, &base, &win));
        OK(MPI_Win_fence(0, win));
        OK(MPI_Put(&value, 1, MPI_INT, right(), 2, 1, MPI_INT, win));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
        EQ(base[2], left() + worker->number);
        OK(MPI_Win_free(&win));
    }
    return NULL;
}

/* Windows made and freed by threads, each over a communicator of its own. */
static void windows_made_by_threads(void)
{
    struct worker workers[THREADS];
    if (!has_threads())
        return;
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    run(workers, make_and_free);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&workers[i].comm);
}

static void *use_own_types(void *argument)
{
    struct worker *worker = argument;
    int out[8], number = worker->number;
    for (int i = 0; i < 8; i++)
        out[i] = number * 10 + i;
    for (int round = 0; round < 20; round++) {
        MPI_Datatype type;
        MPI_Type_vector(4, 1, 2 + number, MPI_INT, &type);
        OK(MPI_Type_commit(&type));
        OK(MPI_Put(out, 4, MPI_INT, right(), number * 32, 1, type, worker->win));
        OK(MPI_Win_flush(right(), worker->win));
        OK(MPI_Type_free(&type));
    }
    return NULL;
}

static void datatypes_of_threads(void)
{
    struct worker workers[THREADS];
    int *base;
    if (!has_threads())
        return;
    MPI_Win win = make_ints(THREADS * 32, &base);
    for (int i = 0; i < THREADS; i++)
        workers[i].win = win;
    OK(MPI_Win_lock_all(0, win));
    run(workers, use_own_types);
    OK(MPI_Win_unlock_all(win));
    settle(win);
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < 32; i++)
            EQ(base[t * 32 + i], i % (2 + t) == 0 && i < 4 * (2 + t) ? t * 10 + i / (2 + t) : 0);
    OK(MPI_Win_free(&win));
}

static void *send_to_the_right(void *argument)
{
    struct worker *worker = argument;
    int value, got;
    for (int i = 0; i < ROUNDS; i++) {
        value = me + i;
        MPI_Sendrecv(&value, 1, MPI_INT, right(), worker->number, &got, 1, MPI_INT, left(),
                     worker->number, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EQ(got, left() + i);
    }
    return NULL;
}

static void *either(void *argument)
{
    struct worker *worker = argument;
    return worker->number % 2 == 0 ? send_to_the_right(worker) : add_to_the_same(worker);
}

/* Some threads send messages, others update memory. */
static void messages_beside_updates(void)
{
    struct worker workers[THREADS];
    int *base;
    if (!has_threads())
        return;
    MPI_Win win = make_ints(1, &base);
    for (int i = 0; i < THREADS; i++)
        workers[i].win = win;
    OK(MPI_Win_lock_all(0, win));
    run(workers, either);
    OK(MPI_Win_unlock_all(win));
    settle(win);
    EQ(base[0], THREADS / 2 * ROUNDS * ranks);
    OK(MPI_Win_free(&win));
}

/* Two ints that their owner changes one after the other, under an exclusive lock. */
static void *read_both(void *argument)
{
    struct worker *worker = argument;
    int pair[2], target = (1 + worker->number) % ranks;
    for (int i = 0; i < ROUNDS; i++) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, worker->win));
        OK(MPI_Get(pair, 2, MPI_INT, target, 0, 2, MPI_INT, worker->win));
        OK(MPI_Win_flush(target, worker->win));
        EQ(pair[0], pair[1]);
        OK(MPI_Win_unlock(target, worker->win));
    }
    return NULL;
}

/* Each thread of rank 0 waits for the lock of another target at the same time: the owners hold
 * theirs for so long that both threads sleep. */
static void locks_of_different_targets(void)
{
    struct worker workers[2];
    int *base;
    if (!has_threads())
        return;
    MPI_Win win = make_ints(2, &base);
    for (int i = 0; i < 2; i++) {
        workers[i].number = i;
        workers[i].win = win;
        if (me == 0)
            pthread_create(&workers[i].thread, NULL, read_both, &workers[i]);
    }
    for (int i = 1; i < ROUNDS && me > 0; i++) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win));
        ((volatile int *)base)[0] = i;
        usleep(2000 * (unsigned)me);
        ((volatile int *)base)[1] = i;
        OK(MPI_Win_unlock(me, win));
    }
    for (int i = 0; i < 2 && me == 0; i++)
        pthread_join(workers[i].thread, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

static const struct test cases[] = {
    CASE(windows_of_their_own), CASE(the_same_window), CASE(requests_on_the_same_window),
    CASE(fences_of_different_windows), CASE(windows_made_by_threads), CASE(datatypes_of_threads),
    CASE(messages_beside_updates),
    CASE(locks_of_different_targets),
};

int main(int argc, char **argv)
{
    return run_cases(argc, argv, MPI_THREAD_MULTIPLE, cases, COUNT(cases));
}
