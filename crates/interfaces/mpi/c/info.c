/* The hints of windows: what was given, with the standard's defaults for the rest. */
#include <stdlib.h>
#include <string.h>
#include "border.h"

static const struct {
    const char *key, *value;
} defaults[] = {
    { "no_locks", "false" },
    { "accumulate_ordering", "rar,raw,war,waw" },
    { "accumulate_ops", "same_op_no_op" },
    { "same_size", "false" },
    { "same_disp_unit", "false" },
    { "alloc_shared_noncontig", "false" },
};

enum { HINTS = sizeof defaults / sizeof *defaults };

/* Takes over the hints that are known. */
static void merge(MPI_Info into, MPI_Info from)
{
    char value[MPI_MAX_INFO_VAL + 1];
    int found;
    for (int i = 0; from != MPI_INFO_NULL && i < HINTS; i++) {
        PMPI_Info_get(from, defaults[i].key, MPI_MAX_INFO_VAL, value, &found);
        if (found)
            PMPI_Info_set(into, defaults[i].key, value);
    }
}

void info_start(struct window *window, MPI_Info given)
{
    PMPI_Info_create(&window->info);
    for (int i = 0; i < HINTS; i++)
        if (window->is_shared || strcmp(defaults[i].key, "alloc_shared_noncontig") != 0)
            PMPI_Info_set(window->info, defaults[i].key, defaults[i].value);
    merge(window->info, given);
}

uint64_t info_alignment(MPI_Info info)
{
    enum { LINE = 64, PAGE = 4096 };
    char value[MPI_MAX_INFO_VAL + 1];
    int found = 0;
    if (info != MPI_INFO_NULL)
        PMPI_Info_get(info, "mpi_minimum_memory_alignment", MPI_MAX_INFO_VAL, value, &found);
    unsigned long wanted = found ? strtoul(value, NULL, 10) : 0;
    uint64_t alignment = LINE;
    /* A hint that asks for more than a page is not followed further: the heap begins at one. */
    while (alignment < PAGE && alignment < wanted)
        alignment *= 2;
    return alignment;
}

API int MPI_Win_set_info(MPI_Win win, MPI_Info info)
{
    struct window *window = window_of(win);
    if (window == NULL)
        return REAL(MPI_Win_set_info)(win, info);
    merge(window->info, info);
    return MPI_SUCCESS;
}

API int MPI_Win_get_info(MPI_Win win, MPI_Info *info)
{
    struct window *window = window_of(win);
    if (window == NULL)
        return REAL(MPI_Win_get_info)(win, info);
    return PMPI_Info_dup(window->info, info);
}

/* Fortran's calls of Open MPI, and tools, use these names. */
ALSO(MPI_Win_get_info)
ALSO(MPI_Win_set_info)
