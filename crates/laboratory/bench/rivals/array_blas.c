/* OpenBLAS: a product of matrices of one process, with as many threads as its
 * environment says, as `farside bench array` measures it.
 *
 * usage: PROGRAM MS CASES SHAPES SIZE
 * Only SIZE, the order of the matrices, is looked at.
 */
#define _POSIX_C_SOURCE 200809L
#include "rival.h"

#include <cblas.h>

enum { ROUNDS = 3 };

static double *matrix(size_t elements, double value)
{
    double *made = malloc(elements * sizeof *made);
    if (made == NULL) {
        fprintf(stderr, "no memory for %zu doubles\n", elements);
        exit(1);
    }
    for (size_t i = 0; i < elements; i++)
        made[i] = value;
    return made;
}

int main(int argc, char **argv)
{
    long size;
    if (argc != 5 || !parse_number(argv[4], "SIZE", 1 << 15, &size)) {
        fprintf(stderr, "%s\n", argc == 5 ? problem : "usage: PROGRAM MS CASES SHAPES SIZE");
        return 1;
    }
    int n = (int)size;
    size_t elements = (size_t)n * (size_t)n;
    double *a = matrix(elements, 0.5), *b = matrix(elements, 2), *c = matrix(elements, 0);
    double least = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = now_ns();
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c, n);
        double took = (double)(now_ns() - start);
        least = round == 0 || took < least ? took : least;
    }
    if (c[elements - 1] != (double)n) {
        fprintf(stderr, "a product of order %d is wrong\n", n);
        return 1;
    }
    double flops = 2.0 * n * n * (double)n;
    printf("sample matmul %.0f %dx%d - %.2f - %.0f\n", 8.0 * n * n, n, n, least,
        flops * 1e9 / least);
    free(a);
    free(b);
    free(c);
    return 0;
}
