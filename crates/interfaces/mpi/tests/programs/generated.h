/* What generated programs stand on: kinds of numbers, the window and its zones, origins and what
 * they keep, and elements of random types. */
#ifndef GENERATED_H
#define GENERATED_H

#include <pthread.h>
#include "random.h"

enum {
    THREADS = 2, OPERATIONS = 5, ROUNDS_MAX = 6, ALIGN = 64,
    NUMBER_BYTES = 256,     /* of one kind in an origin's zone */
    COMMON_COUNT = 16,      /* of each kind */
    COUNTS = 10,            /* of an origin at a target in one epoch */
    HELD_US = 500,
    LONGEST_S = 15          /* that a program takes */
};

static const struct kind {
    MPI_Datatype type;
    int size;
    bool is_float;
} *kinds;
static int kind_count;

static void find_kinds(void)
{
    static struct kind all[10];
    MPI_Datatype real;
    MPI_Type_create_f90_real(15, 300, &real);
    const struct kind these[] = {
        { MPI_INT, sizeof(int), false }, { MPI_DOUBLE, sizeof(double), true },
        { MPI_SHORT, sizeof(short), false }, { MPI_LONG_LONG, sizeof(long long), false },
        { MPI_FLOAT, sizeof(float), true }, { MPI_SIGNED_CHAR, 1, false },
        { MPI_UNSIGNED, sizeof(unsigned), false }, { MPI_UINT16_T, 2, false },
        { MPI_UINT64_T, 8, false }, { real, sizeof(double), true },
    };
    memcpy(all, these, sizeof all);
    kinds = all;
    kind_count = COUNT(all);
}

/* What all members know of the program that is run. */
static struct {
    uint64_t seed;
    MPI_Comm comm;
    int rank, size;         /* in the communicator */
    MPI_Win win;
    MPI_Aint *bases;        /* of dynamic windows, else zeros */
    int *units;
    unsigned char *part;
    MPI_Aint zone_bytes, part_bytes;
    bool is_dynamic;
} program;
static bool is_verbose, has_threads;

/* One origin, and what it has to keep until its epoch ends. */
struct origin {
    int number, round;
    struct random random;
    uint64_t digest;
    bool is_passive, only_reads;
    struct { void *memory; size_t bytes; bool is_result; } kept[256];
    int kept_count;
    MPI_Request requests[64];
    int request_count;
    pthread_t thread;
    int targets[64], target_count;
};

static uint64_t hash(uint64_t before, const void *memory, size_t bytes)
{
    const unsigned char *from = memory;
    for (size_t i = 0; i < bytes; i++)
        before = (before ^ from[i]) * 0x100000001B3u;
    return before;
}

static void note(const struct origin *origin, const char *format, ...)
{
    char text[256];
    va_list arguments;
    if (!is_verbose)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "rank %d of %d, origin %d, round %d: %s\n", program.rank, program.size,
            origin->number, origin->round, text);
}

static unsigned char *keep(struct origin *origin, size_t bytes, bool is_result)
{
    unsigned char *memory = malloc(bytes + ALIGN);
    memset(memory, 0x5a, bytes + ALIGN);
    origin->kept[origin->kept_count].memory = memory;
    origin->kept[origin->kept_count].is_result = is_result;
    origin->kept[origin->kept_count++].bytes = bytes;
    return memory;
}

/* Completes requests, which says nothing of gets in an epoch that is still open. */
static void wait_for_requests(struct origin *origin)
{
    OK(MPI_Waitall(origin->request_count, origin->requests, MPI_STATUSES_IGNORE));
    origin->request_count = 0;
}

static void finish_epoch(struct origin *origin)
{
    for (int i = 0; i < origin->kept_count; i++) {
        if (origin->kept[i].is_result) {
            origin->digest = hash(origin->digest, origin->kept[i].memory, origin->kept[i].bytes);
            note(origin, "result %d: %016llx", i,
                 (unsigned long long)hash(1, origin->kept[i].memory, origin->kept[i].bytes));
        }
        free(origin->kept[i].memory);
    }
    origin->kept_count = 0;
}

/* Where a part begins there are bytes that its owner stores, and then a counter. */
enum { COUNTER = ALIGN };

/* The first byte of the zone of an origin, and of its numbers of a kind. */
static MPI_Aint zone_of(int origin)
{
    return 2 * ALIGN + (MPI_Aint)kind_count * COMMON_COUNT * 8
           + origin * (program.zone_bytes + (MPI_Aint)kind_count * NUMBER_BYTES);
}

static MPI_Aint numbers_in(int origin, int kind)
{
    return zone_of(origin) + program.zone_bytes + (MPI_Aint)kind * NUMBER_BYTES;
}

static MPI_Aint common_of(int kind)
{
    return 2 * ALIGN + (MPI_Aint)kind * COMMON_COUNT * 8;
}

/* Elements of a type somewhere. */
struct elements {
    MPI_Datatype type, basic;
    int count;
    MPI_Aint first, last;   /* of their bytes, from the first element's place on */
};

static struct elements span_of(MPI_Datatype type, MPI_Datatype basic, int count)
{
    MPI_Aint lowest, true_lowest, extent, true_extent;
    MPI_Type_commit(&type);
    MPI_Type_get_extent(type, &lowest, &extent);
    MPI_Type_get_true_extent(type, &true_lowest, &true_extent);
    MPI_Aint far = (count - 1) * extent;
    return (struct elements){ type, basic, count, true_lowest + (far < 0 ? far : 0),
                              true_lowest + true_extent + (far > 0 ? far : 0) };
}

/* A type with so many basic elements in all; simple if a random one needs too much room. */
static struct elements make_elements(struct random *random, MPI_Datatype basic, int elements,
                                     MPI_Aint room)
{
    int part = divisor(random, elements);
    MPI_Datatype type = below(random, 3) == 0 ? basic : make_type(random, basic, part, 2);
    struct elements made = span_of(type, basic, type == basic ? elements : elements / part);
    /* Displacements of windows are not negative. */
    if (made.last - made.first <= room - ALIGN && made.first <= (MPI_Aint)ALIGN)
        return made;
    release_type(&made.type, basic);
    return span_of(basic, basic, elements);
}

/* A place for elements in some bytes, a multiple of 8. */
static MPI_Aint place(struct random *random, const struct elements *elements, MPI_Aint start,
                      MPI_Aint room)
{
    MPI_Aint lowest = start - elements->first, at = (lowest + 7) / 8 * 8;
    MPI_Aint slack = (room - (elements->last - elements->first) - 8) / 8;
    return slack > 0 ? at + 8 * below(random, (int)slack) : at;
}

static MPI_Aint displacement(int target, MPI_Aint at)
{
    return program.bases[target] + at / program.units[target];
}

/* A buffer of the origin for as many basic elements, in a layout of its own. */
static struct elements make_buffer(struct origin *origin, MPI_Datatype basic, int elements,
                                   bool is_result, unsigned char **buffer)
{
    struct elements made = make_elements(&origin->random, basic, elements, 1 << 16);
    *buffer = keep(origin, (size_t)(made.last - made.first) + ALIGN, is_result);
    *buffer -= made.first & ~(MPI_Aint)7;
    return made;
}

#endif
