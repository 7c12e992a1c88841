/* Global Arrays: the sync after writes to everybody, patches, and matrix
 * multiplication, as `farside bench array` measures them.
 *
 * usage: PROGRAM MS CASES SHAPES SIZE
 * SHAPES are patches of doubles such as 64x8, SIZE is the order of the matrices.
 */
#define _POSIX_C_SOURCE 200809L
#include "rival.h"

#include <mpi.h>
#include <ga.h>
#include <macdecls.h>

enum { SYNC_ROUNDS = 100 };  /* as often as the paper does it */
static const int64_t BATCH_NS = 20000;

struct plan {
    long ms, size;
    bool sync, put, get, accumulate, matmul;
    long rows[MAX_LIST], columns[MAX_LIST];
    int shapes;
};

static bool parse_case(const char *text, struct plan *plan)
{
    bool *cases[] = { &plan->sync, &plan->put, &plan->get, &plan->accumulate, &plan->matmul };
    const char *names[] = { "sync", "put", "get", "accumulate", "matmul" };
    for (int i = 0; i < 5; i++)
        if (strcmp(text, names[i]) == 0)
            return *cases[i] = true;
    return fail("unknown case '%s'", text);
}

static bool parse_shape(const char *text, struct plan *plan)
{
    char *end;
    long rows = strtol(text, &end, 10);
    long columns = *end == 'x' ? strtol(end + 1, &end, 10) : 0;
    if (*end != '\0' || rows < 1 || columns < 1)
        return fail("bad shape '%s'", text);
    plan->rows[plan->shapes] = rows;
    plan->columns[plan->shapes++] = columns;
    return true;
}

static bool parse(int argc, char **argv, struct plan *plan)
{
    memset(plan, 0, sizeof *plan);
    if (argc != 5)
        return fail("usage: %s MS CASES SHAPES SIZE", argv[0]);
    return parse_number(argv[1], "MS", 60000, &plan->ms)
        && parse_list(argv[2], "CASES", plan, parse_case)
        && parse_list(argv[3], "SHAPES", plan, parse_shape)
        && parse_number(argv[4], "SIZE", 1 << 15, &plan->size);
}

/* A matrix of which each rank has `rows` rows. */
static int rows_array(int rows, int columns, int ranks)
{
    int dims[2] = { rows * ranks, columns }, blocks[2] = { ranks, 1 };
    int *map = calloc((size_t)ranks + 1, sizeof(int));
    for (int r = 0; r < ranks; r++)
        map[r] = r * rows;
    int array = NGA_Create_irreg(C_DBL, 2, dims, "patches", blocks, map);
    free(map);
    return array;
}

/* Everybody writes to the part of everybody else, all meet, and the sync is timed. */
static void measure_sync(int rank, int ranks)
{
    double took = 0, sum, value = 1;
    int array = rows_array(1, ranks, ranks), one = 1;
    bool good = true;
    GA_Zero(array);
    for (int round = 0; round <= SYNC_ROUNDS; round++) {
        value = round + 1;
        for (int r = 0; r < ranks; r++) {
            int at[2] = { r, rank };
            if (r != rank)
                NGA_Put(array, at, at, &value, &one);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t start = now_ns();
        GA_Sync();
        if (round > 0)  /* the first one only warms up */
            took += (double)(now_ns() - start);
        int low[2] = { rank, 0 }, high[2] = { rank, ranks - 1 }, ld = ranks;
        double *seen = calloc((size_t)ranks, sizeof(double));
        NGA_Get(array, low, high, seen, &ld);
        for (int r = 0; r < ranks; r++)
            good = good && (r == rank || seen[r] >= value);
        free(seen);
        GA_Sync();
    }
    MPI_Reduce(&took, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!good)
        GA_Error("a put had not landed after the sync", rank);
    if (rank == 0)
        printf("sample sync 8 1x1 ga_sync %.2f - -\n", sum / SYNC_ROUNDS / ranks);
    GA_Destroy(array);
}

/* One patch of rank 1 after the other, by rank 0, each complete. */
static double measure_patch(const struct plan *plan, const char *name, int array,
    const double *data, int rows, int columns)
{
    int low[2] = { rows, columns / 2 }, high[2] = { 2 * rows - 1, columns / 2 + columns - 1 },
        ld = columns;
    double one = 1;
    struct samples samples = {0};
    int64_t deadline = now_ns() + plan->ms * 1000000;
    for (long n = 1; ; ) {
        int64_t start = now_ns();
        for (long i = 0; i < n; i++) {
            if (name[0] == 'g') {
                NGA_Get(array, low, high, (void *)data, &ld);
                continue;
            }
            GA_Init_fence();
            if (name[0] == 'p')
                NGA_Put(array, low, high, (void *)data, &ld);
            else
                NGA_Acc(array, low, high, (void *)data, &ld, &one);
            GA_Fence();
        }
        int64_t took = now_ns() - start;
        bool over = now_ns() >= deadline;
        if (took < BATCH_NS && !over) {
            n *= 2;
            continue;
        }
        record(&samples, (double)took / (double)n);
        if (over)
            break;
    }
    double result = median(&samples);
    free(samples.ns);
    return result;
}

static void measure_patches(const struct plan *plan, int rank, int ranks)
{
    const char *names[] = { "put", "get", "accumulate" };
    const bool wanted[] = { plan->put, plan->get, plan->accumulate };
    for (int s = 0; s < plan->shapes; s++) {
        int rows = (int)plan->rows[s], columns = (int)plan->columns[s];
        int array = rows_array(rows, 2 * columns, ranks);
        double *data = calloc((size_t)rows * (size_t)columns, sizeof(double));
        GA_Zero(array);
        for (int c = 0; c < 3; c++) {
            GA_Sync();
            if (rank == 0 && wanted[c]) {
                double ns = measure_patch(plan, names[c], array, data, rows, columns);
                double bytes = 8.0 * rows * columns;
                printf("sample %s %.0f %dx%d - %.2f %.0f -\n", names[c], bytes, rows, columns, ns,
                    bytes * 1e9 / ns);
            }
            GA_Sync();
        }
        free(data);
        GA_Destroy(array);
    }
}

static void measure_matmul(const struct plan *plan, int rank)
{
    int n = (int)plan->size, dims[2] = { n, n }, chunk[2] = { -1, -1 };
    int a = NGA_Create(C_DBL, 2, dims, "a", chunk), b = NGA_Create(C_DBL, 2, dims, "b", chunk);
    int c = NGA_Create(C_DBL, 2, dims, "c", chunk);
    double half = 0.5, two = 2, least = 0, seen;
    GA_Fill(a, &half);
    GA_Fill(b, &two);
    for (int round = 0; round < 3; round++) {
        GA_Sync();
        int64_t start = now_ns();
        GA_Dgemm('n', 'n', n, n, n, 1.0, a, b, 0.0, c);
        double took = (double)(now_ns() - start), slowest;
        MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        least = round == 0 || slowest < least ? slowest : least;
    }
    int at[2] = { n - 1, n - 1 }, one = 1;
    NGA_Get(c, at, at, &seen, &one);
    if (seen != (double)n)
        GA_Error("a product is wrong", rank);
    double flops = 2.0 * n * n * (double)n;
    if (rank == 0)
        printf("sample matmul %.0f %dx%d - %.2f - %.0f\n", 8.0 * n * n, n, n, least,
            flops * 1e9 / least);
    GA_Destroy(c);
    GA_Destroy(b);
    GA_Destroy(a);
}

int main(int argc, char **argv)
{
    struct plan plan;
    alarm(60);  /* the start can hang as well */
    MPI_Init(&argc, &argv);
    bool good = parse(argc, argv, &plan);
    GA_Initialize();
    MA_init(C_DBL, 1 << 20, 1 << 20);
    int rank = GA_Nodeid(), ranks = GA_Nnodes();
    if (good) {
        alarm((unsigned)(120 + 4 * plan.shapes * plan.ms / 1000));
        if (plan.sync)
            measure_sync(rank, ranks);
        measure_patches(&plan, rank, ranks);
        if (plan.matmul)
            measure_matmul(&plan, rank);
    } else if (rank == 0) {
        fprintf(stderr, "%s\n", problem);
    }
    fflush(stdout);
    GA_Terminate();
    MPI_Finalize();
    return good ? 0 : 1;
}
