/* The arguments of the constructors of datatypes, in the form with ints and in that with large
 * counts, which an MPI gives out in different ways. */
#include <stdlib.h>
#include "contents.h"

#if MPI_VERSION >= 4
typedef MPI_Count amount_t;

static int envelope(MPI_Datatype type, amount_t counts[4], int *combiner)
{
    return PMPI_Type_get_envelope_c(type, &counts[0], &counts[1], &counts[2], &counts[3],
                                    combiner);
}

static int contents(MPI_Datatype type, const amount_t counts[4], int *integers,
                    MPI_Aint *addresses, amount_t *large, MPI_Datatype *types)
{
    return PMPI_Type_get_contents_c(type, counts[0], counts[1], counts[2], counts[3], integers,
                                    addresses, large, types);
}
#else
typedef int amount_t;

static int envelope(MPI_Datatype type, amount_t counts[4], int *combiner)
{
    counts[2] = 0;
    return PMPI_Type_get_envelope(type, &counts[0], &counts[1], &counts[3], combiner);
}

static int contents(MPI_Datatype type, const amount_t counts[4], int *integers,
                    MPI_Aint *addresses, amount_t *large, MPI_Datatype *types)
{
    (void)large;
    return PMPI_Type_get_contents(type, counts[0], counts[1], counts[3], integers, addresses,
                                  types);
}
#endif

int combiner_of(MPI_Datatype type)
{
    amount_t counts[4];
    int combiner;
    return envelope(type, counts, &combiner) == MPI_SUCCESS ? combiner : MPI_COMBINER_NAMED;
}

/* Types of Fortran's kinds have no name, but like those that have one they are never freed. */
bool is_predefined(int combiner)
{
    return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL
           || combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

/* Finds the numbers of a constructor. The form with large counts has displacements in bytes among
 * them, behind the counts, and of a subarray only the dimensions and the order elsewhere. */
static void arrange(struct contents *c, const amount_t counts[4])
{
    const int64_t *integers = c->all, *addresses = integers + counts[0];
    const int64_t *large = addresses + counts[1];
    bool is_large = counts[2] > 0;
    c->numbers = is_large && c->combiner != MPI_COMBINER_SUBARRAY ? large : integers;
    c->places = addresses;
    if (is_large && (c->combiner == MPI_COMBINER_HINDEXED || c->combiner == MPI_COMBINER_STRUCT))
        c->places = large + 1 + large[0];
    else if (is_large)
        c->places = large + 2;
    if (c->combiner == MPI_COMBINER_SUBARRAY) {
        c->sizes = is_large ? large : integers + 1;
        c->order = (int)integers[is_large ? 1 : 1 + 3 * integers[0]];
    }
}

int open_contents(MPI_Datatype type, struct contents *c)
{
    amount_t counts[4];
    *c = (struct contents){ 0 };
    int error = envelope(type, counts, &c->combiner);
    if (error != MPI_SUCCESS || c->combiner == MPI_COMBINER_NAMED)
        return error;
    int *integers = calloc((size_t)counts[0] + 1, sizeof *integers);
    MPI_Aint *addresses = calloc((size_t)counts[1] + 1, sizeof *addresses);
    amount_t *large = calloc((size_t)counts[2] + 1, sizeof *large);
    c->types = calloc((size_t)counts[3] + 1, sizeof *c->types);
    error = contents(type, counts, integers, addresses, large, c->types);
    if (error == MPI_SUCCESS) {
        size_t at = 0;
        c->type_count = (size_t)counts[3];
        c->all = calloc((size_t)(counts[0] + counts[1] + counts[2]) + 1, sizeof *c->all);
        for (amount_t i = 0; i < counts[0]; i++)
            c->all[at++] = integers[i];
        for (amount_t i = 0; i < counts[1]; i++)
            c->all[at++] = addresses[i];
        for (amount_t i = 0; i < counts[2]; i++)
            c->all[at++] = large[i];
        arrange(c, counts);
    }
    free(integers);
    free(addresses);
    free(large);
    return error;
}

void close_contents(struct contents *c)
{
    for (size_t i = 0; i < c->type_count; i++)
        if (!is_predefined(combiner_of(c->types[i])))
            PMPI_Type_free(&c->types[i]);
    free(c->all);
    free(c->types);
}
