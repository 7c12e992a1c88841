/* Programs made from seeds: transfers, atomics, signals, waits and collectives in any mixture, over
 * contexts, teams and active sets, against a model of the memory of all PEs in plain C.
 * Arguments: the first seed, and how many there are. */
#include "generated_calls.h"
#include "generated_collectives.h"
#include "generated_waits.h"

/* What gets of this PE have brought, and what they must bring. */
static unsigned char got[AREA], wanted[AREA];

static int is_get(enum transfer kind)
{
    return kind >= GET;
}

static int is_strided(enum transfer kind)
{
    return kind == IPUT || kind == IGET || kind == IPUT_SIZED || kind == IGET_SIZED;
}

static int is_sized(enum transfer kind)
{
    return (kind >= PUT_SIZED && kind <= IPUT_SIZED) || kind >= GET_SIZED;
}

/* Copies the elements of a transfer, as the standard says where they go. */
static void copy_elements(unsigned char *to, ptrdiff_t to_stride, const unsigned char *from,
                          ptrdiff_t from_stride, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * (size_t)to_stride * size, from + i * (size_t)from_stride * size, size);
}

/* Draws a transfer of a PE, applies it to the model, and makes the call if the PE is this one.
 * Puts go to one area; gets come from the other, which nobody writes. */
static void one_transfer(int origin, int written)
{
    transfer t = {.kind = (enum transfer)draw(TRANSFERS), .far_stride = 1, .near_stride = 1};
    const transfer_kind *kind =
        is_sized(t.kind) ? &sized[draw(LENGTH(sized))] : &typed[draw(LENGTH(typed))];
    int target = (int)draw((unsigned)pes), area = is_get(t.kind) ? 1 - written : written;
    size_t size = kind->size;
    t.count = t.kind == P || t.kind == G ? 1 : draw(8) ? draw(9) : draw(300);
    if (size == 16 && (t.kind == P || t.kind == G))
        t.kind = t.kind == P ? PUT : GET; /* the padding of a long double has no value */
    if (FOR_OPEN_MPI && (t.kind == GET_NBI || t.kind == GETMEM_NBI || t.kind == GET_SIZED_NBI))
        t.kind--;
    if (is_strided(t.kind)) {
        t.far_stride = 1 + (ptrdiff_t)draw(4);
        t.near_stride = 1 + (ptrdiff_t)draw(4);
    }
    size_t far_size = t.count ? ((t.count - 1) * (size_t)t.far_stride + 1) * size : 0;
    size_t near_size = t.count ? ((t.count - 1) * (size_t)t.near_stride + 1) * size : 0;
    size_t at, from = draw(AREA / 2) / size * size, second = draw(AREA / 2) / size * size;
    if (is_get(t.kind)) {
        at = draw(AREA / 2) / size * size;
        from = place_in(&used_near[origin], near_size, size);
    } else {
        at = place_in(&used[target], far_size, size);
    }
    way way = way_to(origin, target);
    if (at + far_size > AREA || from + near_size > AREA || second + near_size > AREA)
        return;
    enum transfer put = t.kind == PUT_TWICE ? PUT : t.kind;
    t.ctx = way.ctx, t.is_plain = way.is_plain, t.pe = way.pe;
    t.far = areas[area] + at, t.near = (is_get(t.kind) ? got : source) + from;
    if (me == origin) {
        trace(kind->name, t.kind, t.far, t.pe);
        if (t.kind == PUT_TWICE) {
            t.kind = draw(2) ? PUT : PUT_NBI;
            t.near = source + second;
            kind->run(&t);
            t.is_plain ? shmem_fence() : shmem_ctx_fence(t.ctx);
            t.kind = put;
            t.near = source + from;
        }
        kind->run(&t);
    } else if (t.kind == PUT_TWICE) {
        draw(2);
    }
    if (!is_get(t.kind)) {
        static unsigned char theirs[AREA];
        fill_source(theirs, origin);
        copy_elements(model[area][target] + at, t.far_stride, theirs + from, t.near_stride, t.count,
                      size);
    } else if (me == origin) {
        copy_elements(wanted + from, t.near_stride, model[area][target] + at, t.far_stride, t.count,
                      size);
        if (t.kind != GET_NBI && t.kind != GETMEM_NBI && t.kind != GET_SIZED_NBI)
            expect_bytes("a get", got + from, wanted + from, near_size);
    }
}

static void transfers(void)
{
    int written = (int)draw(AREAS);
    memset(used, 0, sizeof used);
    memset(used_near, 0, sizeof used_near);
    memset(got, 0xee, sizeof got);
    memset(wanted, 0xee, sizeof wanted);
    source = source_fixed;
    unsigned char *elsewhere = malloc(AREA);
    if (draw(2))
        source = elsewhere;
    fill_source(source, me);
    for (int origin = 0; origin < pes; origin++)
        for (unsigned calls = draw(9); calls > 0; calls--)
            one_transfer(origin, written);
    quiet_all();
    expect_bytes("gets", got, wanted, sizeof got);
    meet();
    free(elsewhere);
    source = source_fixed;
    for (int area = 0; area < AREAS; area++)
        expect_bytes("an area", areas[area], model[area][me], AREA);
    meet();
}

enum { CELLS = 12, STEPS = 6 };
static uint64_t cells[CELLS], olds[STEPS], true_olds[STEPS];
static int is_known[STEPS];

/* An operation that a type has; of several PEs at once, one whose order does not matter. */
static enum atomic draw_atomic(enum abilities has, int is_shared)
{
    static const enum atomic sums[] = {ADD,       INC,           FETCH_ADD,
                                       FETCH_INC, FETCH_ADD_NBI, FETCH_INC_NBI};
    enum atomic kind = is_shared ? sums[draw(LENGTH(sums))] : (enum atomic)draw(ATOMICS);
    enum atomic plain = blocking(kind);
    int is_sum = plain == ADD || plain == INC || plain == FETCH_ADD || plain == FETCH_INC
                 || plain == COMPARE_SWAP;
    int is_bits = (plain >= AND && plain <= XOR) || plain >= FETCH_AND;
    if (!HAS_TEAMS)
        kind = plain;
    if (FOR_OPEN_MPI && (plain >= FETCH_AND || plain == COMPARE_SWAP))
        kind = FETCH;
    return (has == REALS && (is_sum || is_bits)) || (has == INTEGERS && is_bits) ? SWAP : kind;
}

static uint64_t draw_operand(const atomic_kind *kind)
{
    union {
        float f;
        double d;
        uint64_t bits;
    } number = {.bits = 0};
    unsigned small = draw(1000);
    if (kind->has != REALS)
        return small % 3 ? mixed(drawn) & (kind->size == 8 ? UINT64_MAX : UINT32_MAX) : small % 7;
    if (kind->size == sizeof(float))
        number.f = (float)small / 8;
    else
        number.d = (double)small / 8;
    return number.bits;
}

/* The calls of one PE on one cell, in their order; all old values are known, unless others change
 * the cell, too. */
static uint64_t steps_on(int cell, const atomic_kind *kind, int origin, int target, uint64_t word,
                         int is_shared)
{
    way way = way_to(origin, target);
    enum atomic before = FETCH;
    for (unsigned step = 0, steps = draw(STEPS + 1); step < steps; step++) {
        atomic t = {.kind = draw_atomic(kind->has, is_shared), .ctx = way.ctx,
                    .is_plain = way.is_plain, .cell = &cells[cell], .old = &olds[step],
                    .pe = way.pe};
        t.operand = draw_operand(kind);
        t.expected = draw(2) ? word : t.operand;
        if (me == origin) {
            trace(kind->name, t.kind, t.cell, t.pe);
            /* The order of two calls is only what a fence or a quiet makes it. */
            if (is_posted(before) && is_posted(t.kind))
                t.is_plain ? shmem_fence() : shmem_ctx_fence(t.ctx);
            else if (is_posted(before) || before >= FETCH_NBI)
                t.is_plain ? shmem_quiet() : shmem_ctx_quiet(t.ctx);
            kind->run(&t);
            is_known[step] = !is_posted(t.kind) && !is_shared;
            true_olds[step] = word;
        }
        before = t.kind;
        word = applied(t.kind, word, t.operand, t.expected, kind->size);
    }
    return word;
}

static void atomic_calls(void)
{
    static uint64_t words[MAX_PES][CELLS];
    for (int pe = 0; pe < pes; pe++)
        for (int cell = 0; cell < CELLS; cell++)
            words[pe][cell] = value_at(pe, (uint64_t)cell);
    memcpy(cells, words[me], sizeof cells);
    meet();
    for (int target = 0; target < pes; target++) {
        for (int cell = (int)draw(2); cell < CELLS; cell += 2) {
            const atomic_kind *kind = &atomics[draw(LENGTH(atomics))];
            int is_shared = kind->has != REALS && draw(3) == 0, origin = (int)draw((unsigned)pes);
            uint64_t mask = kind->size == 8 ? UINT64_MAX : UINT32_MAX, word = words[target][cell];
            uint64_t low = word & mask;
            memset(is_known, 0, sizeof is_known);
            for (int pe = 0; pe < pes; pe++)
                if (is_shared || pe == origin)
                    low = steps_on(cell, kind, pe, target, low, is_shared);
            words[target][cell] = (word & ~mask) | low;
            if (me == origin || is_shared)
                quiet_all();
            for (int step = 0; step < STEPS; step++)
                if (is_known[step])
                    expect("an old value", step, olds[step] & mask, true_olds[step] & mask);
        }
    }
    meet();
    for (int cell = 0; cell < CELLS; cell++)
        expect("a cell", cell, cells[cell], words[me][cell]);
    meet();
}

/* Each PE adds to a number of one PE under a lock, by a get and a put. */
static void locked(void)
{
    static long lock, number;
    int home = (int)draw((unsigned)pes);
    long rounds = 1 + (long)draw(4), by_test = (long)draw(2) && !FOR_OPEN_MPI;
    number = (long)value_at(me, 0) / 2;
    meet();
    for (long round = 0; round < rounds; round++) {
        if (by_test)
            while (shmem_test_lock(&lock) != 0)
                continue;
        else
            shmem_set_lock(&lock);
        shmem_long_p(&number, shmem_long_g(&number, home) + me + 1, home);
        shmem_clear_lock(&lock);
    }
    meet();
    long added = me == home ? rounds * pes * (pes + 1) / 2 : 0;
    expect("a sum under a lock", 0, (uint64_t)number,
           (uint64_t)((long)value_at(me, 0) / 2 + added));
    meet();
}

static void begin_seed(void)
{
    static const long options[CONTEXTS] = {0, SHMEM_CTX_PRIVATE, SHMEM_CTX_SERIALIZED};
    drawn = mixed(seed);
    phase = 0;
    source = source_fixed;
    int is_heap = (int)draw(2);
    for (int i = 0; i < AREAS; i++) {
        areas[i] = is_heap ? heap_block(AREA) : fixed_areas[i];
        for (int pe = 0; pe < pes; pe++)
            fill_source(model[i][pe], pe + 100 * i);
        memcpy(areas[i], model[i][me], AREA);
    }
    for (int i = 0; i < CONTEXTS; i++) {
        contexts[i] = SHMEM_CTX_DEFAULT;
        if (draw(3) > 0)
            CHECK_EQ(shmem_ctx_create(options[i], &contexts[i]), 0);
    }
    contexts[CONTEXTS] = SHMEM_CTX_DEFAULT;
    begin_groupings();
    shmem_barrier_all();
}

static void end_seed(void)
{
    shmem_barrier_all();
    end_groupings();
    for (int i = 0; i < CONTEXTS; i++)
        if (contexts[i] != SHMEM_CTX_DEFAULT)
            shmem_ctx_destroy(contexts[i]);
    for (int i = 0; i < AREAS; i++)
        if (areas[i] != fixed_areas[i])
            shmem_free(areas[i]);
}

static void run_seed(void)
{
    static void (*const kinds[])(void) = {
        transfers, transfers, atomic_calls, locked, set_collectives,
#if HAS_TEAMS
        signals, waits, team_collectives,
#endif
    };
    begin_seed();
    for (phase = 1; phase <= 6; phase++)
        kinds[draw(LENGTH(kinds))]();
    end_seed();
}

int main(int count, char **arguments)
{
    unsigned long first = count > 1 ? strtoul(arguments[1], NULL, 10) : 1;
    unsigned long seeds = count > 2 ? strtoul(arguments[2], NULL, 10) : 4;
    check_begin();
    for (seed = first; seed < first + seeds; seed++)
        run_seed();
    return check_end("generated");
}
