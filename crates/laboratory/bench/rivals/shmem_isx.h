/* Integer sort by buckets, after ISx (Hanebutte and Hemstad, PGAS 2015): each
 * PE counts its random keys into one bucket for every PE, reserves room in the
 * memory of each by a fetching add, puts the bucket there, and counts what it
 * has got, which sorts it. Strong scaling: the keys are as many at any number
 * of PEs. */
#ifndef SHMEM_ISX_H
#define SHMEM_ISX_H

#include "shmem_bench.h"

enum {
    KEYS = 1 << 18,         /* all PEs together */
    KEY_END = 1 << 18,      /* keys are below */
    SORTS = 256             /* how often all is sorted; the first only warms up */
};

struct isx {
    long each, room;        /* keys of a PE at first; what it can take */
    int width;              /* keys of a bucket */
    int *keys, *buckets;    /* at first, and by bucket */
    int *counts;            /* how many of each key this PE has got */
    int *got;               /* symmetric */
    long *fill;             /* symmetric: how far `got` is reserved */
};

/* Puts the keys of each PE's bucket there. */
static void exchange(struct isx *isx)
{
    long size[pes], begin[pes], at[pes];
    memset(size, 0, sizeof size);
    for (long i = 0; i < isx->each; i++)
        size[isx->keys[i] / isx->width]++;
    for (long pe = 0, sum = 0; pe < pes; sum += size[pe++])
        begin[pe] = at[pe] = sum;
    for (long i = 0; i < isx->each; i++)
        isx->buckets[at[isx->keys[i] / isx->width]++] = isx->keys[i];
    for (int i = 0; i < pes; i++) {
        /* Each begins with another, or all would crowd at one. */
        int pe = (me + i) % pes;
        long offset = shmem_long_atomic_fetch_add(isx->fill, size[pe], pe);
        if (offset + size[pe] > isx->room) {
            fprintf(stderr, "isx: PE %d has no room for %ld keys\n", pe, offset + size[pe]);
            shmem_global_exit(1);
        }
        shmem_int_put(isx->got + offset, isx->buckets + begin[pe], (size_t)size[pe], pe);
    }
    shmem_barrier_all();
}

static void sort_keys(struct isx *isx, uint64_t *state)
{
    for (long i = 0; i < isx->each; i++)
        isx->keys[i] = (int)(next_random(state) >> 33) % KEY_END;
    *isx->fill = 0;
    shmem_barrier_all();
    exchange(isx);
    memset(isx->counts, 0, (size_t)isx->width * sizeof *isx->counts);
    for (long i = 0; i < *isx->fill; i++) {
        int key = isx->got[i] - me * isx->width;
        /* A key of another bucket is found by the check. */
        if (key >= 0 && key < isx->width)
            isx->counts[key]++;
    }
    shmem_barrier_all();
}

/* Whether all keys that were drawn are somewhere, and each where it belongs. */
static bool is_sorted(const struct isx *isx)
{
    static long sums[2];    /* symmetric: at PE 0, keys and their sum less what was drawn */
    long counted = 0, sum = 0;
    for (int key = 0; key < isx->width; key++) {
        counted += isx->counts[key];
        sum += (long)isx->counts[key] * (me * isx->width + key);
    }
    for (long i = 0; i < isx->each; i++)
        sum -= isx->keys[i];
    sums[0] = sums[1] = 0;
    shmem_barrier_all();
    shmem_long_atomic_add(&sums[0], counted - isx->each, 0);
    shmem_long_atomic_add(&sums[1], sum, 0);
    shmem_barrier_all();
    return counted == *isx->fill && (me != 0 || (sums[0] == 0 && sums[1] == 0));
}

static bool case_isx(const struct plan *plan)
{
    struct isx isx = { .each = KEYS / pes, .width = (KEY_END + pes - 1) / pes };
    /* Keys are spread evenly, but not quite. */
    isx.room = isx.each + isx.each / 4 + 1024;
    isx.keys = private((size_t)isx.each * sizeof *isx.keys);
    isx.buckets = private((size_t)isx.each * sizeof *isx.buckets);
    isx.counts = private((size_t)isx.width * sizeof *isx.counts);
    isx.got = symmetric((size_t)isx.room * sizeof *isx.got);
    isx.fill = symmetric(sizeof *isx.fill);
    uint64_t state = ((uint64_t)me + 1) * 0x9e3779b97f4a7c15u;
    int sorts = SORTS / (int)plan->part;
    int64_t start = 0;

    for (int i = 0; i < sorts; i++) {
        if (i == 1)
            start = now_ns();
        sort_keys(&isx, &state);
    }
    double ns = (double)(now_ns() - start);
    bool good = everywhere(is_sorted(&isx));
    shmem_free(isx.fill);
    shmem_free(isx.got);
    free(isx.counts);
    free(isx.buckets);
    free(isx.keys);
    if (!good)
        return fail("isx: keys are missing or in the wrong bucket");
    say("isx", 0, ns, (double)isx.each * pes * (sorts - 1) / ns * 1e9);
    return true;
}

#endif
