/* Phases of generated programs in which PEs wait for each other: signals, and words of every type
 * that waits have. */
#ifndef GENERATED_WAITS_H
#define GENERATED_WAITS_H

#include "generated.h"
#include "types.h"

#if HAS_TEAMS

static uint64_t signal_words[MAX_PES];

/* Sends data with a signal by one of the calls. */
static inline void send(way way, unsigned kind, int is_sum, void *to, size_t size, int sender,
                        uint64_t value)
{
    int op = is_sum ? SHMEM_SIGNAL_ADD : SHMEM_SIGNAL_SET;
    uint64_t *word = &signal_words[sender];
    switch (kind) {
    case 0:
        shmem_ctx_putmem_signal(way.ctx, to, source, size, word, value, op, way.pe);
        break;
    case 1:
        shmem_ctx_putmem_signal_nbi(way.ctx, to, source, size, word, value, op, way.pe);
        break;
    case 2:
        shmem_ctx_int_put_signal(way.ctx, to, (int *)(void *)source, size / sizeof(int), word,
                                 value, op, way.pe);
        break;
    case 3:
        shmem_ctx_double_put_signal_nbi(way.ctx, to, (double *)(void *)source, size / 8, word,
                                        value, op, way.pe);
        break;
    case 4:
        shmem_ctx_put16_signal(way.ctx, to, source, size / 2, word, value, op, way.pe);
        break;
    default:
        shmem_ctx_put64_signal_nbi(way.ctx, to, source, size / 8, word, value, op, way.pe);
    }
}

/* Waits for a signal by one of the calls. */
static inline void receive(unsigned kind, uint64_t *word, uint64_t value)
{
    switch (kind) {
    case 0:
        expect("a signal", 0, shmem_signal_wait_until(word, SHMEM_CMP_EQ, value), value);
        break;
    case 1:
        shmem_uint64_wait_until(word, SHMEM_CMP_EQ, value);
        break;
    case 2:
        while (shmem_signal_fetch(word) != value)
            continue;
        break;
    case 3:
        while (!shmem_uint64_test(word, SHMEM_CMP_EQ, value))
            continue;
        break;
    default:
        shmem_uint64_wait_until_all(word, 1, NULL, SHMEM_CMP_EQ, value);
    }
}

/* Each PE sends to one other; who gets something waits for the signal, and looks at once. */
static inline void signals(void)
{
    static _Alignas(16) unsigned char theirs[AREA];
    int written = (int)draw(AREAS);
    memset(used, 0, sizeof used);
    fill_source(source_fixed, me);
    for (int i = 0; i < MAX_PES; i++)
        signal_words[i] = value_at(me, (uint64_t)i) >> 1;
    meet();
    struct {
        unsigned kind;
        size_t at, size;
        uint64_t value;
    } due[MAX_PES];
    for (int origin = 0; origin < pes; origin++) {
        int target = (int)draw((unsigned)pes), is_sum = (int)draw(2);
        unsigned sends = draw(6), receives = draw(5);
        size_t size = 8 * draw(40), at = place_in(&used[target], size, 8);
        uint64_t value = value_at(origin, 7777) >> 2;
        uint64_t before = value_at(target, (uint64_t)origin) >> 1;
        way way = way_to(origin, target);
        due[origin].kind = UINT32_MAX;
        if (at == AREA)
            continue;
        if (me == origin) {
            trace("put_signal", (int)sends, areas[written] + at, way.pe);
            send(way, sends, is_sum, areas[written] + at, size, origin, value);
        }
        fill_source(theirs, origin);
        memcpy(model[written][target] + at, theirs, size);
        if (me == target) {
            due[origin].kind = receives;
            due[origin].at = at, due[origin].size = size;
            due[origin].value = is_sum ? before + value : value;
        }
    }
    quiet_all();
    for (int origin = 0; origin < pes; origin++) {
        if (due[origin].kind == UINT32_MAX)
            continue;
        receive(due[origin].kind, &signal_words[origin], due[origin].value);
        expect_bytes("data behind a signal", areas[written] + due[origin].at,
                     model[written][me] + due[origin].at, due[origin].size);
    }
    meet();
    expect_bytes("an area", areas[written], model[written][me], AREA);
    meet();
}

enum { FLAGS = 7 };

/* A wait for flags: those whose status is not zero are not looked at, and never come. */
typedef struct {
    unsigned kind;
    size_t count;
    int status[FLAGS], cmp;
    /* By flag; if the kind has no values for each, all are the first. */
    uint64_t values[FLAGS];
} flag_wait;

enum { WAIT_KINDS = 14, FIRST_VECTOR = 8 };

/* Notes that a flag came, once. */
static inline void flag_came(int came[FLAGS], const flag_wait *w, size_t at)
{
    if (at >= w->count || w->status[at] || came[at])
        check_fail(__FILE__, __LINE__, "seed %lu, phase %d (%s): flag %zu of %zu came", seed, phase,
                   doing, at, w->count);
    came[at] = 1;
}

#define WAIT_ON(NAME, TYPE, CLASS)                                                                 \
    static TYPE flags_##NAME[FLAGS];                                                               \
    static void send_##NAME(size_t at, uint64_t value, int pe)                                     \
    {                                                                                              \
        TYPE word = (TYPE)value;                                                                   \
        if (at % 2)                                                                                \
            shmem_##NAME##_p(&flags_##NAME[at], word, pe);                                         \
        else                                                                                       \
            shmem_##NAME##_put_nbi(&flags_##NAME[at], &word, 1, pe);                               \
        shmem_quiet();                                                                             \
    }                                                                                              \
    static size_t some_##NAME(const flag_wait *w, size_t *found, int *done)                        \
    {                                                                                              \
        TYPE *flags = flags_##NAME, values[FLAGS], value = (TYPE)w->values[0];                     \
        for (size_t i = 0; i < FLAGS; i++)                                                         \
            values[i] = (TYPE)w->values[i];                                                        \
        found[0] = SIZE_MAX;                                                                       \
        switch (w->kind) {                                                                         \
        case 4: found[0] = shmem_##NAME##_wait_until_any(flags, w->count, done, w->cmp, value);    \
            break;                                                                                 \
        case 5: found[0] = shmem_##NAME##_test_any(flags, w->count, done, w->cmp, value); break;   \
        case 6: return shmem_##NAME##_wait_until_some(flags, w->count, found, done, w->cmp, value);\
        case 7: return shmem_##NAME##_test_some(flags, w->count, found, done, w->cmp, value);      \
        case 10: found[0] = shmem_##NAME##_wait_until_any_vector(flags, w->count, done, w->cmp,    \
                                                                 values);                          \
            break;                                                                                 \
        case 11: found[0] = shmem_##NAME##_test_any_vector(flags, w->count, done, w->cmp, values); \
            break;                                                                                 \
        case 12: return shmem_##NAME##_wait_until_some_vector(flags, w->count, found, done,        \
                                                              w->cmp, values);                     \
        default: return shmem_##NAME##_test_some_vector(flags, w->count, found, done, w->cmp,      \
                                                        values);                                   \
        }                                                                                          \
        return found[0] == SIZE_MAX ? 0 : 1;                                                       \
    }                                                                                              \
    static void all_##NAME(const flag_wait *w)                                                     \
    {                                                                                              \
        TYPE *flags = flags_##NAME, values[FLAGS], value = (TYPE)w->values[0];                     \
        for (size_t i = 0; i < FLAGS; i++)                                                         \
            values[i] = (TYPE)w->values[i];                                                        \
        switch (w->kind) {                                                                         \
        case 0:                                                                                    \
            for (size_t i = 0; i < w->count; i++)                                                  \
                if (!w->status[i])                                                                 \
                    shmem_##NAME##_wait_until(&flags[i], w->cmp, value);                           \
            break;                                                                                 \
        case 1:                                                                                    \
            for (size_t i = 0; i < w->count; i++)                                                  \
                while (!w->status[i] && !shmem_##NAME##_test(&flags[i], w->cmp, value))            \
                    continue;                                                                      \
            break;                                                                                 \
        case 2: shmem_##NAME##_wait_until_all(flags, w->count, w->status, w->cmp, value); break;   \
        case 3:                                                                                    \
            while (!shmem_##NAME##_test_all(flags, w->count, w->status, w->cmp, value))            \
                continue;                                                                          \
            break;                                                                                 \
        case 8:                                                                                    \
            shmem_##NAME##_wait_until_all_vector(flags, w->count, w->status, w->cmp, values);      \
            break;                                                                                 \
        default:                                                                                   \
            while (!shmem_##NAME##_test_all_vector(flags, w->count, w->status, w->cmp, values))    \
                continue;                                                                          \
        }                                                                                          \
    }
WAIT_TYPES(WAIT_ON)

typedef struct {
    const char *name;
    void *flags;
    size_t size;
    void (*send)(size_t, uint64_t, int);
    size_t (*some)(const flag_wait *, size_t *, int *);
    void (*all)(const flag_wait *);
} wait_type;

#define WAIT_ROW(NAME, TYPE, CLASS)                                                                \
    {#NAME, flags_##NAME, sizeof(TYPE), send_##NAME, some_##NAME, all_##NAME},
static const wait_type wait_types[] = {WAIT_TYPES(WAIT_ROW)};

static inline void wait_for_flags(const wait_type *type, const flag_wait *w)
{
    int came[FLAGS] = {0}, done[FLAGS], left = 0;
    size_t found[FLAGS];
    memcpy(done, w->status, sizeof done);
    for (size_t i = 0; i < w->count; i++)
        left += !w->status[i];
    if (w->kind < 4 || w->kind == FIRST_VECTOR || w->kind == FIRST_VECTOR + 1) {
        type->all(w);
        return;
    }
    /* A wait for nothing returns at once. */
    do {
        size_t some = type->some(w, found, done);
        for (size_t i = 0; i < some; i++, left--) {
            flag_came(came, w, found[i]);
            done[found[i]] = 1;
        }
    } while (left > 0);
}

/* Every PE waits for flags that others raise. */
static inline void waits(void)
{
    const wait_type *type = &wait_types[draw(sizeof wait_types / sizeof *wait_types)];
    memset(type->flags, 0, FLAGS * type->size);
    meet();
    flag_wait mine = {0};
    trace(type->name, 0, type->flags, 0);
    for (int receiver = 0; receiver < pes; receiver++) {
        flag_wait w = {.kind = draw(WAIT_KINDS), .count = draw(FLAGS + 1)};
        static const int comparisons[] = {SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_GT, SHMEM_CMP_GE};
        w.cmp = comparisons[draw(4)];
        for (size_t i = 0; i < FLAGS; i++) {
            uint64_t raised = 2 + (w.kind < FIRST_VECTOR && w.cmp == SHMEM_CMP_EQ ? 0 : draw(100));
            w.values[i] = raised;
            if (w.cmp == SHMEM_CMP_NE)
                w.values[i] = 0;
            else if (w.cmp == SHMEM_CMP_GT)
                w.values[i] = w.kind < FIRST_VECTOR ? 1 : raised - 1;
            else if (w.cmp == SHMEM_CMP_GE)
                w.values[i] = w.kind < FIRST_VECTOR ? 2 : raised;
            w.status[i] = draw(4) == 0;
            if (me == (int)draw((unsigned)pes))
                type->send(i, raised, receiver);
        }
        if (me == receiver)
            mine = w;
    }
    wait_for_flags(type, &mine);
    meet();
}

#endif
#endif
