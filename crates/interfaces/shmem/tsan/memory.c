/* Allocation, for the checker of races: memory that is given back becomes other memory, whoever
 * gets it next. Calls from the program's objects, which the linker sends here (--wrap). */

#include "strand.h"

#include <malloc.h>
#include <stdlib.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **block, size_t alignment, size_t bytes);
void __real_free(void *block);

static void *fresh(void *block)
{
    if (block) {
        farside_forget(block, malloc_usable_size(block));
    }
    return block;
}

void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return fresh(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return fresh(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes)
{
    fresh(block);
    return fresh(__real_realloc(block, bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fresh(__real_aligned_alloc(alignment, bytes));
}

int __wrap_posix_memalign(void **block, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **block, size_t alignment, size_t bytes)
{
    int error = __real_posix_memalign(block, alignment, bytes);
    if (!error) {
        fresh(*block);
    }
    return error;
}

void __wrap_free(void *block);
void __wrap_free(void *block)
{
    __real_free(fresh(block));
}
