/* Set-up, memory, teams, contexts, order and locks: functions without types. */

#include "border.h"

_Static_assert(sizeof(SHMEM_VENDOR_STRING) <= SHMEM_MAX_NAME_LEN, "the library's name fits");

SHMEM(void, init, (void))
{
    int provided;
    farside_shmem_init(SHMEM_THREAD_SINGLE, &provided, CALL(init));
}

SHMEM(int, init_thread, (int requested, int *provided))
{
    return farside_shmem_init(requested, provided, CALL(init_thread));
}

SHMEM(void, query_thread, (int *provided))
{
    *provided = farside_shmem_query_thread(CALL(query_thread));
}

SHMEM(void, finalize, (void))
{
    farside_shmem_finalize(CALL(finalize));
}

SHMEM(void, global_exit, (int status))
{
    farside_shmem_global_exit(status, CALL(global_exit));
}

SHMEM(int, my_pe, (void))
{
    return farside_shmem_my_pe(CALL(my_pe));
}

SHMEM(int, n_pes, (void))
{
    return farside_shmem_n_pes(CALL(n_pes));
}

SHMEM(int, pe_accessible, (int pe))
{
    return farside_shmem_pe_accessible(pe, CALL(pe_accessible));
}

SHMEM(int, addr_accessible, (const void *addr, int pe))
{
    return farside_shmem_addr_accessible(addr, pe, CALL(addr_accessible));
}

SHMEM(void *, ptr, (const void *dest, int pe))
{
    return farside_shmem_ptr(dest, pe, CALL(ptr));
}

SHMEM(void, info_get_version, (int *major, int *minor))
{
    *major = SHMEM_MAJOR_VERSION;
    *minor = SHMEM_MINOR_VERSION;
}

SHMEM(void, info_get_name, (char *name))
{
    memcpy(name, SHMEM_VENDOR_STRING, sizeof(SHMEM_VENDOR_STRING));
}

BOTH_NAMES(void, start_pes, (int npes))
{
    (void) npes;
    farside_shmem_start_pes("start_pes");
}

BOTH_NAMES(int, _my_pe, (void))
{
    return farside_shmem_my_pe("_my_pe");
}

BOTH_NAMES(int, _num_pes, (void))
{
    return farside_shmem_n_pes("_num_pes");
}

/* Memory. Hints are not needed: all memory of the heap takes atomics and signals. */

SHMEM(void *, malloc, (size_t size))
{
    return farside_shmem_malloc(size, CALL(malloc));
}

SHMEM(void *, malloc_with_hints, (size_t size, long hints))
{
    (void) hints;
    return farside_shmem_malloc(size, CALL(malloc_with_hints));
}

SHMEM(void *, calloc, (size_t count, size_t size))
{
    return farside_shmem_calloc(count, size, CALL(calloc));
}

SHMEM(void *, align, (size_t alignment, size_t size))
{
    return farside_shmem_align(alignment, size, CALL(align));
}

SHMEM(void *, realloc, (void *ptr, size_t size))
{
    return farside_shmem_realloc(ptr, size, CALL(realloc));
}

SHMEM(void, free, (void *ptr))
{
    farside_shmem_free(ptr, CALL(free));
}

BOTH_NAMES(void *, shmalloc, (size_t size))
{
    return farside_shmem_malloc(size, "shmalloc");
}

BOTH_NAMES(void *, shmemalign, (size_t alignment, size_t size))
{
    return farside_shmem_align(alignment, size, "shmemalign");
}

BOTH_NAMES(void *, shrealloc, (void *ptr, size_t size))
{
    return farside_shmem_realloc(ptr, size, "shrealloc");
}

BOTH_NAMES(void, shfree, (void *ptr))
{
    farside_shmem_free(ptr, "shfree");
}

/* Teams. */

/* Returns the contexts that a configuration asks for, if the mask names them. */
static int contexts_of(const shmem_team_config_t *config, long mask)
{
    return config != NULL && (mask & SHMEM_TEAM_NUM_CONTEXTS) != 0 ? config->num_contexts : 0;
}

SHMEM(int, team_my_pe, (shmem_team_t team))
{
    return farside_shmem_team_my_pe(team, CALL(team_my_pe));
}

SHMEM(int, team_n_pes, (shmem_team_t team))
{
    return farside_shmem_team_n_pes(team, CALL(team_n_pes));
}

SHMEM(int, team_get_config, (shmem_team_t team, long config_mask, shmem_team_config_t *config))
{
    int num_contexts = 0;
    int status = farside_shmem_team_contexts(team, &num_contexts, CALL(team_get_config));
    if (status == 0 && (config_mask & SHMEM_TEAM_NUM_CONTEXTS) != 0 && config != NULL) {
        config->num_contexts = num_contexts;
    }
    return status;
}

SHMEM(int, team_translate_pe, (shmem_team_t src_team, int src_pe, shmem_team_t dest_team))
{
    return farside_shmem_team_translate_pe(src_team, src_pe, dest_team, CALL(team_translate_pe));
}

SHMEM(int, team_split_strided, (shmem_team_t parent_team, int start, int stride, int size,
    const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team))
{
    return farside_shmem_team_split_strided(parent_team, start, stride, size,
        contexts_of(config, config_mask), new_team, CALL(team_split_strided));
}

SHMEM(int, team_split_2d, (shmem_team_t parent_team, int xrange,
    const shmem_team_config_t *xaxis_config, long xaxis_mask, shmem_team_t *xaxis_team,
    const shmem_team_config_t *yaxis_config, long yaxis_mask, shmem_team_t *yaxis_team))
{
    return farside_shmem_team_split_2d(parent_team, xrange,
        contexts_of(xaxis_config, xaxis_mask), xaxis_team,
        contexts_of(yaxis_config, yaxis_mask), yaxis_team, CALL(team_split_2d));
}

SHMEM(void, team_destroy, (shmem_team_t team))
{
    farside_shmem_team_destroy(team, CALL(team_destroy));
}

/* Contexts. */

SHMEM(int, ctx_create, (long options, shmem_ctx_t *ctx))
{
    return farside_shmem_ctx_create(SHMEM_TEAM_WORLD, options, ctx, CALL(ctx_create));
}

SHMEM(int, team_create_ctx, (shmem_team_t team, long options, shmem_ctx_t *ctx))
{
    return farside_shmem_ctx_create(team, options, ctx, CALL(team_create_ctx));
}

SHMEM(void, ctx_destroy, (shmem_ctx_t ctx))
{
    farside_shmem_ctx_destroy(ctx, CALL(ctx_destroy));
}

SHMEM(int, ctx_get_team, (shmem_ctx_t ctx, shmem_team_t *team))
{
    return farside_shmem_ctx_get_team(ctx, team, CALL(ctx_get_team));
}

/* Order. */

SHMEM(void, fence, (void))
{
    farside_shmem_fence(SHMEM_CTX_DEFAULT, CALL(fence));
}

SHMEM(void, ctx_fence, (shmem_ctx_t ctx))
{
    farside_shmem_fence(ctx, CALL(ctx_fence));
}

SHMEM(void, quiet, (void))
{
    farside_shmem_quiet(SHMEM_CTX_DEFAULT, CALL(quiet));
}

SHMEM(void, ctx_quiet, (shmem_ctx_t ctx))
{
    farside_shmem_quiet(ctx, CALL(ctx_quiet));
}

/* Locks. */

SHMEM(void, set_lock, (long *lock))
{
    farside_shmem_set_lock(lock, CALL(set_lock));
}

SHMEM(int, test_lock, (long *lock))
{
    return farside_shmem_test_lock(lock, CALL(test_lock));
}

SHMEM(void, clear_lock, (long *lock))
{
    farside_shmem_clear_lock(lock, CALL(clear_lock));
}

/* Control of caches, which are coherent, and of profiling, which is a tool's. */

SHMEM(void, clear_cache_inv, (void))
{
}

SHMEM(void, set_cache_inv, (void))
{
}

SHMEM(void, clear_cache_line_inv, (void *dest))
{
    (void) dest;
}

SHMEM(void, set_cache_line_inv, (void *dest))
{
    (void) dest;
}

SHMEM(void, udcflush, (void))
{
}

SHMEM(void, udcflush_line, (void *dest))
{
    (void) dest;
}

SHMEM(void, pcontrol, (int level, ...))
{
    (void) level;
}
