/* Tells the library of a load or store of the program. */
#ifndef FARSIDE_SEEN_H
#define FARSIDE_SEEN_H

#include <stddef.h>
#include <stdint.h>

void shmemx_farside_plain(const void *at, size_t bytes, int writes, uintptr_t address)
    __attribute__((weak));
void shmemx_farside_instrumented(void) __attribute__((weak));

#define HERE ((uintptr_t) __builtin_return_address(0))

static inline void seen(const void *at, size_t bytes, int writes, uintptr_t address)
{
    if (shmemx_farside_plain && bytes) {
        shmemx_farside_plain(at, bytes, writes, address);
    }
}

#endif
