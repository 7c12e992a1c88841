/* Phases of generated programs with collectives: of teams, and of active sets. */
#ifndef GENERATED_COLLECTIVES_H
#define GENERATED_COLLECTIVES_H

#include "generated.h"

/* The calls of a phase have memory of their own: a call may write it before another PE has left the
 * call before. */
enum { CALLS = 4, ROOM = 8192, COUNT_MAX = 6, STRIDE_MAX = 3 };
static _Alignas(16) unsigned char call_sources[CALLS][ROOM], call_results[CALLS][ROOM];

enum collective {
    MEET, BROADCAST, FCOLLECT, COLLECT, ALLTOALL, ALLTOALLS,
    REDUCE_SUM, REDUCE_PROD, REDUCE_MIN, REDUCE_MAX, REDUCE_AND, REDUCE_OR, REDUCE_XOR, COLLECTIVES
};

typedef struct {
    enum collective kind;
    void *result, *source;
    /* Of a collect, by PE; else the same for all. */
    size_t counts[MAX_PES];
    ptrdiff_t result_stride, source_stride;
    int root;
#if HAS_TEAMS
    shmem_team_t team;
#endif
    int start, log_stride, size;
    long *sync;
} collective;

/* The element that a PE has at a place of a call: small, so that every result is exact. */
static inline long element(int call, int pe, size_t at)
{
    return (long)(value_at(pe, (uint64_t)call << 32 | at) % 5);
}

/* Draws the kind of a call and its sizes. */
static inline collective draw_collective(int has_bits)
{
    collective c = {.kind = (enum collective)draw(has_bits ? COLLECTIVES : REDUCE_AND)};
    size_t count = draw(COUNT_MAX + 1);
    for (int pe = 0; pe < pes; pe++) {
        size_t own = draw(COUNT_MAX + 1);
        c.counts[pe] = c.kind == COLLECT ? own : count;
    }
    c.result_stride = 1 + (ptrdiff_t)draw(STRIDE_MAX);
    c.source_stride = 1 + (ptrdiff_t)draw(STRIDE_MAX);
    return c;
}

static inline long folded(enum collective kind, long a, long b)
{
    switch (kind) {
    case REDUCE_SUM: return a + b;
    case REDUCE_PROD: return (long)((unsigned long)a * (unsigned long)b);
    case REDUCE_MIN: return a < b ? a : b;
    case REDUCE_MAX: return a > b ? a : b;
    case REDUCE_AND: return a & b;
    case REDUCE_OR: return a | b;
    default: return a ^ b;
    }
}

/* What the results of this PE must be; -1 where nothing is written. */
static inline void expected_results(const collective *c, int call, const grouping *groups,
                                    long results[ROOM])
{
    int size = group_size(groups, me), own = index_of(groups, me);
    size_t count = c->counts[me], at = 0;
    for (size_t i = 0; i < ROOM; i++)
        results[i] = -1;
    for (int k = 0; k < size; k++) {
        int pe = member_at(groups, me, k);
        size_t theirs = c->counts[pe];
        for (size_t i = 0; i < theirs; i++) {
            switch (c->kind) {
            case MEET: break;
            case BROADCAST:
                results[i] = element(call, member_at(groups, me, c->root), i);
                break;
            case FCOLLECT: case COLLECT: results[at++] = element(call, pe, i); break;
            case ALLTOALL:
                results[(size_t)k * count + i] = element(call, pe, (size_t)own * count + i);
                break;
            case ALLTOALLS:
                results[((size_t)k * count + i) * (size_t)c->result_stride] =
                    element(call, pe, ((size_t)own * count + i) * (size_t)c->source_stride);
                break;
            default:
                results[i] = k == 0 ? element(call, pe, i)
                                    : folded(c->kind, results[i], element(call, pe, i));
            }
        }
    }
}

/* Sources, results and their comparison by type. */
#define ELEMENTS(NAME, TYPE)                                                                       \
    static void fill_##NAME(const collective *c, int call)                                         \
    {                                                                                              \
        TYPE *from = c->source, *into = c->result;                                                 \
        for (size_t i = 0; i < ROOM / sizeof(TYPE); i++) {                                         \
            into[i] = (TYPE)111;                                                                   \
            from[i] = (TYPE)element(call, me, i);                                                  \
        }                                                                                          \
    }                                                                                              \
    static void check_##NAME(const collective *c, const long *results)                             \
    {                                                                                              \
        const TYPE *found = c->result;                                                             \
        for (size_t i = 0; i < ROOM / sizeof(TYPE); i++) {                                         \
            TYPE right = results[i] == -1 ? (TYPE)111 : (TYPE)results[i];                          \
            if (c->result == c->source && results[i] == -1)                                        \
                right = found[i];                                                                  \
            expect("a result of a collective", (long)i, (uint64_t)(long)found[i],                  \
                   (uint64_t)(long)right);                                                         \
        }                                                                                          \
    }

typedef struct {
    const char *name;
    int has_bits;
    void (*fill)(const collective *, int);
    void (*run)(const collective *);
    void (*check)(const collective *, const long *);
} collective_type;

#if HAS_TEAMS
#define TEAM_CALLS(NAME)                                                                           \
    case MEET: failed = shmem_team_sync(c->team); break;                                           \
    case BROADCAST: failed = shmem_##NAME##_broadcast(c->team, to, from, n, c->root); break;       \
    case FCOLLECT: failed = shmem_##NAME##_fcollect(c->team, to, from, n); break;                  \
    case COLLECT: failed = shmem_##NAME##_collect(c->team, to, from, n); break;                    \
    case ALLTOALL: failed = shmem_##NAME##_alltoall(c->team, to, from, n); break;                  \
    case ALLTOALLS:                                                                                \
        failed = shmem_##NAME##_alltoalls(c->team, to, from, c->result_stride, c->source_stride,   \
                                          n);                                                      \
        break;                                                                                     \
    case REDUCE_SUM: failed = shmem_##NAME##_sum_reduce(c->team, to, from, n); break;              \
    case REDUCE_PROD: failed = shmem_##NAME##_prod_reduce(c->team, to, from, n); break;            \
    case REDUCE_MIN: failed = shmem_##NAME##_min_reduce(c->team, to, from, n); break;              \
    case REDUCE_MAX: failed = shmem_##NAME##_max_reduce(c->team, to, from, n); break;
#define TEAM_BITS(NAME)                                                                            \
    case REDUCE_AND: failed = shmem_##NAME##_and_reduce(c->team, to, from, n); break;              \
    case REDUCE_OR: failed = shmem_##NAME##_or_reduce(c->team, to, from, n); break;                \
    case REDUCE_XOR: failed = shmem_##NAME##_xor_reduce(c->team, to, from, n); break;
#define NO_TEAM_BITS(NAME)
#define TEAM_TYPE(NAME, TYPE, BITS)                                                                \
    ELEMENTS(team_##NAME, TYPE)                                                                    \
    static void team_##NAME(const collective *c)                                                   \
    {                                                                                              \
        TYPE *to = c->result, *from = c->source;                                                   \
        size_t n = c->counts[me];                                                                  \
        int failed = 0;                                                                            \
        switch (c->kind) {                                                                         \
            TEAM_CALLS(NAME)                                                                       \
            BITS(NAME)                                                                             \
        default: break;                                                                            \
        }                                                                                          \
        expect("the status of a collective", 0, (uint64_t)failed, 0);                              \
    }
#define TEAM_TYPES(X)                                                                              \
    X(uchar, unsigned char, TEAM_BITS) X(short, short, TEAM_BITS) X(int, int, TEAM_BITS)           \
    X(long, long, TEAM_BITS) X(uint64, uint64_t, TEAM_BITS) X(size, size_t, TEAM_BITS)             \
    X(float, float, NO_TEAM_BITS) X(double, double, NO_TEAM_BITS)                                  \
    X(longdouble, long double, NO_TEAM_BITS)
TEAM_TYPES(TEAM_TYPE)
#define HAS_TEAM_BITS 1
#define HAS_NO_TEAM_BITS 0
#define TEAM_ROW(NAME, TYPE, BITS)                                                                 \
    {#NAME, HAS_##BITS, fill_team_##NAME, team_##NAME, check_team_##NAME},
static const collective_type team_types[] = {TEAM_TYPES(TEAM_ROW)};

static inline void team_collectives(void)
{
    static long results[ROOM];
    for (int call = 0; call < CALLS; call++) {
        const collective_type *type = &team_types[draw(sizeof team_types / sizeof *team_types)];
        const grouping *groups = &groupings[draw(GROUPINGS)];
        collective c = draw_collective(type->has_bits);
        unsigned root = draw(MAX_PES), in_place = draw(3);
        if (groups->number[me] < 0)
            continue;
        trace(type->name, c.kind, groups, c.root);
        c.team = groups->team;
        c.root = (int)root % group_size(groups, me);
        c.source = call_sources[call];
        c.result = c.kind >= REDUCE_SUM && in_place == 0 ? c.source : call_results[call];
        type->fill(&c, call);
        /* The members begin when the memory of all of them is ready. */
        expect("the status of a sync", 0, (uint64_t)shmem_team_sync(c.team), 0);
        if (c.kind == BROADCAST || c.kind == MEET)
            for (int pe = 0; pe < pes; pe++)
                c.counts[pe] = c.counts[me];
        type->run(&c);
        expected_results(&c, call, groups, results);
        type->check(&c, results);
    }
    meet();
}

static inline void begin_groupings(void)
{
    int start = (int)draw((unsigned)pes), stride = 1 + (int)draw(3);
    int size = 1 + (int)draw((unsigned)((pes - 1 - start) / stride) + 1);
    int inner = (int)draw((unsigned)size), inner_stride = 1 + (int)draw(2);
    int inner_size = 1 + (int)draw((unsigned)((size - 1 - inner) / inner_stride) + 1);
    int range = 1 + (int)draw((unsigned)pes);
    for (int pe = 0; pe < pes; pe++) {
        int at = (pe - start) % stride == 0 && pe >= start ? (pe - start) / stride : size;
        int is_inner = at < size && at >= inner && (at - inner) % inner_stride == 0
                       && (at - inner) / inner_stride < inner_size;
        groupings[0].number[pe] = 0;
        groupings[1].number[pe] = at < size ? 0 : -1;
        groupings[2].number[pe] = is_inner ? 0 : -1;
        groupings[3].number[pe] = pe / range;
        groupings[4].number[pe] = pe % range;
    }
    groupings[0].team = SHMEM_TEAM_WORLD;
    groupings[1].team = groupings[2].team = SHMEM_TEAM_INVALID;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, NULL, 0, &groupings[1].team);
    if (groupings[1].number[me] >= 0)
        shmem_team_split_strided(groupings[1].team, inner, inner_stride, inner_size, NULL, 0,
                                 &groupings[2].team);
    CHECK_EQ(shmem_team_split_2d(SHMEM_TEAM_WORLD, range, NULL, 0, &groupings[3].team, NULL, 0,
                                 &groupings[4].team), 0);
    for (int i = 0; i < GROUPINGS; i++) {
        int is_member = groupings[i].number[me] >= 0;
        CHECK_EQ(groupings[i].team != SHMEM_TEAM_INVALID, is_member);
        if (!is_member)
            continue;
        CHECK_EQ(shmem_team_n_pes(groupings[i].team), group_size(&groupings[i], me));
        CHECK_EQ(shmem_team_my_pe(groupings[i].team), index_of(&groupings[i], me));
        CHECK_EQ(shmem_team_create_ctx(groupings[i].team, 0, &groupings[i].ctx), 0);
    }
}

static inline void end_groupings(void)
{
    for (int i = 0; i < GROUPINGS; i++)
        if (groupings[i].number[me] >= 0)
            shmem_ctx_destroy(groupings[i].ctx);
    for (int i = 1; i < GROUPINGS; i++)
        if (groupings[i].number[me] >= 0)
            shmem_team_destroy(groupings[i].team);
}
#else
static inline void begin_groupings(void) {}
static inline void end_groupings(void) {}
#endif

/* Active sets. */
#define SET_CALLS(BITS)                                                                            \
    case MEET: shmem_barrier(SET, c->sync); break;                                                 \
    case BROADCAST: shmem_broadcast##BITS(to, from, n, c->root, SET, c->sync); break;              \
    case FCOLLECT: shmem_fcollect##BITS(to, from, n, SET, c->sync); break;                         \
    case COLLECT: shmem_collect##BITS(to, from, n, SET, c->sync); break;                           \
    case ALLTOALL: shmem_alltoall##BITS(to, from, n, SET, c->sync); break;                         \
    case ALLTOALLS:                                                                                \
        shmem_alltoalls##BITS(to, from, c->result_stride, c->source_stride, n, SET, c->sync);      \
        break;
#define SET_REDUCE(NAME)                                                                           \
    case REDUCE_SUM: shmem_##NAME##_sum_to_all(to, from, (int)n, SET, work, c->sync); break;       \
    case REDUCE_PROD: shmem_##NAME##_prod_to_all(to, from, (int)n, SET, work, c->sync); break;     \
    case REDUCE_MIN: shmem_##NAME##_min_to_all(to, from, (int)n, SET, work, c->sync); break;       \
    case REDUCE_MAX: shmem_##NAME##_max_to_all(to, from, (int)n, SET, work, c->sync); break;
#define SET_BITS(NAME)                                                                             \
    case REDUCE_AND: shmem_##NAME##_and_to_all(to, from, (int)n, SET, work, c->sync); break;       \
    case REDUCE_OR: shmem_##NAME##_or_to_all(to, from, (int)n, SET, work, c->sync); break;         \
    case REDUCE_XOR: shmem_##NAME##_xor_to_all(to, from, (int)n, SET, work, c->sync); break;
#define NO_SET_BITS(NAME)
#define SET c->start, c->log_stride, c->size

enum {
    WORK = SHMEM_REDUCE_MIN_WRKDATA_SIZE > COUNT_MAX ? SHMEM_REDUCE_MIN_WRKDATA_SIZE : COUNT_MAX
};

#define SET_TYPE(NAME, TYPE, SIZE, BITS)                                                           \
    ELEMENTS(set_##NAME, TYPE)                                                                     \
    static void set_##NAME(const collective *c)                                                    \
    {                                                                                              \
        static TYPE works[CALLS][WORK];                                                            \
        static unsigned turn;                                                                      \
        TYPE *to = c->result, *from = c->source, *work = works[turn++ % CALLS];                    \
        size_t n = c->counts[me];                                                                  \
        switch (c->kind) {                                                                         \
            SET_CALLS(SIZE)                                                                        \
            SET_REDUCE(NAME)                                                                       \
            BITS(NAME)                                                                             \
        default: break;                                                                            \
        }                                                                                          \
    }
#define SET_TYPES(X)                                                                               \
    X(int, int, 32, SET_BITS) X(long, long, 64, SET_BITS) X(longlong, long long, 64, SET_BITS)     \
    X(float, float, 32, NO_SET_BITS) X(double, double, 64, NO_SET_BITS)
SET_TYPES(SET_TYPE)
#define HAS_SET_BITS 1
#define HAS_NO_SET_BITS 0
#define SET_ROW(NAME, TYPE, SIZE, BITS)                                                            \
    {#NAME, HAS_##BITS, fill_set_##NAME, set_##NAME, check_set_##NAME},
static const collective_type set_types[] = {SET_TYPES(SET_ROW)};

/* The longest pSync array of all calls. */
#define LONGER(a, b) ((a) > (b) ? (a) : (b))
enum {
    SYNC = LONGER(LONGER(LONGER(SHMEM_BARRIER_SYNC_SIZE, SHMEM_BCAST_SYNC_SIZE),
                         LONGER(SHMEM_COLLECT_SYNC_SIZE, SHMEM_REDUCE_SYNC_SIZE)),
                  LONGER(SHMEM_ALLTOALL_SYNC_SIZE, SHMEM_ALLTOALLS_SYNC_SIZE))
};

static inline void set_collectives(void)
{
    static long syncs[CALLS][SYNC], results[ROOM];
    for (int call = 0; call < CALLS; call++)
        for (int i = 0; i < SYNC; i++)
            syncs[call][i] = SHMEM_SYNC_VALUE;
    collective all[CALLS];
    const collective_type *types[CALLS];
    for (int call = 0; call < CALLS; call++) {
        const collective_type *type = &set_types[draw(sizeof set_types / sizeof *set_types)];
        collective c = draw_collective(type->has_bits);
        c.start = (int)draw((unsigned)pes);
        c.log_stride = (int)draw(3);
        c.size = 1 + (int)draw((unsigned)((pes - 1 - c.start) >> c.log_stride) + 1);
        c.root = (int)draw((unsigned)c.size);
        c.source = call_sources[call];
        c.result = call_results[call];
        c.sync = syncs[call];
        type->fill(&c, call);
        all[call] = c, types[call] = type;
    }
    meet();
    for (int call = 0; call < CALLS; call++) {
        collective *c = &all[call];
        grouping set;
        for (int pe = 0; pe < pes; pe++) {
            int at = pe - c->start, step = 1 << c->log_stride;
            int is_in = at >= 0 && at % step == 0 && at / step < c->size;
            set.number[pe] = is_in ? 0 : -1;
        }
        if (set.number[me] < 0)
            continue;
        trace(types[call]->name, c->kind, c->sync, c->root);
        types[call]->run(c);
        expected_results(c, call, &set, results);
        /* The root of a broadcast keeps what it has. */
        for (size_t i = 0; c->kind == BROADCAST && index_of(&set, me) == c->root && i < ROOM; i++)
            results[i] = -1;
        types[call]->check(c, results);
        for (int i = 0; i < SYNC; i++)
            expect("a pSync array", i, (uint64_t)syncs[call][i], (uint64_t)SHMEM_SYNC_VALUE);
    }
    meet();
}

#endif
