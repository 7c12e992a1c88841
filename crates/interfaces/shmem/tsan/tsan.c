/* The entry points that compilers call in programs built with -fsanitize=thread, for the checker of
 * races: loads and stores of symmetric memory, and of buffers of non-blocking operations, are told
 * to the library; everything else costs a call. `farside-oshcc -fsanitize=thread` links this
 * instead of the compiler's own library. */

#include "seen.h"
#include "strand.h"

#include <stdbool.h>

void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__real_memmove(void *to, const void *from, size_t bytes);
void *__real_memset(void *to, int value, size_t bytes);

/* Every instrumented file calls this before main. */
void __tsan_init(void)
{
    if (shmemx_farside_instrumented) {
        shmemx_farside_instrumented();
    }
}
void __tsan_func_entry(void *address) { (void) address; }
void __tsan_func_exit(void) {}
void __tsan_ignore_thread_begin(void) {}
void __tsan_ignore_thread_end(void) {}
void __tsan_vptr_read(void **at) { seen(at, sizeof(*at), 0, HERE); }
void __tsan_vptr_update(void **at, void *value)
{
    (void) value;
    seen(at, sizeof(*at), 1, HERE);
}
void __tsan_read_range(void *at, unsigned long bytes) { seen(at, bytes, 0, HERE); }
void __tsan_write_range(void *at, unsigned long bytes) { seen(at, bytes, 1, HERE); }

#define ACCESSES(bytes) \
    void __tsan_read##bytes(void *at) { seen(at, bytes, 0, HERE); } \
    void __tsan_write##bytes(void *at) { seen(at, bytes, 1, HERE); } \
    void __tsan_unaligned_read##bytes(void *at) { seen(at, bytes, 0, HERE); } \
    void __tsan_unaligned_write##bytes(void *at) { seen(at, bytes, 1, HERE); } \
    void __tsan_volatile_read##bytes(void *at) { seen(at, bytes, 0, HERE); } \
    void __tsan_volatile_write##bytes(void *at) { seen(at, bytes, 1, HERE); } \
    void __tsan_unaligned_volatile_read##bytes(void *at) { seen(at, bytes, 0, HERE); } \
    void __tsan_unaligned_volatile_write##bytes(void *at) { seen(at, bytes, 1, HERE); } \
    void __tsan_read_write##bytes(void *at) \
    { \
        seen(at, bytes, 0, HERE); \
        seen(at, bytes, 1, HERE); \
    } \
    void __tsan_unaligned_read_write##bytes(void *at) \
    { \
        seen(at, bytes, 0, HERE); \
        seen(at, bytes, 1, HERE); \
    } \
    void __tsan_read##bytes##_pc(void *at, void *address) \
    { \
        seen(at, bytes, 0, (uintptr_t) address); \
    } \
    void __tsan_write##bytes##_pc(void *at, void *address) \
    { \
        seen(at, bytes, 1, (uintptr_t) address); \
    }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    seen(from, bytes, 0, HERE);
    seen(to, bytes, 1, HERE);
    return __real_memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    seen(from, bytes, 0, HERE);
    seen(to, bytes, 1, HERE);
    return __real_memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int value, size_t bytes)
{
    seen(to, bytes, 1, HERE);
    return __real_memset(to, value, bytes);
}

/* Calls of the C library from the program's objects, which the linker sends here (--wrap). */
void *__wrap_memcpy(void *to, const void *from, size_t bytes)
{
    seen(from, bytes, 0, HERE);
    seen(to, bytes, 1, HERE);
    return __real_memmove(to, from, bytes);
}

void *__wrap_memmove(void *to, const void *from, size_t bytes)
{
    seen(from, bytes, 0, HERE);
    seen(to, bytes, 1, HERE);
    return __real_memmove(to, from, bytes);
}

void *__wrap_memset(void *to, int value, size_t bytes)
{
    seen(to, bytes, 1, HERE);
    return __real_memset(to, value, bytes);
}

/* Atomics of C are executed. As accesses they are not told, since OpenSHMEM says nothing of them;
 * threads order what they do by them, as far as the memory order says so. Which of the relaxed ones
 * a fence belongs to is not seen: after the first fence all order. */
static char fences;
static int is_fenced;

static bool releases(int order)
{
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST
        || __atomic_load_n(&is_fenced, __ATOMIC_RELAXED);
}

static bool acquires(int order)
{
    return order == __ATOMIC_CONSUME || order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL
        || order == __ATOMIC_SEQ_CST || __atomic_load_n(&is_fenced, __ATOMIC_RELAXED);
}

static void before(const volatile void *at, int order)
{
    if (releases(order)) {
        farside_release((const void *) at);
    }
}

static void after(const volatile void *at, int order)
{
    if (acquires(order)) {
        farside_acquire((const void *) at);
    }
}

void __tsan_atomic_thread_fence(int order)
{
    __atomic_store_n(&is_fenced, 1, __ATOMIC_RELAXED);
    before(&fences, order);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    after(&fences, order);
}
void __tsan_atomic_signal_fence(int order)
{
    (void) order;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#define EXCHANGES(bits, name, strength) \
    bool __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t *at, \
        uint##bits##_t *expected, uint##bits##_t desired, int order, int failure) \
    { \
        before(at, order); \
        bool is_exchanged = __atomic_compare_exchange_n(at, expected, desired, strength, \
            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        after(at, is_exchanged ? order : failure); \
        return is_exchanged; \
    }

#define CHANGE(bits, name, operation) \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *at, \
        uint##bits##_t value, int order) \
    { \
        before(at, order); \
        uint##bits##_t held = operation(at, value, __ATOMIC_SEQ_CST); \
        after(at, order); \
        return held; \
    }

#define ATOMICS(bits) \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order) \
    { \
        uint##bits##_t held = __atomic_load_n(at, __ATOMIC_SEQ_CST); \
        after(at, order); \
        return held; \
    } \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, \
        int order) \
    { \
        before(at, order); \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST); \
    } \
    CHANGE(bits, exchange, __atomic_exchange_n) \
    CHANGE(bits, fetch_add, __atomic_fetch_add) \
    CHANGE(bits, fetch_sub, __atomic_fetch_sub) \
    CHANGE(bits, fetch_and, __atomic_fetch_and) \
    CHANGE(bits, fetch_or, __atomic_fetch_or) \
    CHANGE(bits, fetch_xor, __atomic_fetch_xor) \
    CHANGE(bits, fetch_nand, __atomic_fetch_nand) \
    EXCHANGES(bits, strong, 0) \
    EXCHANGES(bits, weak, 1) \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t *at, \
        uint##bits##_t expected, uint##bits##_t desired, int order, int failure) \
    { \
        before(at, order); \
        bool is_exchanged = __atomic_compare_exchange_n(at, &expected, desired, 0, \
            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        after(at, is_exchanged ? order : failure); \
        return expected; \
    }
ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)
