/* Datatypes of every constructor, on either side of every transfer. What MPI_Pack and MPI_Unpack
 * make of a type is what a transfer must make of it. */
#include "case.h"

/* Bytes before and behind the place of an element, for types that reach to either side. */
enum { ROOM = 4096, MIDDLE = 2048 };

static unsigned char *base;
static MPI_Win win;
static unsigned char local[ROOM], expected[ROOM];

static void fill(unsigned char *bytes, int seed)
{
    for (int i = 0; i < ROOM; i++)
        bytes[i] = (unsigned char)(seed * 29 + i * 7 + i / 256);
}

/* The bytes of `count` elements in a buffer, one behind the other. */
static int pack(const unsigned char *from, int count, MPI_Datatype type, unsigned char *packed)
{
    int position = 0;
    OK(MPI_Pack(from + MIDDLE, count, type, packed, ROOM, &position, MPI_COMM_SELF));
    return position;
}

static void unpack(const unsigned char *packed, int bytes, unsigned char *into, int count,
                   MPI_Datatype type)
{
    int position = 0;
    OK(MPI_Unpack(packed, bytes, &position, into + MIDDLE, count, type, MPI_COMM_SELF));
}

/* Sets all of the target's window, from the target's side. */
static void reset(int seed)
{
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win));
    fill(base, seed);
    OK(MPI_Win_unlock(me, win));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void look(unsigned char *at)
{
    OK(MPI_Win_flush(right(), win));
    OK(MPI_Get(at, ROOM, MPI_BYTE, right(), 0, ROOM, MPI_BYTE, win));
    OK(MPI_Win_flush(right(), win));
}

/* Puts and gets with a type at the origin, at the target, and at both. Types here consist of one
 * basic type, so that contiguous elements of it have the same signature. */
static void both_sides(MPI_Datatype type, int count, MPI_Datatype basic)
{
    unsigned char packed[ROOM], there[ROOM];
    int bytes, size;
    MPI_Type_size(basic, &size);
    /* At the origin of a put. */
    reset(1);
    fill(local, 10 + me);
    bytes = pack(local, count, type, packed);
    fill(expected, 1);
    memcpy(expected + 64, packed, (size_t)bytes);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    OK(MPI_Put(local + MIDDLE, count, type, right(), 64, bytes / size, basic, win));
    look(there);
    SAME(there, expected, ROOM);
    OK(MPI_Win_unlock(right(), win));
    /* At the target of a put. */
    reset(2);
    fill(local, 20 + me);
    fill(expected, 2);
    unpack(local, bytes, expected, count, type);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    OK(MPI_Put(local, bytes / size, basic, right(), MIDDLE, count, type, win));
    look(there);
    SAME(there, expected, ROOM);
    OK(MPI_Win_unlock(right(), win));
    /* At the origin of a get. */
    reset(3);
    fill(local, 30);
    fill(expected, 30);
    fill(there, 3);
    unpack(there + 64, bytes, expected, count, type);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, win));
    OK(MPI_Get(local + MIDDLE, count, type, right(), 64, bytes / size, basic, win));
    OK(MPI_Win_flush(right(), win));
    SAME(local, expected, ROOM);
    /* At the target of a get. */
    fill(local, 40);
    fill(expected, 40);
    pack(there, count, type, expected);
    OK(MPI_Get(local, bytes / size, basic, right(), MIDDLE, count, type, win));
    OK(MPI_Win_flush(right(), win));
    SAME(local, expected, ROOM);
    OK(MPI_Win_unlock(right(), win));
    /* At both. */
    reset(4);
    fill(local, 50 + me);
    fill(expected, 4);
    pack(local, count, type, packed);
    unpack(packed, bytes, expected, count, type);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    OK(MPI_Put(local + MIDDLE, count, type, right(), MIDDLE, count, type, win));
    look(there);
    SAME(there, expected, ROOM);
    OK(MPI_Win_unlock(right(), win));
}

/* Accumulates with a type of ints at either side: a sum in every int of the type, nothing else. */
static void sums(MPI_Datatype type, int count)
{
    unsigned char packed[ROOM], there[ROOM], before[ROOM];
    int bytes = pack(local, count, type, packed), ints = bytes / (int)sizeof(int);
    int *numbers = (int *)packed, old[ROOM / sizeof(int)], ones[ROOM / sizeof(int)];
    reset(5);
    fill(before, 5);
    for (int i = 0; i < ints; i++)
        ones[i] = 1000 * me + i;
    /* At the target, with what was there before. */
    pack(before, count, type, packed);
    fill(expected, 5);
    int *now = malloc(ROOM);
    for (int i = 0; i < ints; i++)
        now[i] = (int)((unsigned)numbers[i] + (unsigned)ones[i]);
    unpack((unsigned char *)now, bytes, expected, count, type);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, win));
    OK(MPI_Get_accumulate(ones, ints, MPI_INT, old, ints, MPI_INT, right(), MIDDLE, count, type,
                          MPI_SUM, win));
    look(there);
    SAME(there, expected, ROOM);
    SAME(old, packed, (size_t)bytes);
    /* At the origin. */
    fill(local, 60);
    pack(local, count, type, packed);
    memcpy(now, there + 64, (size_t)bytes);
    for (int i = 0; i < ints; i++)
        now[i] = (int)((unsigned)now[i] + (unsigned)numbers[i]);
    memcpy(expected + 64, now, (size_t)bytes);
    OK(MPI_Accumulate(local + MIDDLE, count, type, right(), 64, ints, MPI_INT, MPI_SUM, win));
    look(there);
    SAME(there, expected, ROOM);
    OK(MPI_Win_unlock(right(), win));
    free(now);
}

static void with(MPI_Datatype type, int count)
{
    OK(MPI_Type_commit(&type));
    win = make_bytes(ROOM, &base);
    both_sides(type, count, MPI_INT);
    sums(type, count);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Win_free(&win));
    OK(MPI_Type_free(&type));
}

static void contiguous(void)
{
    MPI_Datatype type;
    MPI_Type_contiguous(5, MPI_INT, &type);
    with(type, 3);
}

static void vector(void)
{
    MPI_Datatype type;
    MPI_Type_vector(4, 2, 5, MPI_INT, &type);
    with(type, 3);
}

static void vector_of_negative_stride(void)
{
    MPI_Datatype type;
    MPI_Type_vector(4, 1, -3, MPI_INT, &type);
    with(type, 2);
}

static void hvector(void)
{
    MPI_Datatype type;
    MPI_Type_create_hvector(3, 2, 20, MPI_INT, &type);
    with(type, 2);
}

static void hvector_of_negative_stride(void)
{
    MPI_Datatype type;
    MPI_Type_create_hvector(5, 1, -16, MPI_INT, &type);
    with(type, 2);
}

static void indexed(void)
{
    int lengths[] = { 2, 0, 1, 3 }, places[] = { 7, 3, 0, 11 };
    MPI_Datatype type;
    MPI_Type_indexed(4, lengths, places, MPI_INT, &type);
    with(type, 2);
}

static void indexed_with_negative_places(void)
{
    int lengths[] = { 1, 2, 1 }, places[] = { -5, 2, -1 };
    MPI_Datatype type;
    MPI_Type_indexed(3, lengths, places, MPI_INT, &type);
    with(type, 2);
}

static void hindexed(void)
{
    int lengths[] = { 1, 2, 1 };
    MPI_Aint places[] = { 40, 8, -12 };
    MPI_Datatype type;
    MPI_Type_create_hindexed(3, lengths, places, MPI_INT, &type);
    with(type, 2);
}

static void indexed_block(void)
{
    int places[] = { 9, 0, 4 };
    MPI_Datatype type;
    MPI_Type_create_indexed_block(3, 2, places, MPI_INT, &type);
    with(type, 3);
}

static void hindexed_block(void)
{
    MPI_Aint places[] = { 64, 0, 24 };
    MPI_Datatype type;
    MPI_Type_create_hindexed_block(3, 3, places, MPI_INT, &type);
    with(type, 2);
}

static void structure(void)
{
    MPI_Datatype inner, type;
    MPI_Type_vector(2, 1, 3, MPI_INT, &inner);
    int lengths[] = { 1, 2, 1 };
    MPI_Aint places[] = { 0, 8, 80 };
    MPI_Datatype types[] = { MPI_INT, inner, MPI_INT };
    MPI_Type_create_struct(3, lengths, places, types, &type);
    MPI_Type_free(&inner);
    with(type, 2);
}

static void subarray(void)
{
    int sizes[] = { 4, 5, 6 }, part[] = { 2, 3, 2 }, starts[] = { 1, 1, 3 };
    MPI_Datatype type;
    MPI_Type_create_subarray(3, sizes, part, starts, MPI_ORDER_C, MPI_INT, &type);
    with(type, 1);
    MPI_Type_create_subarray(3, sizes, part, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
    with(type, 2);
}

/* A block-cyclic part of a matrix, once in the order of each language. */
static void darray(void)
{
    static const int orders[] = { MPI_ORDER_C, MPI_ORDER_FORTRAN };
    for (int i = 0; i < 2; i++) {
        int sizes[] = { 6, 7 }, grid[] = { 2, 2 }, blocks[] = { 2, MPI_DISTRIBUTE_DFLT_DARG };
        int kinds[] = { MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK };
        MPI_Datatype type;
        MPI_Type_create_darray(4, me % 4, 2, sizes, kinds, blocks, grid, orders[i], MPI_INT, &type);
        with(type, 1);
    }
}

static void resized(void)
{
    MPI_Datatype inner, type;
    MPI_Type_contiguous(2, MPI_INT, &inner);
    MPI_Type_create_resized(inner, 0, 20, &type);
    with(type, 4);
    MPI_Type_create_resized(inner, -8, 12, &type);
    with(type, 4);
    MPI_Type_free(&inner);
}

/* Elements that follow each other backwards. */
static void resized_to_a_negative_extent(void)
{
    MPI_Datatype type;
    MPI_Type_create_resized(MPI_INT, 0, -8, &type);
    with(type, 5);
}

static void duplicate(void)
{
    MPI_Datatype inner, type;
    MPI_Type_vector(3, 1, 2, MPI_INT, &inner);
    MPI_Type_dup(inner, &type);
    MPI_Type_free(&inner);
    with(type, 2);
    MPI_Type_dup(MPI_INT, &type);
    with(type, 7);
}

static void nested(void)
{
    MPI_Datatype a, b, c, type;
    int lengths[] = { 1, 2 }, places[] = { 1, 4 };
    MPI_Type_vector(2, 1, 2, MPI_INT, &a);
    MPI_Type_indexed(2, lengths, places, a, &b);
    MPI_Type_create_hvector(2, 1, 140, b, &c);
    MPI_Type_create_resized(c, 0, 400, &type);
    MPI_Type_free(&a);
    MPI_Type_free(&b);
    MPI_Type_free(&c);
    with(type, 2);
}

/* The same bytes twice at an origin, which only reading permits. */
static void overlapping_origin(void)
{
    int places[] = { 2, 0, 2 }, numbers[4] = { 10 + me, 20, 30 + me, 40 }, *ints;
    MPI_Datatype type;
    MPI_Type_create_indexed_block(3, 1, places, MPI_INT, &type);
    OK(MPI_Type_commit(&type));
    MPI_Win own = make_ints(3, &ints);
    OK(MPI_Win_fence(0, own));
    OK(MPI_Put(numbers, 1, type, right(), 0, 3, MPI_INT, own));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own));
    EQ(ints[0], 30 + left());
    EQ(ints[1], 10 + left());
    EQ(ints[2], 30 + left());
    OK(MPI_Type_free(&type));
    OK(MPI_Win_free(&own));
}

static void of_no_size(void)
{
    MPI_Datatype type;
    int *ints;
    MPI_Type_contiguous(0, MPI_INT, &type);
    OK(MPI_Type_commit(&type));
    MPI_Win own = make_ints(2, &ints);
    OK(MPI_Win_fence(0, own));
    OK(MPI_Put(ints, 5, type, right(), 0, 5, type, own));
    OK(MPI_Get(ints, 5, type, right(), 0, 0, MPI_INT, own));
    OK(MPI_Accumulate(ints, 5, type, right(), 0, 5, type, MPI_SUM, own));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own));
    EQ(ints[0], 0);
    OK(MPI_Type_free(&type));
    OK(MPI_Win_free(&own));
}

/* Types that differ with signatures that do not. */
static void different_but_equal(void)
{
    MPI_Datatype three, spread;
    int *ints, out[12], back[40];
    MPI_Type_contiguous(3, MPI_INT, &three);
    MPI_Type_vector(6, 1, 3, MPI_INT, &spread);
    OK(MPI_Type_commit(&three));
    OK(MPI_Type_commit(&spread));
    MPI_Win own = make_ints(40, &ints);
    for (int i = 0; i < 12; i++)
        out[i] = me * 100 + i;
    memset(back, 0xff, sizeof back);
    OK(MPI_Win_fence(0, own));
    OK(MPI_Put(out, 2, three, right(), 1, 1, spread, own));
    OK(MPI_Win_fence(0, own));
    OK(MPI_Get(back, 1, spread, left(), 1, 6, MPI_INT, own));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own));
    for (int i = 0; i < 6; i++) {
        EQ(ints[1 + 3 * i], left() * 100 + i);
        EQ(ints[2 + 3 * i], 0);
        int from = (me + 2 * ranks - 2) % ranks;
        EQ(back[3 * i], i % 3 == 0 ? from * 100 + i / 3 : 0);
    }
    OK(MPI_Type_free(&three));
    OK(MPI_Type_free(&spread));
    OK(MPI_Win_free(&own));
}

/* Structures of several basic types, put as they are and fetched apart. */
static void of_mixed_types(void)
{
    struct record { char tag; double value; short pair[2]; } out, back, *records;
    MPI_Datatype raw, type, types[] = { MPI_CHAR, MPI_DOUBLE, MPI_SHORT };
    int lengths[] = { 1, 1, 2 };
    MPI_Aint places[] = { offsetof(struct record, tag), offsetof(struct record, value),
                          offsetof(struct record, pair) };
    MPI_Win own;
    MPI_Type_create_struct(3, lengths, places, types, &raw);
    MPI_Type_create_resized(raw, 0, sizeof(struct record), &type);
    OK(MPI_Type_commit(&type));
    OK(MPI_Win_allocate(4 * sizeof(struct record), sizeof(struct record), MPI_INFO_NULL,
                        MPI_COMM_WORLD, &records, &own));
    memset(records, 0xaa, 4 * sizeof *records);
    memset(&out, 0x55, sizeof out);
    memset(&back, 0, sizeof back);
    out = (struct record){ (char)('a' + me), me + 0.5, { (short)me, (short)-me } };
    OK(MPI_Win_fence(0, own));
    for (int i = 0; i < 4; i++)
        OK(MPI_Put(&out, 1, type, right(), i, 1, type, own));
    OK(MPI_Win_fence(0, own));
    OK(MPI_Get(&back, 1, type, right(), 3, 1, type, own));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own));
    for (int i = 0; i < 4; i++) {
        EQ(records[i].tag, 'a' + left());
        CHECK(records[i].value == left() + 0.5);
        EQ(records[i].pair[1], -left());
        /* What lies between is not of the type. */
        EQ(((unsigned char *)&records[i])[1], 0xaa);
    }
    CHECK(back.value == me + 0.5);
    OK(MPI_Type_free(&raw));
    OK(MPI_Type_free(&type));
    OK(MPI_Win_free(&own));
}

/* Addresses as displacements, from MPI_BOTTOM. */
static void absolute_addresses(void)
{
    int one = 1 + me, many[3] = { 2, 3, 4 }, lengths[] = { 3, 1 }, *ints;
    MPI_Aint places[2];
    MPI_Datatype type, types[] = { MPI_INT, MPI_INT };
    MPI_Get_address(many, &places[0]);
    MPI_Get_address(&one, &places[1]);
    MPI_Type_create_struct(2, lengths, places, types, &type);
    OK(MPI_Type_commit(&type));
    MPI_Win own = make_ints(4, &ints);
    OK(MPI_Win_fence(0, own));
    OK(MPI_Put(MPI_BOTTOM, 1, type, right(), 0, 4, MPI_INT, own));
    OK(MPI_Win_fence(0, own));
    EQ(ints[0], 2);
    EQ(ints[2], 4);
    EQ(ints[3], 1 + left());
    OK(MPI_Win_fence(0, own));
    one = many[0] = 0;
    OK(MPI_Get(MPI_BOTTOM, 1, type, right(), 0, 4, MPI_INT, own));
    OK(MPI_Win_fence(0, own));
    EQ(many[0], 2);
    EQ(one, 1 + me);
    OK(MPI_Accumulate(MPI_BOTTOM, 1, type, right(), 0, 4, MPI_INT, MPI_SUM, own));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own));
    EQ(ints[1], 6);
    EQ(ints[3], 2 * (1 + left()));
    OK(MPI_Type_free(&type));
    OK(MPI_Win_free(&own));
}

/* A handle may come to mean another type once its own was freed. */
static void made_and_freed_often(void)
{
    int *ints, out[64];
    MPI_Win own = make_ints(64, &ints);
    for (int i = 0; i < 64; i++)
        out[i] = 1 + i;
    for (int round = 1; round < 40; round++) {
        MPI_Datatype type;
        memset(ints, 0, 64 * sizeof(int));
        if (round % 2 == 0)
            MPI_Type_vector(3, 1, 1 + round % 9, MPI_INT, &type);
        else
            MPI_Type_contiguous(round, MPI_INT, &type);
        OK(MPI_Type_commit(&type));
        OK(MPI_Win_fence(0, own));
        OK(MPI_Put(out, round % 2 == 0 ? 3 : round, MPI_INT, right(), 0, 1, type, own));
        /* Freed while it is in use, which is permitted. */
        OK(MPI_Type_free(&type));
        OK(MPI_Win_fence(0, own));
        for (int i = 0; i < 64; i++) {
            int stride = 1 + round % 9;
            int spread = i % stride == 0 && i < 3 * stride ? 1 + i / stride : 0;
            EQ(ints[i], round % 2 == 0 ? spread : i < round ? 1 + i : 0);
        }
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own));
    OK(MPI_Win_free(&own));
}

/* A column of a large matrix: many small pieces. */
static void many_pieces(void)
{
    enum { SIDE = 200 };
    double *matrix, *column = malloc(SIDE * sizeof *column);
    MPI_Datatype type;
    MPI_Win own;
    OK(MPI_Win_allocate(SIDE * SIDE * sizeof(double), sizeof(double), MPI_INFO_NULL,
                        MPI_COMM_WORLD, &matrix, &own));
    memset(matrix, 0, SIDE * SIDE * sizeof(double));
    MPI_Type_vector(SIDE, 1, SIDE, MPI_DOUBLE, &type);
    OK(MPI_Type_commit(&type));
    for (int i = 0; i < SIDE; i++)
        column[i] = me + i;
    OK(MPI_Win_fence(0, own));
    OK(MPI_Put(column, SIDE, MPI_DOUBLE, right(), 3, 1, type, own));
    OK(MPI_Accumulate(column, SIDE, MPI_DOUBLE, right(), 8, 1, type, MPI_MAX, own));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own));
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < 10; k++)
            EQ(matrix[i * SIDE + k], k == 3 || k == 8 ? left() + i : 0);
    OK(MPI_Type_free(&type));
    OK(MPI_Win_free(&own));
    free(column);
}

/* A put that is shorter than the layout at the target fills the first part of it. */
static void shorter_than_the_target(MPI_Win own, int *ints)
{
    MPI_Datatype type;
    int out[2] = { 10 + me, 20 + me };
    MPI_Type_vector(4, 1, 2, MPI_INT, &type);
    OK(MPI_Type_commit(&type));
    for (int i = 0; i < 16; i++)
        ints[i] = 0;
    OK(MPI_Win_fence(0, own));
    OK(MPI_Put(out, 2, MPI_INT, right(), 0, 8, MPI_INT, own));
    OK(MPI_Put(out, 2, MPI_INT, right(), 8, 1, type, own));
    OK(MPI_Win_fence(0, own));
    for (int i = 0; i < 16; i++)
        EQ(ints[i], i == 0 || i == 8 ? 10 + left() : i == 1 || i == 10 ? 20 + left() : 0);
    /* The next one finds everything as it should be. */
    OK(MPI_Win_fence(0, own));
    OK(MPI_Put(out, 2, MPI_INT, right(), 2, 2, MPI_INT, own));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own));
    EQ(ints[3], 20 + left());
    OK(MPI_Type_free(&type));
}

static void shorter_than_a_created_target(void)
{
    int memory[16];
    MPI_Win own;
    OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &own));
    shorter_than_the_target(own, memory);
    OK(MPI_Win_free(&own));
}

static void shorter_than_an_allocated_target(void)
{
    int *ints;
    MPI_Win own = make_ints(16, &ints);
    shorter_than_the_target(own, ints);
    OK(MPI_Win_free(&own));
}

/* An accumulate is a put but for the combination. */
static void accumulates_shorter_than_the_target(void)
{
    int *ints, memory[16], out[2] = { 1 + me, 2 };
    for (int round = 0; round < 2; round++) {
        MPI_Win own;
        if (round == 0) {
            own = make_ints(16, &ints);
        } else {
            ints = memory;
            memset(memory, 0, sizeof memory);
            OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                              &own));
        }
        OK(MPI_Win_fence(0, own));
        OK(MPI_Accumulate(out, 2, MPI_INT, right(), 3, 9, MPI_INT, MPI_SUM, own));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own));
        for (int i = 0; i < 16; i++)
            EQ(ints[i], i == 3 ? 1 + left() : i == 4 ? 2 : 0);
        OK(MPI_Win_free(&own));
    }
}

/* Types by Fortran's precision and range have no name, and cannot be freed. */
static void of_fortran_kinds(void)
{
    MPI_Datatype real, integer, type;
    double *base, out[4] = { 1, 2, 3, 4 };
    int more[4] = { 1, 2, 3, 4 };
    MPI_Win own;
    MPI_Type_create_f90_real(15, 300, &real);
    MPI_Type_create_f90_integer(9, &integer);
    OK(MPI_Win_allocate(SMALLEST, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &own));
    memset(base, 0, SMALLEST);
    OK(MPI_Win_fence(0, own));
    MPI_Type_vector(2, 1, 2, real, &type);
    OK(MPI_Type_commit(&type));
    OK(MPI_Put(out, 2, real, right(), 0, 1, type, own));
    OK(MPI_Type_free(&type));
    MPI_Type_contiguous(4, integer, &type);
    OK(MPI_Type_commit(&type));
    OK(MPI_Put(more, 1, type, right(), 4, 1, type, own));
    OK(MPI_Type_free(&type));
    OK(MPI_Win_fence(0, own));
    OK(MPI_Accumulate(out, 1, real, right(), 2, 1, real, MPI_SUM, own));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own));
    CHECK(base[0] == 1 && base[1] == 0 && base[2] == 3);
    SAME(&base[4], more, sizeof more);
    OK(MPI_Win_free(&own));
}

#if MPI_VERSION >= 4
/* Every constructor in its form with large counts. */
static void large_count_constructors(void)
{
    MPI_Count lengths[] = { 2, 0, 1, 3 }, places[] = { 7, 3, 0, 11 }, bytes[] = { 40, 8, 0, 80 };
    MPI_Count sizes[] = { 4, 5, 6 }, part[] = { 2, 3, 2 }, starts[] = { 1, 1, 3 };
    MPI_Count grid_sizes[] = { 6, 7 };
    int grid[] = { 2, 2 }, blocks[] = { 2, MPI_DISTRIBUTE_DFLT_DARG };
    int kinds[] = { MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK };
    MPI_Datatype type, inner, types[] = { MPI_INT, MPI_INT, MPI_INT, MPI_INT };
    MPI_Type_contiguous_c(5, MPI_INT, &type);
    with(type, 3);
    MPI_Type_vector_c(4, 2, 5, MPI_INT, &type);
    with(type, 3);
    MPI_Type_create_hvector_c(3, 2, 20, MPI_INT, &type);
    with(type, 2);
    MPI_Type_indexed_c(4, lengths, places, MPI_INT, &type);
    with(type, 2);
    MPI_Type_create_hindexed_c(4, lengths, bytes, MPI_INT, &type);
    with(type, 2);
    MPI_Type_create_indexed_block_c(3, 2, places, MPI_INT, &type);
    with(type, 2);
    MPI_Type_create_hindexed_block_c(3, 2, bytes, MPI_INT, &type);
    with(type, 2);
    MPI_Type_create_struct_c(4, lengths, bytes, types, &type);
    with(type, 2);
    MPI_Type_create_subarray_c(3, sizes, part, starts, MPI_ORDER_C, MPI_INT, &type);
    with(type, 1);
    MPI_Type_create_subarray_c(3, sizes, part, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
    with(type, 1);
    MPI_Type_create_darray_c(4, me % 4, 2, grid_sizes, kinds, blocks, grid, MPI_ORDER_C, MPI_INT,
                             &type);
    with(type, 1);
    MPI_Type_vector_c(2, 1, 3, MPI_INT, &inner);
    MPI_Type_create_resized_c(inner, 0, 40, &type);
    MPI_Type_free(&inner);
    with(type, 3);
}
#endif

static const struct test cases[] = {
    CASE(contiguous), CASE(vector), CASE(vector_of_negative_stride), CASE(hvector),
    CASE(hvector_of_negative_stride), CASE(indexed), CASE(indexed_with_negative_places),
    CASE(hindexed), CASE(indexed_block), CASE(hindexed_block), CASE(structure), CASE(subarray),
    CASE(darray), CASE(resized), CASE(resized_to_a_negative_extent), CASE(duplicate), CASE(nested),
    CASE(overlapping_origin), CASE(of_no_size), CASE(different_but_equal), CASE(of_mixed_types),
    CASE(absolute_addresses), CASE(made_and_freed_often), CASE(many_pieces),
    CASE(shorter_than_a_created_target), CASE(shorter_than_an_allocated_target),
    CASE(accumulates_shorter_than_the_target), CASE(of_fortran_kinds),
#if MPI_VERSION >= 4
    CASE(large_count_constructors),
#endif
};

MAIN(cases)
