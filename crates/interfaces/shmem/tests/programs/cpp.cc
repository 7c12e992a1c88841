// A C++ program that includes the header: names are C's, constants and handles are usable, and
// complex reductions take std::complex.
#include "check.h"
#include <complex>
#include <vector>

namespace {

long global_word = 5;
std::complex<double> terms[2], sums[2];

class Block {
  public:
    explicit Block(size_t count)
        : words(static_cast<long *>(shmem_malloc(count * sizeof(long))))
    {
        CHECK(words != NULL);
    }
    ~Block() { shmem_free(words); }
    long *words;

  private:
    Block(const Block &);
    Block &operator=(const Block &);
};

void transfers()
{
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    Block block(10);
    std::vector<long> own(10);
    for (size_t i = 0; i < own.size(); i++)
        own[i] = static_cast<long>(i) * 100 + me;
    shmem_barrier_all();
    shmem_long_put(block.words, &own[0], own.size(), next);
    shmem_long_p(&global_word, 60 + me, next);
    shmem_barrier_all();
    for (size_t i = 0; i < own.size(); i++)
        CHECK_EQ(block.words[i], static_cast<long>(i) * 100 + previous);
    CHECK_EQ(global_word, 60 + previous);
    CHECK_EQ(shmem_long_g(block.words + 9, pes - 1), 900 + (pes - 1 + pes - 1) % pes);
    shmem_barrier_all();
    CHECK_EQ(shmem_long_atomic_fetch_add(&global_word, 1, next), 60 + me);
    shmem_barrier_all();
    CHECK_EQ(global_word, 61 + previous);
}

void teams_and_contexts()
{
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    shmem_team_config_t config;
    config.num_contexts = 1;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, pes, &config,
                                      SHMEM_TEAM_NUM_CONTEXTS, &team),
             0);
    CHECK_EQ(shmem_team_create_ctx(team, SHMEM_CTX_PRIVATE, &ctx), 0);
    shmem_ctx_long_p(ctx, &global_word, 70, (me + 1) % pes);
    shmem_ctx_quiet(ctx);
    shmem_ctx_destroy(ctx);
    shmem_team_sync(team);
    CHECK_EQ(global_word, 70);
    terms[0] = std::complex<double>(me, 1);
    terms[1] = std::complex<double>(0, 1);
    shmem_team_sync(team);
    CHECK_EQ(shmem_complexd_sum_reduce(team, sums, terms, 2), 0);
    CHECK_EQ(sums[0].real(), pes * (pes - 1) / 2);
    CHECK_EQ(sums[0].imag(), pes);
    shmem_team_sync(team);
    CHECK_EQ(shmem_complexd_prod_reduce(team, sums, terms + 1, 1), 0);
    CHECK_EQ(sums[0].imag(), pes % 4 == 1 ? 1 : pes % 4 == 3 ? -1 : 0);
    CHECK_EQ(sums[0].real(), pes % 4 == 2 ? -1 : pes % 4 == 0 ? 1 : 0);
    shmem_team_destroy(team);
}

} // namespace

int main()
{
    check_begin();
    transfers();
    teams_and_contexts();
    return check_end("cpp");
}
