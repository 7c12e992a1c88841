/* Numbers from a seed, and datatypes made from them. */
#ifndef RANDOM_H
#define RANDOM_H

#include "case.h"

struct random {
    uint64_t state;
};

/* SplitMix64. */
static inline uint64_t draw(struct random *random)
{
    uint64_t mixed = random->state += 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
    return mixed ^ mixed >> 31;
}

static inline int below(struct random *random, int limit)
{
    return (int)(draw(random) % (uint64_t)limit);
}

/* A stream of its own for each combination of numbers. */
static inline struct random stream(uint64_t seed, uint64_t a, uint64_t b)
{
    struct random random = { seed };
    random.state = draw(&random) + a;
    random.state = draw(&random) + b;
    return random;
}

static inline int divisor(struct random *random, int number)
{
    int found = 1 + below(random, number);
    while (number % found != 0)
        found--;
    return found;
}

static inline void release_type(MPI_Datatype *type, MPI_Datatype basic)
{
    if (*type != basic)
        MPI_Type_free(type);
}

enum { BLOCKS = 8 };

/* Divides `count` elements into blocks, which lie apart in an order of their own. Places count
 * `step` bytes, or whole elements if that is 0. */
struct blocks {
    int count, lengths[BLOCKS], places[BLOCKS];
    MPI_Aint bytes[BLOCKS];
};

static inline struct blocks divide(struct random *random, int count, MPI_Aint extent, int step)
{
    struct blocks blocks = { .count = 1 + below(random, BLOCKS) };
    MPI_Aint at = 0, bytes = 0;
    for (int i = 0; i < blocks.count; i++) {
        bool is_last = i == blocks.count - 1;
        blocks.lengths[i] = is_last ? count : below(random, count + 1);
        count -= blocks.lengths[i];
        blocks.places[i] = (int)at;
        blocks.bytes[i] = bytes;
        at += blocks.lengths[i] + below(random, 3);
        bytes += blocks.lengths[i] * extent + (MPI_Aint)step * below(random, 3);
    }
    for (int i = blocks.count - 1; i > 0; i--) {
        int k = below(random, i + 1), length = blocks.lengths[i], place = blocks.places[i];
        MPI_Aint byte = blocks.bytes[i];
        blocks.lengths[i] = blocks.lengths[k], blocks.lengths[k] = length;
        blocks.places[i] = blocks.places[k], blocks.places[k] = place;
        blocks.bytes[i] = blocks.bytes[k], blocks.bytes[k] = byte;
    }
    return blocks;
}

static inline void make_subarray(struct random *random, int count, MPI_Datatype inner,
                                 MPI_Datatype *type)
{
    int sizes[3], parts[3], starts[3], order = below(random, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    parts[0] = divisor(random, count);
    parts[1] = divisor(random, count / parts[0]);
    parts[2] = count / parts[0] / parts[1];
    for (int i = 0; i < 3; i++) {
        sizes[i] = parts[i] + below(random, 3);
        starts[i] = below(random, sizes[i] - parts[i] + 1);
    }
    MPI_Type_create_subarray(3, sizes, parts, starts, order, inner, type);
}

static inline void make_struct(struct random *random, int count, MPI_Datatype inner,
                               MPI_Aint extent, int step, MPI_Datatype *type)
{
    struct blocks blocks = divide(random, count, extent, step);
    MPI_Datatype types[BLOCKS];
    for (int i = 0; i < blocks.count; i++)
        types[i] = inner;
    MPI_Type_create_struct(blocks.count, blocks.lengths, blocks.bytes, types, type);
}

static inline void make_resized(struct random *random, int count, MPI_Datatype inner, int step,
                                MPI_Datatype *type)
{
    MPI_Datatype whole;
    MPI_Aint lowest, extent;
    MPI_Type_contiguous(count, inner, &whole);
    MPI_Type_get_extent(whole, &lowest, &extent);
    int before = below(random, 3), behind = below(random, 3);
    MPI_Type_create_resized(whole, lowest - before * step, extent + (before + behind) * step, type);
    MPI_Type_free(&whole);
}

/* The form of a constructor with large counts, where the MPI has it. */
#if MPI_VERSION >= 4
#define LARGE(is_large, name, ...) ((is_large) ? name##_c(__VA_ARGS__) : name(__VA_ARGS__))
#else
#define LARGE(is_large, name, ...) ((void)(is_large), name(__VA_ARGS__))
#endif

/* A type of so many basic elements, which do not overlap, also not those of several in a row. Its
 * holder frees it, unless it is the basic one. */
static inline MPI_Datatype make_type(struct random *random, MPI_Datatype basic, int elements,
                                     int depth)
{
    if (depth == 0 || (elements == 1 && below(random, 2) == 0)) {
        MPI_Datatype type = basic;
        if (elements > 1)
            MPI_Type_contiguous(elements, basic, &type);
        return type;
    }
    int step, part = divisor(random, elements), count = elements / part;
    MPI_Datatype inner = make_type(random, basic, part, depth - 1), type;
    MPI_Aint lowest, extent;
    MPI_Type_size(basic, &step);
    MPI_Type_get_extent(inner, &lowest, &extent);
    int length = divisor(random, count), sign = below(random, 4) == 0 ? -1 : 1;
    /* Open MPI 4.1 takes blocks that touch each other backwards for one in the other direction. */
    int gap = below(random, 3) + (sign < 0);
    struct blocks blocks = divide(random, count, extent, step);
    MPI_Aint stride = sign * (length * extent + step * gap);
    bool is_large = below(random, 2);
    switch (below(random, 10)) {
    case 0:
        LARGE(is_large, MPI_Type_contiguous, count, inner, &type);
        break;
    case 1:
        LARGE(is_large, MPI_Type_vector, count / length, length, sign * (length + gap), inner,
              &type);
        break;
    case 2:
        LARGE(is_large, MPI_Type_create_hvector, count / length, length, stride, inner, &type);
        break;
    case 3:
        MPI_Type_indexed(blocks.count, blocks.lengths, blocks.places, inner, &type);
        break;
    case 4:
        MPI_Type_create_hindexed(blocks.count, blocks.lengths, blocks.bytes, inner, &type);
        break;
    case 5:
        if (count / length > BLOCKS)
            length = count;
        for (int i = 0; i < count / length; i++)
            blocks.places[i] = i * (length + 1);
        MPI_Type_create_indexed_block(count / length, length, blocks.places, inner, &type);
        break;
    case 6:
        make_struct(random, count, inner, extent, step, &type);
        break;
    case 7:
        make_subarray(random, count, inner, &type);
        break;
    case 8:
        make_resized(random, count, inner, step, &type);
        break;
    default: {
        MPI_Datatype whole;
        MPI_Type_contiguous(count, inner, &whole);
        MPI_Type_dup(whole, &type);
        MPI_Type_free(&whole);
    }
    }
    release_type(&inner, basic);
    return type;
}

#endif
