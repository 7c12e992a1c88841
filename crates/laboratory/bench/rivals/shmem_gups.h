/* Random updates of a distributed table, after RandomAccess of the HPC
 * Challenge: each PE draws up to 1024 random words ahead, and each word is
 * xored into the place of the table that it names.
 *
 * `gups` does it by atomics: no update may be lost. `gups_getput` does it by a
 * get and a put, as the OpenSHMEM versions of the benchmark do: updates that
 * cross are lost, and one in a hundred may be. Differs: the words come from the
 * generator of rival.h, one sequence a PE, and the table is small. */
#ifndef SHMEM_GUPS_H
#define SHMEM_GUPS_H

#include "shmem_bench.h"

enum {
    TABLE = 1 << 20,        /* words of the table, all PEs together */
    LOOK_AHEAD = 1024,      /* words that a PE draws before it updates */
    UPDATES = 1 << 24       /* all PEs together */
};

struct place {
    int pe;
    long at;
};

/* The place that a random word names; every PE has equally many. */
static struct place place_of(uint64_t word, long each)
{
    uint64_t index = (word >> 20) % ((uint64_t)each * (uint64_t)pes);
    return (struct place){ (int)(index / (uint64_t)each), (long)(index % (uint64_t)each) };
}

static uint64_t first_of(int pe)
{
    return ((uint64_t)pe + 1) * 0x9e3779b97f4a7c15u;
}

static void update(unsigned long *table, long each, long updates, bool by_atomics)
{
    uint64_t state = first_of(me), ahead[LOOK_AHEAD];
    while (updates > 0) {
        int count = updates < LOOK_AHEAD ? (int)updates : LOOK_AHEAD;
        for (int i = 0; i < count; i++)
            ahead[i] = next_random(&state);
        for (int i = 0; i < count; i++) {
            struct place place = place_of(ahead[i], each);
            unsigned long *word = table + place.at;
            if (by_atomics)
                shmem_ulong_atomic_xor(word, ahead[i], place.pe);
            else
                shmem_ulong_p(word, shmem_ulong_g(word, place.pe) ^ ahead[i], place.pe);
        }
        shmem_quiet();
        updates -= count;
    }
}

/* Takes all updates of this PE's part back, and counts the words that are not
 * what they were at first. */
static long lost(unsigned long *table, long each, long updates)
{
    long wrong = 0;
    for (int pe = 0; pe < pes; pe++) {
        uint64_t state = first_of(pe);
        for (long i = 0; i < updates; i++) {
            uint64_t word = next_random(&state);
            struct place place = place_of(word, each);
            if (place.pe == me)
                table[place.at] ^= word;
        }
    }
    for (long i = 0; i < each; i++)
        wrong += table[i] != (unsigned long)(me * each + i);
    return wrong;
}

static bool gups(const char *name, long all_updates, bool by_atomics)
{
    long each = TABLE / pes, updates = all_updates / pes;
    unsigned long *table = symmetric((size_t)each * sizeof *table);
    for (long i = 0; i < each; i++)
        table[i] = (unsigned long)(me * each + i);
    shmem_barrier_all();

    int64_t start = now_ns();
    update(table, each, updates, by_atomics);
    shmem_barrier_all();
    double ns = (double)(now_ns() - start);

    long wrong = lost(table, each, updates), tolerated = by_atomics ? 0 : each / 100;
    bool good = everywhere(wrong <= tolerated);
    shmem_free(table);
    if (!good)
        return fail("%s: more updates are lost than the %ld of a PE that may be", name, tolerated);
    say(name, 0, ns, (double)updates * pes / ns * 1e9);
    return true;
}

static bool case_gups(const struct plan *plan)
{
    return gups("gups", UPDATES / plan->part, true);
}

static bool case_gups_getput(const struct plan *plan)
{
    return gups("gups_getput", UPDATES / plan->part, false);
}

#endif
