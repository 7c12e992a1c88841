/* What a datatype was made of. */
#ifndef FARSIDE_MPI_CONTENTS_H
#define FARSIDE_MPI_CONTENTS_H

#include "border.h"

/* The arguments of a constructor, whichever form of it was called. */
struct contents {
    int combiner, order;
    int64_t *all;                       /* the numbers below lie in it */
    const int64_t *numbers, *places;    /* counts, lengths, displacements; and bytes */
    const int64_t *sizes;               /* of subarrays */
    MPI_Datatype *types;
    size_t type_count;
};

int open_contents(MPI_Datatype type, struct contents *c);
void close_contents(struct contents *c);
int combiner_of(MPI_Datatype type);
bool is_predefined(int combiner);

#endif
