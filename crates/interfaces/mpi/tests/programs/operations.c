/* Every operation on every type that MPI permits, by each call that combines. What MPI_Reduce_local
 * makes of two values is what a call must make of them. */
#include <complex.h>
#include <wchar.h>
#include "case.h"

enum { COUNT_OF_EACH = 5, LARGEST = 32 };
enum family { INTEGER, FLOATING, LOGICAL, COMPLEX, BYTE, PAIR };

struct short_int { short value; int index; };
struct float_int { float value; int index; };
struct double_int { double value; int index; };
struct long_int { long value; int index; };
struct long_double_int { long double value; int index; };
struct two_int { int value, index; };

/* Fills `into` with an element that is made of a number. */
#define SETTER(name, type) \
    static void set_##name(void *into, int number) \
    { \
        type value = (type)number; \
        memcpy(into, &value, sizeof value); \
    }
#define PAIR_SETTER(name) \
    static void set_##name(void *into, int number) \
    { \
        struct name value; \
        memset(&value, 0, sizeof value); \
        value.value = (__typeof__(value.value))(number / 2); \
        value.index = number; \
        memcpy(into, &value, sizeof value); \
    }

SETTER(char, signed char)
SETTER(unsigned_char, unsigned char)
SETTER(short, short)
SETTER(unsigned_short, unsigned short)
SETTER(int, int)
SETTER(unsigned, unsigned)
SETTER(long, long)
SETTER(unsigned_long, unsigned long)
SETTER(long_long, long long)
SETTER(unsigned_long_long, unsigned long long)
SETTER(float, float)
SETTER(double, double)
SETTER(bool, bool)
PAIR_SETTER(short_int)
PAIR_SETTER(float_int)
PAIR_SETTER(double_int)
PAIR_SETTER(long_int)
PAIR_SETTER(long_double_int)
PAIR_SETTER(two_int)

/* The bytes that a long double does not use are zero, so that values compare by bytes. */
static void set_long_double(void *into, int number)
{
    long double value = number;
    memset(into, 0, sizeof value);
    memcpy(into, &value, 10);
}

#define COMPLEX_SETTER(name, part) \
    static void set_##name(void *into, int number) \
    { \
        part value[2] = { (part)number, (part)(number % 3) }; \
        memcpy(into, value, sizeof value); \
    }
COMPLEX_SETTER(float_complex, float)
COMPLEX_SETTER(double_complex, double)

static void set_long_double_complex(void *into, int number)
{
    set_long_double(into, number);
    set_long_double((char *)into + sizeof(long double), number % 3);
}

struct kind {
    const char *name;
    MPI_Datatype type;
    enum family family;
    size_t bytes;
    void (*set)(void *into, int number);
};

#define KIND(type, family, c, name) { #type, type, family, sizeof(c), set_##name }

/* Handles are no constants in all MPIs, so the table is filled in anew. */
static int kinds_of(struct kind *into)
{
    const struct kind kinds[] = {
        KIND(MPI_SIGNED_CHAR, INTEGER, signed char, char),
        KIND(MPI_UNSIGNED_CHAR, INTEGER, unsigned char, unsigned_char),
        KIND(MPI_SHORT, INTEGER, short, short),
        KIND(MPI_UNSIGNED_SHORT, INTEGER, unsigned short, unsigned_short),
        KIND(MPI_INT, INTEGER, int, int),
        KIND(MPI_UNSIGNED, INTEGER, unsigned, unsigned),
        KIND(MPI_LONG, INTEGER, long, long),
        KIND(MPI_UNSIGNED_LONG, INTEGER, unsigned long, unsigned_long),
        KIND(MPI_LONG_LONG, INTEGER, long long, long_long),
        KIND(MPI_LONG_LONG_INT, INTEGER, long long, long_long),
        KIND(MPI_UNSIGNED_LONG_LONG, INTEGER, unsigned long long, unsigned_long_long),
        KIND(MPI_INT8_T, INTEGER, int8_t, char),
        KIND(MPI_INT16_T, INTEGER, int16_t, short),
        KIND(MPI_INT32_T, INTEGER, int32_t, int),
        KIND(MPI_INT64_T, INTEGER, int64_t, long),
        KIND(MPI_UINT8_T, INTEGER, uint8_t, unsigned_char),
        KIND(MPI_UINT16_T, INTEGER, uint16_t, unsigned_short),
        KIND(MPI_UINT32_T, INTEGER, uint32_t, unsigned),
        KIND(MPI_UINT64_T, INTEGER, uint64_t, unsigned_long),
        KIND(MPI_AINT, INTEGER, MPI_Aint, long),
        KIND(MPI_OFFSET, INTEGER, MPI_Offset, long_long),
        KIND(MPI_COUNT, INTEGER, MPI_Count, long_long),
        KIND(MPI_FLOAT, FLOATING, float, float),
        KIND(MPI_DOUBLE, FLOATING, double, double),
        KIND(MPI_LONG_DOUBLE, FLOATING, long double, long_double),
        KIND(MPI_C_BOOL, LOGICAL, bool, bool),
#ifdef MPI_LOGICAL1
        KIND(MPI_LOGICAL1, LOGICAL, bool, bool),
#endif
        KIND(MPI_C_COMPLEX, COMPLEX, float complex, float_complex),
        KIND(MPI_C_FLOAT_COMPLEX, COMPLEX, float complex, float_complex),
        KIND(MPI_C_DOUBLE_COMPLEX, COMPLEX, double complex, double_complex),
        KIND(MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX, long double complex, long_double_complex),
        KIND(MPI_BYTE, BYTE, unsigned char, unsigned_char),
        KIND(MPI_SHORT_INT, PAIR, struct short_int, short_int),
        KIND(MPI_FLOAT_INT, PAIR, struct float_int, float_int),
        KIND(MPI_DOUBLE_INT, PAIR, struct double_int, double_int),
        KIND(MPI_LONG_INT, PAIR, struct long_int, long_int),
        KIND(MPI_LONG_DOUBLE_INT, PAIR, struct long_double_int, long_double_int),
        KIND(MPI_2INT, PAIR, struct two_int, two_int),
    };
    memcpy(into, kinds, sizeof kinds);
    return COUNT(kinds);
}

enum { KINDS = 40 };

struct combination {
    const char *name;
    MPI_Op op;
    int families;       /* a bit for each */
};

#define BIT(family) (1 << (family))

static int combinations_of(struct combination *into)
{
    enum { ALL = 63, NUMBERS = BIT(INTEGER) | BIT(FLOATING) };
    const struct combination all[] = {
        { "MPI_SUM", MPI_SUM, NUMBERS | BIT(COMPLEX) },
        { "MPI_PROD", MPI_PROD, NUMBERS | BIT(COMPLEX) },
        { "MPI_MIN", MPI_MIN, NUMBERS },
        { "MPI_MAX", MPI_MAX, NUMBERS },
        { "MPI_LAND", MPI_LAND, BIT(INTEGER) | BIT(LOGICAL) },
        { "MPI_LOR", MPI_LOR, BIT(INTEGER) | BIT(LOGICAL) },
        { "MPI_LXOR", MPI_LXOR, BIT(INTEGER) | BIT(LOGICAL) },
        { "MPI_BAND", MPI_BAND, BIT(INTEGER) | BIT(BYTE) },
        { "MPI_BOR", MPI_BOR, BIT(INTEGER) | BIT(BYTE) },
        { "MPI_BXOR", MPI_BXOR, BIT(INTEGER) | BIT(BYTE) },
        { "MPI_MINLOC", MPI_MINLOC, BIT(PAIR) },
        { "MPI_MAXLOC", MPI_MAXLOC, BIT(PAIR) },
        { "MPI_REPLACE", MPI_REPLACE, ALL },
        { "MPI_NO_OP", MPI_NO_OP, ALL },
    };
    memcpy(into, all, sizeof all);
    return COUNT(all);
}

enum { OPERATIONS = 16 };

static const int before_numbers[COUNT_OF_EACH] = { 3, 0, 7, 1, 12 };
static const int origin_numbers[COUNT_OF_EACH] = { 5, 1, 7, 0, 2 };

static void set_all(const struct kind *kind, const int *numbers, unsigned char *into)
{
    for (int i = 0; i < COUNT_OF_EACH; i++)
        kind->set(into + (size_t)i * kind->bytes, numbers[i]);
}

/* What is to be at the target. */
static void expect(const struct kind *kind, MPI_Op op, const void *origin, void *target)
{
    if (op == MPI_REPLACE)
        memcpy(target, origin, COUNT_OF_EACH * kind->bytes);
    else if (op != MPI_NO_OP)
        MPI_Reduce_local((void *)(uintptr_t)origin, target, COUNT_OF_EACH, kind->type, op);
}

/* Compares elements of a type: the bytes that its values are made of. */
static void compare(const struct kind *kind, const char *op, const unsigned char *actual,
                    const unsigned char *expected)
{
    unsigned char a[COUNT_OF_EACH * LARGEST], b[COUNT_OF_EACH * LARGEST];
    int a_bytes = 0, b_bytes = 0;
    MPI_Pack(actual, COUNT_OF_EACH, kind->type, a, sizeof a, &a_bytes, MPI_COMM_SELF);
    MPI_Pack(expected, COUNT_OF_EACH, kind->type, b, sizeof b, &b_bytes, MPI_COMM_SELF);
    bool is_long = kind->type == MPI_LONG_DOUBLE || kind->type == MPI_C_LONG_DOUBLE_COMPLEX
                   || kind->type == MPI_LONG_DOUBLE_INT;
    for (int i = 0; i < a_bytes; i++) {
        /* Ten bytes of a long double are its value. */
        int piece = kind->type == MPI_LONG_DOUBLE_INT ? a_bytes / COUNT_OF_EACH : 16;
        if (is_long && i % piece >= 10 && i % piece < 16)
            continue;
        if (a[i] != b[i]) {
            check_fail(__FILE__, __LINE__, "%s of %s: byte %d is 0x%02x, not 0x%02x", op,
                       kind->name, i, a[i], b[i]);
            break;
        }
    }
    __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);
}

enum call { ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, RACCUMULATE, RGET_ACCUMULATE };

static void combine(enum call call, const struct kind *kind, const struct combination *operation,
                    const unsigned char *out, unsigned char *old, MPI_Win win)
{
    MPI_Request request;
    MPI_Datatype type = kind->type;
    MPI_Op op = operation->op;
    int n = COUNT_OF_EACH, to = right();
    /* Without an origin's value, its buffer may be null and its count zero. */
    bool is_no_op = op == MPI_NO_OP;
    switch (call) {
    case ACCUMULATE:
        OK(MPI_Accumulate(out, n, type, to, 0, n, type, op, win));
        break;
    case RACCUMULATE:
        OK(MPI_Raccumulate(out, n, type, to, 0, n, type, op, win, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case GET_ACCUMULATE:
        OK(MPI_Get_accumulate(is_no_op ? NULL : out, is_no_op ? 0 : n, type, old, n, type, to, 0,
                              n, type, op, win));
        break;
    case RGET_ACCUMULATE:
        OK(MPI_Rget_accumulate(out, n, type, old, n, type, to, 0, n, type, op, win, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case FETCH_AND_OP:
        for (int i = 0; i < n; i++) {
            size_t at = (size_t)i * kind->bytes;
            OK(MPI_Fetch_and_op(is_no_op ? NULL : out + at, old + at, type, to,
                                (MPI_Aint)at, op, win));
        }
    }
}

/* MPI_NO_OP is for calls that fetch. */
static bool is_permitted(enum call call, const struct combination *operation)
{
    return operation->op != MPI_NO_OP || (call != ACCUMULATE && call != RACCUMULATE);
}

static void every_operation_on(enum call call, enum family family, bool is_created)
{
    struct kind kinds[KINDS];
    struct combination operations[OPERATIONS];
    int kind_count = kinds_of(kinds), operation_count = combinations_of(operations);
    unsigned char *base, out[COUNT_OF_EACH * LARGEST], old[COUNT_OF_EACH * LARGEST];
    unsigned char before[COUNT_OF_EACH * LARGEST], after[COUNT_OF_EACH * LARGEST];
    static _Alignas(16) unsigned char memory[COUNT_OF_EACH * LARGEST];
    unsigned char there[COUNT_OF_EACH * LARGEST];
    MPI_Win win;
    if (is_created)
        OK(MPI_Win_create(base = memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    else
        OK(MPI_Win_allocate(sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    for (int k = 0; k < kind_count; k++) {
        const struct kind *kind = &kinds[k];
        for (int o = 0; kind->family == family && o < operation_count; o++) {
            const struct combination *operation = &operations[o];
            size_t bytes = COUNT_OF_EACH * kind->bytes;
            if ((operation->families & BIT(family)) == 0 || !is_permitted(call, operation))
                continue;
            memset(before, 0, sizeof before);
            memset(out, 0, sizeof out);
            set_all(kind, before_numbers, before);
            set_all(kind, origin_numbers, out);
            memcpy(after, before, sizeof before);
            memset(old, 0, sizeof old);
            expect(kind, operation->op, out, after);
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
            OK(MPI_Put(before, (int)bytes, MPI_BYTE, right(), 0, (int)bytes, MPI_BYTE, win));
            OK(MPI_Win_flush(right(), win));
            combine(call, kind, operation, out, old, win);
            OK(MPI_Win_flush(right(), win));
            memset(there, 0, sizeof there);
            OK(MPI_Get(there, (int)bytes, MPI_BYTE, right(), 0, (int)bytes, MPI_BYTE, win));
            OK(MPI_Win_unlock(right(), win));
            compare(kind, operation->name, there, after);
            if (call != ACCUMULATE && call != RACCUMULATE)
                compare(kind, operation->name, old, before);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

#define CASES_OF(call, lower) \
    static void lower##_integers(void) { every_operation_on(call, INTEGER, false); } \
    static void lower##_floats(void) { every_operation_on(call, FLOATING, false); } \
    static void lower##_logicals(void) { every_operation_on(call, LOGICAL, false); } \
    static void lower##_complexes(void) { every_operation_on(call, COMPLEX, false); } \
    static void lower##_bytes(void) { every_operation_on(call, BYTE, false); } \
    static void lower##_pairs(void) { every_operation_on(call, PAIR, false); } \
    static void lower##_in_created(void) \
    { \
        for (int family = INTEGER; family <= PAIR; family++) \
            every_operation_on(call, (enum family)family, true); \
    }
#define ENTRIES_OF(lower) \
    CASE(lower##_integers), CASE(lower##_floats), CASE(lower##_logicals), \
    CASE(lower##_complexes), CASE(lower##_bytes), CASE(lower##_pairs), CASE(lower##_in_created)

CASES_OF(ACCUMULATE, accumulate)
CASES_OF(GET_ACCUMULATE, get_accumulate)
CASES_OF(FETCH_AND_OP, fetch_and_op)
CASES_OF(RACCUMULATE, raccumulate)
CASES_OF(RGET_ACCUMULATE, rget_accumulate)

/* A value that is there is replaced, another is not. */
static void swap_each(bool is_created)
{
    struct kind kinds[KINDS];
    int count = kinds_of(kinds);
    static _Alignas(16) unsigned char memory[64];
    unsigned char *base = memory;
    MPI_Win win;
    if (is_created)
        OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    else
        OK(MPI_Win_allocate(sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    for (int k = 0; k < count; k++) {
        const struct kind *kind = &kinds[k];
        unsigned char before[16] = { 0 }, next[16] = { 0 }, other[16] = { 0 }, old[16], now[16];
        int bytes = (int)kind->bytes;
        if (kind->family != INTEGER && kind->family != LOGICAL && kind->family != BYTE)
            continue;
        kind->set(before, 1);
        kind->set(next, 0);
        kind->set(other, 6 * (kind->family != LOGICAL));
        for (int at = 0; at <= 32; at += 16) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
            OK(MPI_Put(before, bytes, MPI_BYTE, right(), at, bytes, MPI_BYTE, win));
            OK(MPI_Win_flush(right(), win));
            OK(MPI_Compare_and_swap(next, other, old, kind->type, right(), at, win));
            OK(MPI_Win_flush(right(), win));
            SAME(old, before, kind->bytes);
            OK(MPI_Compare_and_swap(next, before, old, kind->type, right(), at, win));
            OK(MPI_Win_flush(right(), win));
            SAME(old, before, kind->bytes);
            OK(MPI_Get(now, bytes, MPI_BYTE, right(), at, bytes, MPI_BYTE, win));
            OK(MPI_Win_unlock(right(), win));
            SAME(now, next, kind->bytes);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
}

static void compare_and_swap(void)
{
    swap_each(false);
}

static void compare_and_swap_in_created(void)
{
    swap_each(true);
}

/* Sums wrap around and signs matter to an order. */
static void extremes_of_integers(void)
{
    long *base, out = 1, low = -5;
    MPI_Win win;
    OK(MPI_Win_allocate(4 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                        &win));
    base[0] = -1;
    base[1] = 3;
    base[2] = 3;
    base[3] = 0;
    settle(win);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Accumulate(&out, 1, MPI_LONG, right(), 0, 1, MPI_LONG, MPI_MAX, win));
    OK(MPI_Accumulate(&low, 1, MPI_LONG, right(), 1, 1, MPI_LONG, MPI_MIN, win));
    OK(MPI_Accumulate(&low, 1, MPI_UNSIGNED_LONG, right(), 2, 1, MPI_UNSIGNED_LONG, MPI_MIN, win));
    OK(MPI_Accumulate(&low, 1, MPI_UNSIGNED_LONG, right(), 3, 1, MPI_UNSIGNED_LONG, MPI_SUM, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    EQ(base[0], 1);
    EQ(base[1], -5);
    EQ(base[2], 3);
    EQ(base[3], -5);
    OK(MPI_Win_free(&win));
}

/* Many elements, more than go into one message of a small fabric. */
static void long_accumulates(void)
{
    enum { MANY = 30000 };
    double *base, *out = malloc(MANY * sizeof *out), *old = malloc(MANY * sizeof *old);
    MPI_Win win;
    OK(MPI_Win_allocate(MANY * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD,
                        &base, &win));
    for (int i = 0; i < MANY; i++) {
        base[i] = i;
        out[i] = me;
    }
    settle(win);
    OK(MPI_Win_fence(0, win));
    for (int to = 0; to < ranks; to++)
        OK(MPI_Accumulate(out, MANY, MPI_DOUBLE, to, 0, MANY, MPI_DOUBLE, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get_accumulate(NULL, 0, MPI_DOUBLE, old, MANY, MPI_DOUBLE, right(), 0, MANY, MPI_DOUBLE,
                          MPI_NO_OP, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int i = 0; i < MANY; i++) {
        EQ(base[i], i + ranks * (ranks - 1) / 2);
        EQ(old[i], i + ranks * (ranks - 1) / 2);
    }
    OK(MPI_Win_free(&win));
    free(out);
    free(old);
}

static const struct test cases[] = {
    ENTRIES_OF(accumulate), ENTRIES_OF(get_accumulate), ENTRIES_OF(fetch_and_op),
    ENTRIES_OF(raccumulate), ENTRIES_OF(rget_accumulate), CASE(compare_and_swap),
    CASE(compare_and_swap_in_created), CASE(extremes_of_integers), CASE(long_accumulates),
};

MAIN(cases)
