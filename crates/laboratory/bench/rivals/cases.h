/* Programs with a table of cases, of which the command line names some. */
#ifndef CASES_H
#define CASES_H

#include "rival.h"

struct known_case {
    const char *name;
    bool (*run)(const struct plan *);
};

struct plan {
    long ms;                    /* of each case that is no program */
    long part;                  /* programs do one in so many of their steps */
    const struct known_case *cases[MAX_LIST];
    int count;
};

static const struct known_case *known_cases;
static size_t known_count;

static bool parse_case(const char *text, struct plan *plan)
{
    for (size_t i = 0; i < known_count; i++)
        if (strcmp(text, known_cases[i].name) == 0) {
            plan->cases[plan->count++] = &known_cases[i];
            return true;
        }
    return fail("unknown case '%s'", text);
}

/* The time and the cases of a command line, of a table with so many cases. */
static bool parse_plan(char **argv, const struct known_case *cases, size_t count,
                       struct plan *plan)
{
    known_cases = cases;
    known_count = count;
    return parse_number(argv[1], "MS", 60000, &plan->ms)
        && parse_list(argv[2], "CASES", plan, parse_case);
}

#endif
