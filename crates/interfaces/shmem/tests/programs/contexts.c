/* Contexts: creation with every option, independence, numbers of a team's context, destruction,
 * invalid ones, many at once and one after another. */
#include "check.h"

static long static_words[MAX_PES];

/* One round of operations on a context of all PEs. */
static void use(shmem_ctx_t ctx, long *words, long seed)
{
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    long value = seed + me, back = -1;
    words[previous] = 0;
    shmem_barrier_all();
    shmem_ctx_long_put_nbi(ctx, words + me, &value, 1, next);
    shmem_ctx_fence(ctx);
    shmem_ctx_long_atomic_add(ctx, words + me, 1000, next);
    shmem_ctx_quiet(ctx);
    shmem_sync_all();
    CHECK_EQ(*(volatile long *)&words[previous], seed + previous + 1000);
    shmem_ctx_long_get_nbi(ctx, &back, words + me, 1, next);
    shmem_ctx_quiet(ctx);
    CHECK_EQ(back, value + 1000);
    CHECK_EQ(shmem_ctx_long_g(ctx, words + me, next), value + 1000);
    shmem_barrier_all();
}

static void options(long *heap)
{
    for (long bits = 0; bits < 8; bits++) {
        shmem_ctx_t ctx = SHMEM_CTX_INVALID;
        long options = (bits & 1 ? SHMEM_CTX_PRIVATE : 0) | (bits & 2 ? SHMEM_CTX_SERIALIZED : 0) |
                       (bits & 4 ? SHMEM_CTX_NOSTORE : 0);
        CHECK_EQ(shmem_ctx_create(options, &ctx), 0);
        CHECK(ctx != SHMEM_CTX_INVALID);
        shmem_team_t team = SHMEM_TEAM_INVALID;
        CHECK_EQ(shmem_ctx_get_team(ctx, &team), 0);
        CHECK(team == SHMEM_TEAM_WORLD);
        use(ctx, static_words, bits * 10);
        use(ctx, heap, bits * 10 + 5);
        shmem_ctx_destroy(ctx);
    }
    use(SHMEM_CTX_DEFAULT, static_words, 300);
    use(SHMEM_CTX_DEFAULT, heap, 400);
}

static void invalid(void)
{
    shmem_team_t team = SHMEM_TEAM_WORLD;
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
    CHECK(shmem_ctx_get_team(SHMEM_CTX_INVALID, &team) != 0);
    CHECK(team == SHMEM_TEAM_INVALID);
    CHECK_EQ(shmem_ctx_get_team(SHMEM_CTX_DEFAULT, &team), 0);
    CHECK(team == SHMEM_TEAM_WORLD);
    CHECK(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &ctx) != 0);
    CHECK(ctx == SHMEM_CTX_INVALID);
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
    shmem_ctx_fence(SHMEM_CTX_INVALID);
}

/* The world in reverse order, and every second PE: numbers are the team's. */
static void of_teams(long *words)
{
    for (int way = 0; way < 2; way++) {
        shmem_team_t team = SHMEM_TEAM_INVALID, found = SHMEM_TEAM_INVALID;
        shmem_team_config_t config = {.num_contexts = 2};
        int start = way ? 0 : pes - 1, stride = way ? 2 : -1, size = way ? (pes + 1) / 2 : pes;
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, &config,
                                          SHMEM_TEAM_NUM_CONTEXTS, &team),
                 0);
        memset(words, 0, MAX_PES * sizeof *words);
        shmem_barrier_all();
        if (team != SHMEM_TEAM_INVALID) {
            shmem_ctx_t ctx = SHMEM_CTX_INVALID;
            CHECK_EQ(shmem_team_create_ctx(team, 0, &ctx), 0);
            CHECK_EQ(shmem_ctx_get_team(ctx, &found), 0);
            CHECK(found == team);
            int number = shmem_team_my_pe(team);
            for (int pe = 0; pe < size; pe++) {
                shmem_ctx_long_p(ctx, words + number, 100 * number + pe + 1, pe);
                shmem_ctx_quiet(ctx);
                CHECK_EQ(shmem_ctx_long_atomic_fetch(ctx, words + number, pe),
                         100 * number + pe + 1);
                CHECK_EQ(shmem_ctx_long_atomic_swap(ctx, words + number, 100 * number + pe + 2, pe),
                         100 * number + pe + 1);
            }
            shmem_ctx_quiet(ctx);
            CHECK_EQ(shmem_team_sync(team), 0);
            for (int pe = 0; pe < size; pe++)
                CHECK_EQ(*(volatile long *)&words[pe], 100 * pe + number + 2);
            /* Signals and strided transfers go by the team's numbers too. */
            static uint64_t signal;
            signal = 0;
            long value = 5000 + number;
            shmem_team_sync(team);
            int next = (number + 1) % size;
            shmem_ctx_long_put_signal(ctx, words + MAX_PES - 1, &value, 1, &signal, 3,
                                      SHMEM_SIGNAL_SET, next);
            CHECK_EQ(shmem_signal_wait_until(&signal, SHMEM_CMP_EQ, 3), 3);
            CHECK_EQ(words[MAX_PES - 1], 5000 + (number + size - 1) % size);
            shmem_ctx_destroy(ctx);
        }
        shmem_barrier_all();
        for (int pe = size; pe < MAX_PES - 1; pe++)
            CHECK_EQ(words[pe], 0);
        if (team == SHMEM_TEAM_INVALID)
            for (int pe = 0; pe < MAX_PES; pe++)
                CHECK_EQ(words[pe], 0);
        shmem_barrier_all();
        shmem_team_destroy(team);
    }
}

/* Contexts that are left to team_destroy and finalize. */
static void left_over(void)
{
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_ctx_t of_team = SHMEM_CTX_INVALID, of_world = SHMEM_CTX_INVALID;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, NULL, 0, &team), 0);
    CHECK_EQ(shmem_team_create_ctx(team, 0, &of_team), 0);
    shmem_ctx_long_p(of_team, static_words + me, 1, (me + 1) % pes);
    shmem_ctx_quiet(of_team);
    shmem_team_destroy(team);
    CHECK_EQ(shmem_ctx_create(0, &of_world), 0);
    shmem_ctx_long_p(of_world, static_words + me, 2, (me + 1) % pes);
    shmem_ctx_quiet(of_world);
}

static void many(long *heap)
{
    enum { AT_ONCE = 16, ONE_BY_ONE = 1000 };
    shmem_ctx_t contexts[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++)
        CHECK_EQ(shmem_ctx_create(0, &contexts[i]), 0);
    for (int i = 0; i < AT_ONCE; i++)
        for (int j = 0; j < i; j++)
            CHECK(contexts[i] != contexts[j]);
    for (int i = 0; i < AT_ONCE; i++)
        use(contexts[i], heap, i * 20);
    /* Operations on all of them at once: each is completed by the quiet of its own. */
    memset(heap, 0, MAX_PES * sizeof *heap);
    shmem_barrier_all();
    for (int i = 0; i < 10 * AT_ONCE; i++)
        shmem_ctx_long_atomic_add(contexts[i % AT_ONCE], heap, 1, (me + 1) % pes);
    for (int i = 0; i < AT_ONCE; i++)
        shmem_ctx_quiet(contexts[i]);
    shmem_sync_all();
    CHECK_EQ(*(volatile long *)heap, 10 * AT_ONCE);
    for (int i = 0; i < AT_ONCE; i++)
        shmem_ctx_destroy(contexts[(i * 5) % AT_ONCE]);
    for (int i = 0; i < ONE_BY_ONE; i++) {
        shmem_ctx_t ctx = SHMEM_CTX_INVALID;
        CHECK_EQ(shmem_ctx_create(i % 2 ? SHMEM_CTX_PRIVATE : 0, &ctx), 0);
        shmem_ctx_long_p(ctx, heap + 1 + me % (MAX_PES - 1), i, (me + 1) % pes);
        shmem_ctx_destroy(ctx);
    }
    /* destroy completes what was put before. */
    shmem_sync_all();
    CHECK_EQ(shmem_long_g(heap + 1 + me % (MAX_PES - 1), (me + 1) % pes), ONE_BY_ONE - 1);
    shmem_barrier_all();
}

int main(void)
{
    check_begin();
    long *heap = heap_block(sizeof static_words);
    options(heap);
    invalid();
    of_teams(static_words);
    of_teams(heap);
    many(heap);
    left_over();
    shmem_free(heap);
    return check_end("contexts");
}
