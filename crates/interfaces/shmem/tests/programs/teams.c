/* Teams: numbers, configurations, translation, strided and two-dimensional splits, splits of
 * splits, refused splits, many teams at once and one after another. */
#include "check.h"

static long arrived[MAX_PES];

/* Checks a team against the world numbers that it should have. */
static void check_team(shmem_team_t team, const int *members, int count, int line)
{
    int number = -1;
    for (int i = 0; i < count; i++)
        if (members[i] == me)
            number = i;
    check_equal(__FILE__, line, "team_my_pe", shmem_team_my_pe(team), number);
    if (number < 0) {
        check_true(__FILE__, line, "team is invalid", team == SHMEM_TEAM_INVALID);
        check_equal(__FILE__, line, "team_n_pes", shmem_team_n_pes(team), -1);
        return;
    }
    check_true(__FILE__, line, "team is valid", team != SHMEM_TEAM_INVALID);
    check_equal(__FILE__, line, "team_n_pes", shmem_team_n_pes(team), count);
    for (int i = 0; i < count; i++) {
        int world = shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD);
        check_equal(__FILE__, line, "translate to world", world, members[i]);
        int back = shmem_team_translate_pe(SHMEM_TEAM_WORLD, members[i], team);
        check_equal(__FILE__, line, "translate from world", back, i);
    }
    for (int pe = 0; pe < pes; pe++) {
        int is_member = 0;
        for (int i = 0; i < count; i++)
            is_member |= members[i] == pe;
        if (!is_member)
            check_equal(__FILE__, line, "translate of a stranger",
                        shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, team), -1);
    }
    CHECK_EQ(shmem_team_translate_pe(team, -1, SHMEM_TEAM_WORLD), -1);
    CHECK_EQ(shmem_team_translate_pe(team, count, SHMEM_TEAM_WORLD), -1);
    /* Its members meet, in a ring by team numbers. */
    arrived[me] = 0;
    check_equal(__FILE__, line, "team_sync", shmem_team_sync(team), 0);
    int next = members[(number + 1) % count];
    shmem_long_p(&arrived[next], 1 + number, next);
    shmem_quiet();
    check_equal(__FILE__, line, "team_sync", shmem_team_sync(team), 0);
    CHECK_EQ(*(volatile long *)&arrived[me], 1 + (number + count - 1) % count);
    shmem_team_sync(team);
}

/* Fills `members` with a triplet's PEs of a parent; returns their number. */
static int triplet(int *members, const int *parent, int start, int stride, int size)
{
    for (int i = 0; i < size; i++)
        members[i] = parent[start + i * stride];
    return size;
}

static void predefined(const int *world)
{
    check_team(SHMEM_TEAM_WORLD, world, pes, __LINE__);
    CHECK(SHMEM_TEAM_SHARED != SHMEM_TEAM_INVALID);
    int number = shmem_team_my_pe(SHMEM_TEAM_SHARED), size = shmem_team_n_pes(SHMEM_TEAM_SHARED);
    CHECK(size >= 1 && size <= pes && number >= 0 && number < size);
    CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_SHARED, number, SHMEM_TEAM_WORLD), me);
    /* Members of the shared team reach each other's objects by load and store. */
    long *heap = heap_block(sizeof *heap);
    for (int i = 0; i < size; i++) {
        int pe = shmem_team_translate_pe(SHMEM_TEAM_SHARED, i, SHMEM_TEAM_WORLD);
        CHECK(shmem_ptr(heap, pe) != NULL);
        CHECK(shmem_ptr(&arrived, pe) != NULL);
    }
    shmem_free(heap);
    CHECK_EQ(shmem_team_sync(SHMEM_TEAM_SHARED), 0);
    CHECK_EQ(shmem_team_my_pe(SHMEM_TEAM_INVALID), -1);
    CHECK_EQ(shmem_team_n_pes(SHMEM_TEAM_INVALID), -1);
    CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_WORLD), -1);
    CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, SHMEM_TEAM_INVALID), -1);
    shmem_team_destroy(SHMEM_TEAM_INVALID);
}

static void configurations(void)
{
    shmem_team_config_t config = {.num_contexts = 77};
    CHECK_EQ(shmem_team_get_config(SHMEM_TEAM_WORLD, SHMEM_TEAM_NUM_CONTEXTS, &config), 0);
    CHECK(config.num_contexts >= 0);
    config.num_contexts = 77;
    CHECK_EQ(shmem_team_get_config(SHMEM_TEAM_WORLD, 0, &config), 0);
    CHECK_EQ(config.num_contexts, 77);
    CHECK(shmem_team_get_config(SHMEM_TEAM_INVALID, SHMEM_TEAM_NUM_CONTEXTS, &config) != 0);
    CHECK_EQ(config.num_contexts, 77);
    shmem_team_t team = SHMEM_TEAM_WORLD;
    config.num_contexts = 3;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, &config,
                                      SHMEM_TEAM_NUM_CONTEXTS, &team),
             0);
    config.num_contexts = 0;
    CHECK_EQ(shmem_team_get_config(team, SHMEM_TEAM_NUM_CONTEXTS, &config), 0);
    CHECK_EQ(config.num_contexts, 3);
    shmem_team_destroy(team);
    /* Without a configuration, or where the mask does not name it, there is the default. */
    const shmem_team_config_t *given[2] = {NULL, &config};
    for (int i = 0; i < 2; i++) {
        config.num_contexts = 77;
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, given[i], 0, &team), 0);
        CHECK_EQ(shmem_team_get_config(team, SHMEM_TEAM_NUM_CONTEXTS, &config), 0);
        CHECK_EQ(config.num_contexts, 0);
        shmem_team_destroy(team);
    }
}

/* Every triplet that fits the world; children of each child by a few triplets more. */
static void strided(const int *world)
{
    int members[MAX_PES], again[MAX_PES];
    for (int stride = 1; stride <= 3; stride++)
        for (int start = 0; start < pes && start < 3; start++) {
            int size = (pes - 1 - start) / stride + 1;
            shmem_team_t team = SHMEM_TEAM_WORLD, child = SHMEM_TEAM_WORLD;
            int count = triplet(members, world, start, stride, size);
            CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, NULL, 0,
                                              &team),
                     0);
            check_team(team, members, count, __LINE__);
            if (team != SHMEM_TEAM_INVALID) {
                /* Every second member of the child, from its last one backwards. */
                int half = (count + 1) / 2;
                triplet(again, members, count - 1, -2, half);
                CHECK_EQ(shmem_team_split_strided(team, count - 1, -2, half, NULL, 0, &child), 0);
                check_team(child, again, half, __LINE__);
                shmem_team_destroy(child);
                shmem_team_destroy(team);
            }
        }
    /* A team of one, with any stride. */
    int strides[] = {0, 1, -1, 1000000};
    for (int i = 0; i < 4; i++) {
        shmem_team_t team = SHMEM_TEAM_WORLD;
        CHECK_EQ(
            shmem_team_split_strided(SHMEM_TEAM_WORLD, pes - 1, strides[i], 1, NULL, 0, &team), 0);
        check_team(team, world + pes - 1, 1, __LINE__);
        shmem_team_destroy(team);
    }
}

/* Triplets that do not fit give no team and say so, on every PE. */
static void refused(void)
{
    int triplets[][3] = {{0, 1, pes + 1}, {-1, 1, 1}, {pes, 1, 1}, {0, 1, 0},
                         {0, 1, -1},      {0, pes, 2}, {0, -1, 2}, {pes - 1, 1, 2}};
    for (size_t i = 0; i < sizeof triplets / sizeof *triplets; i++) {
        shmem_team_t team = SHMEM_TEAM_WORLD;
        int *t = triplets[i];
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, t[0], t[1], t[2], NULL, 0, &team) != 0);
        CHECK(team == SHMEM_TEAM_INVALID);
    }
    shmem_team_t x = SHMEM_TEAM_WORLD, y = SHMEM_TEAM_WORLD;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &x) != 0);
    CHECK(x == SHMEM_TEAM_INVALID);
    CHECK(shmem_team_split_2d(SHMEM_TEAM_INVALID, 1, NULL, 0, &x, NULL, 0, &y) != 0);
    CHECK(x == SHMEM_TEAM_INVALID);
    CHECK(y == SHMEM_TEAM_INVALID);
    shmem_barrier_all();
}

static void two_dimensional(const int *world)
{
    int members[MAX_PES];
    for (int range = 1; range <= pes + 2; range++) {
        shmem_team_t x_team = SHMEM_TEAM_INVALID, y_team = SHMEM_TEAM_INVALID;
        int width = range < pes ? range : pes, x = me % width, y = me / width;
        CHECK_EQ(shmem_team_split_2d(SHMEM_TEAM_WORLD, range, NULL, 0, &x_team, NULL, 0, &y_team),
                 0);
        int columns = pes - y * width < width ? pes - y * width : width;
        triplet(members, world, y * width, 1, columns);
        CHECK_EQ(shmem_team_my_pe(x_team), x);
        check_team(x_team, members, columns, __LINE__);
        shmem_barrier_all();
        int rows = (pes - 1 - x) / width + 1;
        triplet(members, world, x, width, rows);
        CHECK_EQ(shmem_team_my_pe(y_team), y);
        check_team(y_team, members, rows, __LINE__);
        shmem_barrier_all();
        /* Between two teams that both hold this PE. */
        CHECK_EQ(shmem_team_translate_pe(x_team, x, y_team), y);
        if (columns > 1)
            CHECK_EQ(shmem_team_translate_pe(x_team, (x + 1) % columns, y_team), -1);
        shmem_team_destroy(x_team);
        shmem_team_destroy(y_team);
    }
}

/* Each PE names itself alone, as programs do, though the standard wants one subset of all. */
static void each_its_own(void)
{
    static long mine, theirs[MAX_PES];
    shmem_team_t team = SHMEM_TEAM_INVALID;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, me, 1, 1, NULL, 0, &team), 0);
    CHECK_EQ(shmem_team_n_pes(team), 1);
    CHECK_EQ(shmem_team_my_pe(team), 0);
    CHECK_EQ(shmem_team_translate_pe(team, 0, SHMEM_TEAM_WORLD), me);
    for (int i = 0; i < MAX_PES; i++)
        theirs[i] = -1;
    mine = me + 5;
    CHECK_EQ(shmem_long_fcollect(team, theirs, &mine, 1), 0);
    CHECK_EQ(theirs[0], me + 5);
    CHECK_EQ(theirs[1], -1);
    shmem_team_destroy(team);
    shmem_barrier_all();
}

/* Dozens of teams at once, hundreds one after another. */
static void many(const int *world)
{
    enum { AT_ONCE = 24, ONE_BY_ONE = 300 };
    shmem_team_t teams[AT_ONCE];
    int members[MAX_PES];
    for (int i = 0; i < AT_ONCE; i++)
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, i % pes, 1, pes - i % pes, NULL, 0,
                                          &teams[i]),
                 0);
    for (int i = AT_ONCE - 1; i >= 0; i--) {
        int count = triplet(members, world, i % pes, 1, pes - i % pes);
        check_team(teams[i], members, count, __LINE__);
        shmem_barrier_all();
    }
    for (int i = 0; i < AT_ONCE; i++)
        shmem_team_destroy(teams[(i * 7) % AT_ONCE]);
    for (int i = 0; i < ONE_BY_ONE; i++) {
        shmem_team_t team = SHMEM_TEAM_INVALID;
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, NULL, 0, &team), 0);
        CHECK_EQ(shmem_team_my_pe(team), me);
        CHECK_EQ(shmem_team_sync(team), 0);
        shmem_team_destroy(team);
    }
}

int main(void)
{
    int world[MAX_PES];
    check_begin();
    for (int pe = 0; pe < MAX_PES; pe++)
        world[pe] = pe;
    predefined(world);
    configurations();
    strided(world);
    shmem_barrier_all();
    refused();
    two_dimensional(world);
    each_its_own();
    many(world);
    return check_end("teams");
}
