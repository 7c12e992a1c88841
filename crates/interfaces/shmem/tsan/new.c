/* Allocation of C++, as memory.c does for C. */

#include "strand.h"

#include <malloc.h>

void *__real__Znwm(size_t bytes);
void *__real__Znam(size_t bytes);
void __real__ZdlPv(void *block);
void __real__ZdlPvm(void *block, size_t bytes);
void __real__ZdaPv(void *block);

static void *fresh(void *block)
{
    if (block) {
        farside_forget(block, malloc_usable_size(block));
    }
    return block;
}

void *__wrap__Znwm(size_t bytes);
void *__wrap__Znwm(size_t bytes) { return fresh(__real__Znwm(bytes)); }
void *__wrap__Znam(size_t bytes);
void *__wrap__Znam(size_t bytes) { return fresh(__real__Znam(bytes)); }
void __wrap__ZdlPv(void *block);
void __wrap__ZdlPv(void *block) { __real__ZdlPv(fresh(block)); }
void __wrap__ZdlPvm(void *block, size_t bytes);
void __wrap__ZdlPvm(void *block, size_t bytes) { __real__ZdlPvm(fresh(block), bytes); }
void __wrap__ZdaPv(void *block);
void __wrap__ZdaPv(void *block) { __real__ZdaPv(fresh(block)); }
