/* Many small operations on other PEs' memory, one by one, in OpenSHMEM: a histogram, a gather, the
 * transposition of a sparse matrix and a topological sort. Tables, matrices and random numbers are
 * those of farside's programs.
 *
 * usage: PROGRAM CASE OPERATIONS
 */
#define _POSIX_C_SOURCE 200809L
#include "rival.h"

#include <shmem.h>

enum { WORDS = 1 << 16 };   /* of each PE's part of the table */

static int me, pes;
/* Symmetric words, in the heap: Open MPI reaches static ones by a far slower way. */
static struct words {
    long sum;               /* what all_sum adds up */
    long filled[2];         /* the ends of what was transposed to here */
    long tail, order;       /* of the queue of rows here; how many rows have been taken */
} *words;

static long all_sum(long value)
{
    words->sum = 0;
    shmem_barrier_all();
    for (int pe = 0; pe < pes; pe++)
        shmem_long_atomic_add(&words->sum, value, pe);
    shmem_barrier_all();
    return words->sum;
}

/* ---- numbers and matrices ---- */

static uint64_t split_mix(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static uint64_t numbers(uint64_t purpose)
{
    return (uint64_t)me << 32 | purpose;
}

static uint64_t value_of(uint64_t index)
{
    return index * 0x2545F4914F6CDD1Du >> 8;
}

/* The positions of the elements of this PE's rows: the row above, the column below. */
struct matrix {
    uint64_t *elements;
    size_t len;
};

#define ROW(element) ((uint32_t)((element) >> 32))
#define COLUMN(element) ((uint32_t)(element))

static uint64_t gcd(uint64_t a, uint64_t b)
{
    return b == 0 ? a : gcd(b, a % b);
}

static int by_word(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A matrix that becomes triangular if its rows and columns are permuted. */
static struct matrix make_matrix(uint64_t rows, uint64_t per_row)
{
    uint64_t size = rows * (uint64_t)pes, random = numbers(3), odd = 7;
    struct matrix matrix = { malloc(rows * (per_row + 1) * 8), 0 };
    while (gcd(odd, size) != 1)
        odd += 2;
    for (uint64_t k = 0; matrix.elements != NULL && k < size; k++) {
        uint64_t row = k * odd % size, columns[16], len = 0;
        if (row % (uint64_t)pes != (uint64_t)me)
            continue;
        for (; len < per_row; len++)
            columns[len] = k + split_mix(&random) % (size - k);
        columns[len++] = k;
        qsort(columns, len, sizeof *columns, by_word);
        for (uint64_t i = 0; i < len; i++)
            if (i == 0 || columns[i] != columns[i - 1])
                matrix.elements[matrix.len++] = row << 32 | columns[i];
    }
    return matrix;
}

/* ---- programs: each returns operations, or a negative number ---- */

static int64_t begin_ns;
static double seconds;

static void begin(void)
{
    shmem_barrier_all();
    begin_ns = now_ns();
}

static void end(void)
{
    shmem_barrier_all();
    seconds = (double)(now_ns() - begin_ns) / 1e9;
}

static long histogram(long operations)
{
    long *table = shmem_calloc(WORDS, sizeof *table), sum = 0;
    uint64_t random = numbers(1);

    begin();
    for (long i = 0; i < operations; i++) {
        uint64_t index = split_mix(&random) % ((uint64_t)WORDS * (uint64_t)pes);
        shmem_long_atomic_add(&table[index / (uint64_t)pes], 1, (int)(index % (uint64_t)pes));
    }
    end();
    for (int i = 0; i < WORDS; i++)
        sum += table[i];
    return all_sum(sum) == operations * pes ? operations : -1;
}

static long gather(long operations)
{
    uint64_t *table = shmem_malloc(WORDS * sizeof *table), random = numbers(2);
    bool good = true;

    for (uint64_t i = 0; i < WORDS; i++)
        table[i] = value_of(i * (uint64_t)pes + (uint64_t)me);
    begin();
    for (long i = 0; i < operations; i++) {
        uint64_t index = split_mix(&random) % ((uint64_t)WORDS * (uint64_t)pes);
        int pe = (int)(index % (uint64_t)pes);
        uint64_t found = shmem_uint64_g(&table[index / (uint64_t)pes], pe);
        good = good && found == value_of(index);
    }
    end();
    return all_sum(good ? 0 : 1) == 0 ? operations : -1;
}

/* Sends each element to the owner of its column, which has it as row. `filled` is its end there. */
static void transpose_into(struct matrix from, uint64_t *to, long *filled)
{
    for (size_t i = 0; i < from.len; i++) {
        uint64_t element = from.elements[i];
        int owner = (int)(COLUMN(element) % (uint32_t)pes);
        long at = shmem_long_atomic_fetch_add(filled, 1, owner);
        shmem_uint64_p(&to[at], (uint64_t)COLUMN(element) << 32 | ROW(element), owner);
    }
    shmem_barrier_all();
}

static long transpose(long operations)
{
    struct matrix matrix = make_matrix((uint64_t)operations / 8, 7);
    size_t room = 2 * (size_t)operations + 4096;
    uint64_t *columns = shmem_malloc(room * 8), *back = shmem_malloc(room * 8);

    if (all_sum(matrix.elements == NULL || columns == NULL || back == NULL) != 0)
        return -1;
    begin();
    transpose_into(matrix, columns, &words->filled[0]);
    transpose_into((struct matrix){ columns, (size_t)words->filled[0] }, back, &words->filled[1]);
    end();
    qsort(back, (size_t)words->filled[1], 8, by_word);
    qsort(matrix.elements, matrix.len, 8, by_word);
    bool good = (size_t)words->filled[1] == matrix.len
        && memcmp(back, matrix.elements, matrix.len * 8) == 0;
    return all_sum(good ? 0 : 1) == 0 ? (long)(2 * matrix.len) : -1;
}

/* Elements that a row has left, above, and the sum of their columns, below. */
#define ONE_LEFT ((uint64_t)1 << 40)

/* A row with one element left is the next one, and its column is taken from all other rows. */
static long sort(long operations)
{
    uint64_t rows = (uint64_t)operations / 8;
    struct matrix matrix = make_matrix(rows, 3);
    size_t room = 2 * (size_t)operations + 4096;
    uint64_t *columns = shmem_malloc(room * 8), *left = shmem_calloc(rows, 8);
    uint64_t *queue = shmem_calloc(rows, 8), *starts = shmem_calloc(rows + 1, 8);

    if (all_sum(matrix.elements == NULL || columns == NULL || left == NULL || queue == NULL
                || starts == NULL) != 0)
        return -1;
    transpose_into(matrix, columns, &words->filled[0]);
    qsort(columns, (size_t)words->filled[0], 8, by_word);
    for (long i = 0; i < words->filled[0]; i++)
        starts[ROW(columns[i]) / (uint32_t)pes + 1]++;
    for (uint64_t i = 0; i < rows; i++)
        starts[i + 1] += starts[i];
    for (size_t i = 0; i < matrix.len; i++)
        left[ROW(matrix.elements[i]) / (uint32_t)pes] += ONE_LEFT + COLUMN(matrix.elements[i]);
    for (uint64_t i = 0; i < rows; i++)
        if (left[i] >> 40 == 1)
            queue[words->tail++] = (i * (uint64_t)pes + (uint64_t)me + 1) << 32 | COLUMN(left[i]);
    begin();
    for (uint64_t head = 0; head < rows; head++) {
        shmem_uint64_wait_until(&queue[head], SHMEM_CMP_NE, 0);
        uint32_t row = ROW(queue[head]) - 1, column = COLUMN(queue[head]);
        int owner = (int)(column % (uint32_t)pes);
        uint32_t at = column / (uint32_t)pes;
        shmem_long_atomic_inc(&words->order, 0);
        uint64_t from = shmem_uint64_g(&starts[at], owner);
        uint64_t to = shmem_uint64_g(&starts[at + 1], owner);
        for (; from < to; from++) {
            uint32_t other = COLUMN(shmem_uint64_g(&columns[from], owner));
            int home = (int)(other % (uint32_t)pes);
            if (other == row)
                continue;
            uint64_t less = ONE_LEFT + column;
            uint64_t now = shmem_ulong_atomic_fetch_add(&left[other / (uint32_t)pes],
                                                         0 - less, home) - less;
            if (now >> 40 == 1) {
                long place = shmem_long_atomic_fetch_add(&words->tail, 1, home);
                shmem_uint64_p(&queue[place], ((uint64_t)other + 1) << 32 | COLUMN(now), home);
            }
        }
    }
    end();
    return shmem_long_g(&words->order, 0) == (long)rows * pes ? (long)matrix.len : -1;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        long (*run)(long operations);
    } cases[] = { { "histogram", histogram }, { "gather", gather }, { "transpose", transpose },
                  { "sort", sort } };
    long operations = 0, done = -1;
    size_t at = 0;

    alarm(600);
    shmem_init();
    me = shmem_my_pe();
    pes = shmem_n_pes();
    words = shmem_calloc(1, sizeof *words);
    bool good = argc == 3 ? parse_number(argv[2], "OPERATIONS", 1 << 24, &operations)
                          : fail("usage: %s CASE OPERATIONS", argv[0]);
    while (good && at < 4 && strcmp(argv[1], cases[at].name) != 0)
        at++;
    if (good && at == 4)
        good = fail("unknown case '%s'", argv[1]);
    if (good) {
        done = cases[at].run(operations);
        long sum = all_sum(done);
        if (done < 0)
            good = fail("the result of %s is wrong", cases[at].name);
        else if (me == 0)
            printf("sample %s single %.0f\n", cases[at].name, (double)sum / seconds);
    }
    if (!good && me == 0)
        fprintf(stderr, "%s\n", problem);
    fflush(stdout);
    shmem_finalize();
    return good ? 0 : 1;
}
