/* What all examples do with errors: they say which call failed and why, and end. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "farside.h"

/* Ends the program if a call has failed. A process that ends without farside_leave counts as lost,
 * so that the other ranks do not wait for it. */
static void check(int code, const char *call, int line) {
    if (code != FARSIDE_OK) {
        fprintf(stderr, "line %d: %s: %s: %s\n", line, call, farside_error_name(code),
                farside_error_text());
        exit(1);
    }
}
#define CHECK(call) check((call), #call, __LINE__)

/* Ends the program if something is not as it should be. */
#define REQUIRE(condition)                                                          \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);         \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

#endif
