/* OpenSHMEM against OpenSHMEM: the same program is compiled with each library.
 *
 * usage: PROGRAM MS CASES [PART]
 *
 * Programs do one in PART of their steps, for tests that have no time.
 */
#define _POSIX_C_SOURCE 200809L
#include "shmem_gups.h"
#include "shmem_isx.h"
#include "shmem_micro.h"
#include "shmem_stencil.h"

static const struct known_case KNOWN[] = {
    {"put", case_put},
    {"p", case_p},
    {"get", case_get},
    {"g", case_g},
    {"fetch_add", case_fetch_add},
    {"fetch_add_static", case_fetch_add_static},
    {"compare_swap", case_compare_swap},
    {"add", case_add},
    {"put_nbi", case_put_nbi},
    {"put_signal", case_put_signal},
    {"wait_until", case_wait_until},
    {"barrier_all", case_barrier_all},
    {"lock", case_lock},
    {"reduce", case_reduce},
    {"alltoall", case_alltoall},
    {"broadcast", case_broadcast},
    {"fcollect", case_fcollect},
    {"gups", case_gups},
    {"gups_getput", case_gups_getput},
    {"isx", case_isx},
    {"stencil", case_stencil},
};

static bool parse(int argc, char **argv, struct plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->part = 1;
    if (argc != 3 && argc != 4)
        return fail("usage: %s MS CASES [PART]", argv[0]);
    if (argc == 4 && !parse_number(argv[3], "PART", 128, &plan->part))
        return false;
    return parse_plan(argv, KNOWN, sizeof KNOWN / sizeof *KNOWN, plan);
}

int main(int argc, char **argv)
{
    struct plan plan;

    alarm(60);  /* the start can hang as well */
    shmem_init();
    me = shmem_my_pe();
    pes = shmem_n_pes();
    box = symmetric(128);
    bool good = parse(argc, argv, &plan);
    if (good)
        alarm((unsigned)(60 + plan.count * (2 * plan.ms / 1000 + 60)));
    if (good && pes < 2)
        good = fail("%d PE is too few", pes);
    for (int i = 0; good && i < plan.count; i++) {
        good = plan.cases[i]->run(&plan);
        fflush(stdout);
    }
    if (!good && me == 0)
        fprintf(stderr, "%s\n", problem);
    shmem_barrier_all();
    shmem_finalize();
    return good ? 0 : 1;
}
