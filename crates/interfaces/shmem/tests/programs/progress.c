/* A PE that computes and calls nothing does not stop the others' operations on its memory: they
 * put, get, add, swap and signal there, and it goes on when the last of them has written a word
 * that it only loads. */
#include "check.h"

enum { WORDS = 2000, ROUNDS = 3 };

typedef struct {
    uint64_t released, count, signal;
    uint64_t data[MAX_PES][WORDS];
} memory;

static memory static_memory;

static void visit(memory *object, int busy, uint64_t round)
{
    static uint64_t own[WORDS], back[WORDS];
    for (int i = 0; i < WORDS; i++)
        own[i] = round * 1000000 + (uint64_t)(me * WORDS + i);
    shmem_uint64_put(object->data[me], own, WORDS, busy);
    shmem_quiet();
    shmem_uint64_get(back, object->data[me], WORDS, busy);
    CHECK_EQ(memcmp(own, back, sizeof own), 0);
    shmem_uint64_put_nbi(object->data[me], own, WORDS, busy);
    shmem_uint64_get_nbi(back, object->data[me], 1, busy);
    shmem_quiet();
    shmem_putmem_signal(object->data[me], own, sizeof own, &object->signal, 1, SHMEM_SIGNAL_ADD,
                        busy);
    shmem_quiet();
    uint64_t before = shmem_uint64_atomic_fetch_inc(&object->count, busy);
    CHECK(before < (uint64_t)pes);
    /* The last visitor lets the busy PE go. */
    if (before == (uint64_t)pes - 2) {
        CHECK_EQ(shmem_uint64_atomic_fetch(&object->signal, busy), pes - 1);
        CHECK_EQ(shmem_uint64_atomic_swap(&object->released, round, busy), 0);
    }
}

static void compute(memory *object, uint64_t round)
{
    volatile double sum = 0;
    unsigned long steps = 0;
    while (pes > 1 && __atomic_load_n(&object->released, __ATOMIC_ACQUIRE) != round) {
        for (int i = 1; i < 1000; i++)
            sum += 1.0 / i;
        steps++;
    }
    CHECK(pes == 1 || steps == 0 || sum > 0);
}

static void test(memory *object)
{
    for (uint64_t round = 1; round <= ROUNDS; round++)
        for (int busy = 0; busy < pes; busy++) {
            object->released = object->count = object->signal = 0;
            shmem_barrier_all();
            if (me == busy)
                compute(object, round);
            else
                visit(object, busy, round);
            shmem_barrier_all();
            if (me == busy)
                for (int pe = 0; pe < pes; pe++)
                    for (int i = 0; i < WORDS && pe != me; i += 7)
                        CHECK_AT("progress", pe, i, object->data[pe][i],
                                 round * 1000000 + (uint64_t)(pe * WORDS + i));
            shmem_barrier_all();
        }
}

int main(void)
{
    check_begin();
    memory *heap = heap_block(sizeof *heap);
    test(&static_memory);
    test(heap);
    shmem_free(heap);
    return check_end("progress");
}
