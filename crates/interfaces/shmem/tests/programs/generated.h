/* Programs that a seed stands for: what all PEs draw alike, and the memory that they must find.
 *
 * Every PE draws the whole program, its own calls and those of the others, and applies all of them
 * to a model of the memory of all PEs. A program has no races: in a phase no two calls touch the
 * same bytes, unless they are atomics whose order does not matter. */
#ifndef GENERATED_H
#define GENERATED_H

#include "check.h"

/* Libraries of version 1.4 have no teams, signals, waits for several words or atomics that do not
 * block. */
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
#define HAS_TEAMS 1
#else
#define HAS_TEAMS 0
#endif

/* With 1, what Open MPI 4.1.4 cannot do is left out: fetching atomics of bits, which change
 * nothing; compare-and-swap of 4 bytes, which writes 8; loops of shmem_test_lock, in which nothing
 * progresses; gets that do not block, of which some come after the quiet. */
#ifndef FOR_OPEN_MPI
#define FOR_OPEN_MPI 0
#endif

static uint64_t drawn;
static unsigned long seed;
static int phase;
static const char *doing;

static inline uint64_t mixed(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* A number below a limit, the same on all PEs. */
static inline unsigned draw(unsigned limit)
{
    drawn = mixed(drawn);
    return (unsigned)(drawn % limit);
}

/* What a place of a PE holds in a phase before anybody writes. */
static inline uint64_t value_at(int pe, uint64_t place)
{
    return mixed(mixed(seed * 1000 + (uint64_t)phase) ^ (uint64_t)pe << 32 ^ place);
}

/* Tells what this PE does, if GENERATED_TRACE is set: the last lines before an error say where. */
static inline void trace(const char *what, int number, const void *at, int pe)
{
    static int is_wanted = -1;
    doing = what;
    if (is_wanted < 0)
        is_wanted = getenv("GENERATED_TRACE") != NULL;
    if (is_wanted)
        fprintf(stderr, "PE %d, seed %lu, phase %d: %s, call %d, %p, PE %d\n", me, seed, phase,
                what, number, at, pe);
}

static inline void expect(const char *what, long at, uint64_t actual, uint64_t expected)
{
    check_count();
    if (actual != expected)
        check_fail(__FILE__, __LINE__, "seed %lu, phase %d (%s): %s, %ld: %#llx, not %#llx", seed,
                   phase, doing, what, at, (unsigned long long)actual,
                   (unsigned long long)expected);
}

static inline void expect_bytes(const char *what, const void *actual, const void *expected,
                                size_t size)
{
    const unsigned char *a = actual, *b = expected;
    check_count();
    for (size_t i = 0; i < size && memcmp(a, b, size) != 0; i++)
        expect(what, (long)i, a[i], b[i]);
}

/* Groups of PEs, each in the order of its numbers: PEs of one number are one group, those of -1 are
 * in none. */
typedef struct {
    int number[MAX_PES];
#if HAS_TEAMS
    shmem_team_t team;
    shmem_ctx_t ctx;
#endif
} grouping;

static inline int group_size(const grouping *groups, int of)
{
    int size = 0;
    for (int pe = 0; pe < pes; pe++)
        size += groups->number[pe] == groups->number[of];
    return size;
}

static inline int index_of(const grouping *groups, int pe)
{
    int at = 0;
    for (int i = 0; i < pe; i++)
        at += groups->number[i] == groups->number[pe];
    return at;
}

/* The member at an index of the group of a PE. */
static inline int member_at(const grouping *groups, int of, int at)
{
    int pe = 0;
    for (int left = at;; pe++)
        if (groups->number[pe] == groups->number[of] && left-- == 0)
            return pe;
}

/* The memory that transfers go to, and what it must be on every PE. */
enum { AREA = 8192, AREAS = 2 };
static unsigned char *areas[AREAS], model[AREAS][MAX_PES][AREA];
static _Alignas(16) unsigned char fixed_areas[AREAS][AREA];

/* How much of the memory of each PE that is written, and that is read into, the calls of a phase
 * have got. */
static size_t used[MAX_PES], used_near[MAX_PES];

/* A place of some bytes that no other call of the phase has, or AREA if there is none. */
static inline size_t place_in(size_t *end, size_t size, size_t align)
{
    size_t at = (*end + draw(3) * 8 + align - 1) / align * align;
    if (at + size > AREA)
        return AREA;
    *end = at + size;
    return at;
}

/* What a PE sends from: bytes that everybody knows. */
static _Alignas(16) unsigned char source_fixed[AREA];
static unsigned char *source;

static inline void fill_source(unsigned char *into, int pe)
{
    for (size_t i = 0; i < AREA; i += 8) {
        uint64_t word = value_at(pe, i);
        memcpy(into + i, &word, 8);
    }
}

/* Ends the calls of a phase: all is complete on all PEs. */
static inline void meet(void)
{
    switch (draw(3)) {
    case 0:
        shmem_barrier_all();
        break;
    case 1:
        shmem_quiet();
        shmem_sync_all();
        break;
    default:
        shmem_barrier_all();
        shmem_sync_all();
    }
}

enum { CONTEXTS = 3, GROUPINGS = 5 };

/* Contexts of the world; the last one is the default context. */
static shmem_ctx_t contexts[CONTEXTS + 1];
#if HAS_TEAMS
static grouping groupings[GROUPINGS];
#endif

/* The context of a call of a PE, drawn alike by all, and the number that a target has in it. */
typedef struct {
    shmem_ctx_t ctx;
    int is_plain, pe;
} way;

static inline way way_to(int origin, int target)
{
    unsigned which = draw(CONTEXTS + 3), team = draw(GROUPINGS);
#if HAS_TEAMS
    const grouping *groups = &groupings[team];
    if (which == CONTEXTS + 2 && groups->number[origin] >= 0
        && groups->number[origin] == groups->number[target])
        return (way){groups->ctx, 0, index_of(groups, target)};
#else
    (void)team, (void)origin;
#endif
    if (which > CONTEXTS)
        return (way){SHMEM_CTX_DEFAULT, 1, target};
    return (way){contexts[which], 0, target};
}

static inline void quiet_all(void)
{
    for (int i = 0; i < CONTEXTS; i++)
        shmem_ctx_quiet(contexts[i]);
#if HAS_TEAMS
    for (int i = 0; i < GROUPINGS; i++)
        if (groupings[i].number[me] >= 0)
            shmem_ctx_quiet(groupings[i].ctx);
#endif
    shmem_quiet();
}

#endif
