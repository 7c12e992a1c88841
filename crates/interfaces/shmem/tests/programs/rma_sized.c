/* Blocking put and get by element size and in bytes, on both kinds of context. Rows are bytes
 * here, so that a wrong width shows. */
#include "check.h"

enum { WIDEST = 16, COUNT = 5, BYTES = (COUNT + 2) * WIDEST, GUARD = 251 };

typedef unsigned char row[BYTES];

static shmem_ctx_t ctx;
static _Alignas(16) row static_rows[KINDS][MAX_PES];

typedef void transfer(void *, const void *, size_t, int);

#define DEFINE_CTX(NAME)                                                                           \
    static void on_ctx_##NAME(void *dest, const void *source, size_t nelems, int pe)               \
    {                                                                                              \
        shmem_ctx_##NAME(ctx, dest, source, nelems, pe);                                           \
    }
DEFINE_CTX(put8)
DEFINE_CTX(put16)
DEFINE_CTX(put32)
DEFINE_CTX(put64)
DEFINE_CTX(put128)
DEFINE_CTX(putmem)
DEFINE_CTX(get8)
DEFINE_CTX(get16)
DEFINE_CTX(get32)
DEFINE_CTX(get64)
DEFINE_CTX(get128)
DEFINE_CTX(getmem)

static const struct {
    const char *name;
    transfer *put, *get;
    size_t width;
} calls[] = {
    {"8", shmem_put8, shmem_get8, 1},
    {"16", shmem_put16, shmem_get16, 2},
    {"32", shmem_put32, shmem_get32, 4},
    {"64", shmem_put64, shmem_get64, 8},
    {"128", shmem_put128, shmem_get128, 16},
    {"mem", shmem_putmem, shmem_getmem, 1},
    {"ctx 8", on_ctx_put8, on_ctx_get8, 1},
    {"ctx 16", on_ctx_put16, on_ctx_get16, 2},
    {"ctx 32", on_ctx_put32, on_ctx_get32, 4},
    {"ctx 64", on_ctx_put64, on_ctx_get64, 8},
    {"ctx 128", on_ctx_put128, on_ctx_get128, 16},
    {"ctx mem", on_ctx_putmem, on_ctx_getmem, 1},
};

static unsigned char byte_of(int source, int kind, size_t i)
{
    return (unsigned char)((source * KINDS + kind) * 5 + (int)i * 3);
}

static void fill(unsigned char *bytes, int source, int kind)
{
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = byte_of(source, kind, i);
}

/* The bytes from WIDEST on, `length` of them, are the source's; the others are guards. */
static void check_bytes(const char *name, const unsigned char *bytes, int source, int kind,
                        size_t length)
{
    for (size_t i = 0; i < BYTES; i++) {
        int is_data = i >= WIDEST && i < WIDEST + length;
        CHECK_AT(name, source * KINDS + kind, i, bytes[i],
                 is_data ? byte_of(source, kind, i) : GUARD);
    }
}

static void test(row (*rows)[MAX_PES])
{
    _Alignas(16) row own;
    for (size_t call = 0; call < sizeof calls / sizeof *calls; call++) {
        size_t width = calls[call].width;
        memset(rows, GUARD, sizeof static_rows);
        shmem_barrier_all();
        for (int kind = 0; kind < KINDS; kind++) {
            fill(own, me, kind);
            calls[call].put(rows[kind][me] + WIDEST, own + WIDEST, COUNT, target_of(kind, me));
            memset(own, 0, sizeof own);
        }
        shmem_ctx_quiet(ctx);
        shmem_barrier_all();
        for (int kind = 0; kind < KINDS; kind++)
            for (int pe = 0; pe < MAX_PES; pe++)
                check_bytes(calls[call].name, rows[kind][pe], pe, kind,
                            pe < pes && target_of(kind, pe) == me ? COUNT * width : 0);
        shmem_barrier_all();
        for (int kind = 0; kind < KINDS; kind++)
            fill(rows[kind][me], me, kind);
        shmem_barrier_all();
        for (int kind = 0; kind < KINDS; kind++) {
            int pe = target_of(kind, me);
            memset(own, GUARD, sizeof own);
            calls[call].get(own + WIDEST, rows[kind][pe] + WIDEST, COUNT, pe);
            check_bytes(calls[call].name, own, pe, kind, COUNT * width);
        }
        calls[call].put(NOTHING, NOTHING, 0, pes - 1);
        calls[call].get(NOTHING, NOTHING, 0, pes - 1);
        shmem_barrier_all();
    }
}

/* Bytes at odd addresses and of odd lengths, up to a whole row. */
static void test_unaligned(row (*rows)[MAX_PES])
{
    row own, back;
    int next = (me + 1) % pes;
    for (size_t start = 0; start < 9; start++)
        for (size_t length = 0; length <= BYTES - start; length += 7) {
            memset(rows[0][me], GUARD, BYTES);
            fill(own, me, 0);
            memset(back, 0, sizeof back);
            shmem_barrier_all();
            int previous = (me + pes - 1) % pes;
            shmem_putmem(rows[0][next] + start, own + start, length, next);
            shmem_barrier_all();
            for (size_t i = 0; i < BYTES; i++) {
                int is_data = i >= start && i < start + length;
                CHECK_AT("putmem", start, i, rows[0][me][i],
                         is_data ? byte_of(previous, 0, i) : GUARD);
            }
            shmem_getmem(back, rows[0][next], BYTES, next);
            CHECK_EQ(memcmp(back + start, own + start, length), 0);
            shmem_barrier_all();
        }
}

/* Transfers that are larger than any buffer of a transport. */
static void test_large(void)
{
    enum { WORDS = 1 << 19 };
    uint64_t *far = heap_block(WORDS * sizeof *far);
    uint64_t *own = malloc(WORDS * sizeof *own);
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    CHECK(own != NULL);
    for (uint64_t i = 0; i < WORDS; i++)
        own[i] = (uint64_t)me << 32 | i;
    shmem_put64(far, own, WORDS, next);
    shmem_barrier_all();
    for (uint64_t i = 0; i < WORDS; i++)
        if (far[i] != ((uint64_t)previous << 32 | i))
            CHECK_AT("large put64", 0, i, far[i], (uint64_t)previous << 32 | i);
    memset(own, 0, WORDS * sizeof *own);
    shmem_getmem(own, far, WORDS * sizeof *own, pes - 1);
    uint64_t origin = (uint64_t)((pes - 1 + pes - 1) % pes);
    for (uint64_t i = 0; i < WORDS; i++)
        if (own[i] != (origin << 32 | i))
            CHECK_AT("large getmem", 0, i, own[i], origin << 32 | i);
    free(own);
    shmem_free(far);
}

int main(void)
{
    check_begin();
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    void *heap = heap_block(sizeof static_rows);
    test(static_rows);
    test(heap);
    test_unaligned(static_rows);
    test_unaligned(heap);
    test_large();
    shmem_ctx_destroy(ctx);
    shmem_free(heap);
    return check_end("rma_sized");
}
