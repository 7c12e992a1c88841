/* Jacobi's method for Laplace's equation on a square, in strips of rows: each
 * PE puts its outer rows into the halos of its neighbours, raises a flag there
 * and waits for theirs; in every step the largest change of all is reduced.
 * The result is compared with that of one PE alone. */
#ifndef SHMEM_STENCIL_H
#define SHMEM_STENCIL_H

#include "shmem_bench.h"

enum {
    SIDE = 256,             /* inner rows and columns of the square */
    PITCH = SIDE + 2,       /* doubles of a row */
    STEPS = 4000
};

/* What one PE has: rows 1 to `rows`, and a halo of one on each side. */
struct strip {
    int rows;
    double *grids[2];       /* symmetric: read and written in turn */
    long *flags;            /* symmetric: steps that the one above and the one below have sent */
};

/* The upper edge is hot; everything else begins cold. */
static void heat(double *top)
{
    for (int column = 0; column < PITCH; column++)
        top[column] = 1;
}

/* One step over so many rows; returns the largest change. */
static double relax(const double *from, double *to, int rows)
{
    double change = 0;
    for (int row = 1; row <= rows; row++) {
        const double *middle = from + (size_t)row * PITCH;
        double *out = to + (size_t)row * PITCH;
        for (int column = 1; column <= SIDE; column++) {
            double value = 0.25 * (middle[column - 1] + middle[column + 1]
                                   + middle[column - PITCH] + middle[column + PITCH]);
            double difference = value - middle[column];
            difference = difference < 0 ? -difference : difference;
            change = difference > change ? difference : change;
            out[column] = value;
        }
    }
    return change;
}

static double sum_of(const double *grid, int rows)
{
    double sum = 0;
    for (int row = 1; row <= rows; row++)
        for (int column = 1; column <= SIDE; column++)
            sum += grid[(size_t)row * PITCH + column];
    return sum;
}

/* How many rows a PE has. */
static int rows_of(int pe)
{
    return SIDE / pes + (pe < SIDE % pes);
}

/* Sends the outer rows of a step's result, and waits for those of the others. */
static void swap_halos(const struct strip *strip, int step)
{
    double *grid = strip->grids[(step + 1) % 2];
    if (me > 0) {
        double *halo = grid + (size_t)(rows_of(me - 1) + 1) * PITCH;
        shmem_double_put(halo, grid + PITCH, PITCH, me - 1);
    }
    if (me < pes - 1)
        shmem_double_put(grid, grid + (size_t)strip->rows * PITCH, PITCH, me + 1);
    shmem_fence();
    if (me > 0)
        shmem_long_p(strip->flags + 1, step + 1, me - 1);
    if (me < pes - 1)
        shmem_long_p(strip->flags, step + 1, me + 1);
    if (me > 0)
        shmem_long_wait_until(strip->flags, SHMEM_CMP_GE, step + 1);
    if (me < pes - 1)
        shmem_long_wait_until(strip->flags + 1, SHMEM_CMP_GE, step + 1);
}

/* What one PE alone gets: the sum of all, and the last change. */
static void alone(int steps, double *sum, double *change)
{
    double *grids[2];
    for (int i = 0; i < 2; i++) {
        grids[i] = private((size_t)(SIDE + 2) * PITCH * sizeof **grids);
        heat(grids[i]);
    }
    for (int step = 0; step < steps; step++)
        *change = relax(grids[step % 2], grids[(step + 1) % 2], SIDE);
    *sum = sum_of(grids[steps % 2], SIDE);
    free(grids[1]);
    free(grids[0]);
}

static bool case_stencil(const struct plan *plan)
{
    const int steps = STEPS / (int)plan->part;
    static double changes[1], change[1], sums[1], sum[1], work[2][SHMEM_REDUCE_MIN_WRKDATA_SIZE];
    struct strip strip = { .rows = rows_of(me) };
    if (pes > SIDE)
        return fail("stencil: %d PEs are more than the %d rows", pes, SIDE);
    for (int i = 0; i < 2; i++) {
        /* As many rows everywhere: the heap is symmetric. */
        strip.grids[i] = symmetric((size_t)(rows_of(0) + 2) * PITCH * sizeof(double));
        if (me == 0)
            heat(strip.grids[i]);
    }
    strip.flags = symmetric(2 * sizeof *strip.flags);
    sync_array(0);

    int64_t start = now_ns();
    for (int step = 0; step < steps; step++) {
        *change = relax(strip.grids[step % 2], strip.grids[(step + 1) % 2], strip.rows);
        swap_halos(&strip, step);
        shmem_double_max_to_all(changes, change, 1, 0, 0, pes, work[step % 2],
                                sync_array(step % 2));
    }
    shmem_barrier_all();
    double ns = (double)(now_ns() - start);

    *sum = sum_of(strip.grids[steps % 2], strip.rows);
    shmem_double_sum_to_all(sums, sum, 1, 0, 0, pes, work[0], sync_array(2));
    bool good = true;
    if (me == 0) {
        double sum_alone = 0, change_alone = 0;
        alone(steps, &sum_alone, &change_alone);
        double off = (*sums - sum_alone) / sum_alone;
        good = off < 1e-9 && off > -1e-9 && *changes == change_alone;
    }
    good = everywhere(good);
    shmem_free(strip.flags);
    shmem_free(strip.grids[1]);
    shmem_free(strip.grids[0]);
    if (!good)
        return fail("stencil: the result is not that of one PE");
    say("stencil", 0, ns, (double)SIDE * SIDE * steps / ns * 1e9);
    return true;
}

#endif
