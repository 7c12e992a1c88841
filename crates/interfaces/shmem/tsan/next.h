/* Finds the function of a library that one of the same name stands in front of. */
#ifndef FARSIDE_NEXT_H
#define FARSIDE_NEXT_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void *farside_next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "farside: no library has %s\n", name);
        abort();
    }
    return found;
}

/* Declares `real`, the function that the program would have called. */
#define NEXT(type, name, parameters) \
    static void *found; \
    void *there = __atomic_load_n(&found, __ATOMIC_ACQUIRE); \
    if (!there) { \
        there = farside_next(#name); \
        __atomic_store_n(&found, there, __ATOMIC_RELEASE); \
    } \
    type(*real) parameters; \
    memcpy(&real, &there, sizeof(real));

#endif
