/* Functions of version 1.6 of the standard, over those of the core; its scans are in reduce.c. */

#include "border.h"

SHMEM(void, query_initialized, (int *initialized))
{
    *initialized = farside_shmem_is_initialized();
}

SHMEM(void *, team_ptr, (shmem_team_t team, const void *dest, int pe))
{
    const char *call = CALL(team_ptr);
    /* There is no PE -1, which stands for all that is not in the team. */
    int world_pe = farside_shmem_team_translate_pe(team, pe, SHMEM_TEAM_WORLD, call);
    return farside_shmem_ptr(dest, world_pe, call);
}

/* Sessions are hints, and nothing depends on them. */

SHMEM(void, ctx_session_start, (shmem_ctx_t ctx, long options,
    const shmem_ctx_session_config_t *config, long config_mask))
{
    (void) ctx;
    (void) options;
    (void) config;
    (void) config_mask;
}

SHMEM(void, ctx_session_stop, (shmem_ctx_t ctx))
{
    (void) ctx;
}

/* A quiet of some PEs completes the operations on all of them. */

SHMEM(void, pe_quiet, (const int *target_pes, size_t npes))
{
    (void) target_pes;
    if (npes > 0) {
        farside_shmem_quiet(SHMEM_CTX_DEFAULT, CALL(pe_quiet));
    }
}

SHMEM(void, ctx_pe_quiet, (shmem_ctx_t ctx, const int *target_pes, size_t npes))
{
    (void) target_pes;
    if (npes > 0) {
        farside_shmem_quiet(ctx, CALL(ctx_pe_quiet));
    }
}

/* Signals without data. */
#define SIGNAL_UPDATE(name, op) \
    SHMEM(void, name, (uint64_t *sig_addr, uint64_t signal, int pe)) \
    { \
        farside_shmem_atomic_post(SHMEM_CTX_DEFAULT, sig_addr, sizeof(*sig_addr), \
            FARSIDE_SHMEM_##op, signal, pe, CALL(name)); \
    } \
    SHMEM(void, ctx_##name, (shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)) \
    { \
        farside_shmem_atomic_post(ctx, sig_addr, sizeof(*sig_addr), FARSIDE_SHMEM_##op, signal, \
            pe, CALL(ctx_##name)); \
    }
SIGNAL_UPDATE(signal_add, ADD)
SIGNAL_UPDATE(signal_set, SWAP)

/* Blocks that lie apart: one transfer each. Strides count elements. */
struct blocks {
    ptrdiff_t dest_stride;
    ptrdiff_t source_stride;
    size_t elements; /* of a block */
    size_t count;
    size_t bytes; /* of an element */
};

typedef void transfer(shmem_ctx_t ctx, void *dest, const void *source, size_t bytes, int pe,
                      const char *call);

static void transfer_blocks(transfer *move, shmem_ctx_t ctx, void *dest, const void *source,
                            struct blocks blocks, int pe, const char *call)
{
    ptrdiff_t bytes = (ptrdiff_t) blocks.bytes;
    for (size_t i = 0; i < blocks.count; i++) {
        ptrdiff_t at = (ptrdiff_t) i * bytes;
        move(ctx, (char *) dest + at * blocks.dest_stride,
             (const char *) source + at * blocks.source_stride,
             total(blocks.bytes, blocks.elements), pe, call);
    }
}

#define BLOCK_DEFINITIONS(infix, type, bytes, op) \
    SHMEM(void, infix, (type *dest, const type *source, ptrdiff_t dst, ptrdiff_t sst, \
        size_t bsize, size_t nblocks, int pe)) \
    { \
        struct blocks blocks = {dst, sst, bsize, nblocks, bytes}; \
        transfer_blocks(farside_shmem_##op, SHMEM_CTX_DEFAULT, dest, source, blocks, pe, \
            CALL(infix)); \
    } \
    SHMEM(void, ctx_##infix, (shmem_ctx_t ctx, type *dest, const type *source, ptrdiff_t dst, \
        ptrdiff_t sst, size_t bsize, size_t nblocks, int pe)) \
    { \
        struct blocks blocks = {dst, sst, bsize, nblocks, bytes}; \
        transfer_blocks(farside_shmem_##op, ctx, dest, source, blocks, pe, CALL(ctx_##infix)); \
    }

#define TYPED_BLOCKS(name, type, base, op) \
    BLOCK_DEFINITIONS(name##_ib##op, type, sizeof(type), op)
RMA_TYPES(TYPED_BLOCKS, put)
RMA_TYPES(TYPED_BLOCKS, get)

#define SIZED_BLOCKS(bits, bytes, op) BLOCK_DEFINITIONS(ib##op##bits, void, bytes, op)
SIZES(SIZED_BLOCKS, put)
SIZES(SIZED_BLOCKS, get)
