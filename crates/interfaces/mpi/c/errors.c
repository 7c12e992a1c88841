/* Errors: from classes of farside to classes of MPI, with the text, to the window's handler. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "border.h"

enum { TEXTS = 64 };

/* The error codes that were made: MPI has no way to give them back. */
static struct {
    int class, code;
    char *text;
} codes[TEXTS];
static int code_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int class_of(int code)
{
    switch (code) {
    case 0: return MPI_SUCCESS;
    case FARSIDE_RANK: return MPI_ERR_RANK;
    case FARSIDE_BOUNDS: return MPI_ERR_RMA_RANGE;
    case FARSIDE_ARGUMENT: return MPI_ERR_ARG;
    case FARSIDE_STATE: return MPI_ERR_OTHER;
    case FARSIDE_EPOCH: return MPI_ERR_RMA_SYNC;
    case FARSIDE_MEMORY:
    case FARSIDE_LIMIT: return MPI_ERR_NO_MEM;
    default: return MPI_ERR_OTHER;
    }
}

/* An error code of a class with a text, or the class itself if there are too many. */
static int code_for(int class, const char *call, const char *text)
{
    char whole[MPI_MAX_ERROR_STRING];
    snprintf(whole, sizeof whole, "%s: %s", call, text);
    pthread_mutex_lock(&mutex);
    int found = -1;
    for (int i = 0; i < code_count && found < 0; i++)
        if (codes[i].class == class && strcmp(codes[i].text, whole) == 0)
            found = codes[i].code;
    if (found < 0 && code_count < TEXTS) {
        int code;
        if (PMPI_Add_error_code(class, &code) == MPI_SUCCESS
            && PMPI_Add_error_string(code, whole) == MPI_SUCCESS) {
            codes[code_count].class = class;
            codes[code_count].code = found = code;
            codes[code_count++].text = strdup(whole);
        }
    }
    pthread_mutex_unlock(&mutex);
    return found < 0 ? class : found;
}

/* MPIs that end the program do not all say why. */
static void announce(MPI_Errhandler handler, const char *call, const char *text)
{
    int rank;
    if (handler == MPI_ERRORS_ARE_FATAL) {
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
        fprintf(stderr, "farside: rank %d: %s: %s\n", rank, call, text);
    } else {
        say("%s: %s", call, text);
    }
    PMPI_Errhandler_free(&handler);
}

int fail_window(MPI_Win win, int class, const char *call, const char *text)
{
    int code = code_for(class, call, text);
    MPI_Errhandler handler;
    PMPI_Win_get_errhandler(win, &handler);
    announce(handler, call, text);
    int handled = PMPI_Win_call_errhandler(win, code);
    return handled == MPI_SUCCESS ? code : handled;
}

int fail_comm(MPI_Comm comm, int class, const char *call, const char *text)
{
    int code = code_for(class, call, text);
    MPI_Errhandler handler;
    PMPI_Comm_get_errhandler(comm, &handler);
    announce(handler, call, text);
    int handled = PMPI_Comm_call_errhandler(comm, code);
    return handled == MPI_SUCCESS ? code : handled;
}

int fail_call(struct window *window, const char *call, int code)
{
    return fail_window(window->real, class_of(code), call, farside_mpi_error_text());
}

#ifndef OPEN_MPI
/* MPICH 4.0 gives codes that were added to its own classes the text of something else. */
API int MPI_Error_string(int code, char *string, int *length)
{
    const char *text = NULL;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < code_count && text == NULL; i++)
        if (codes[i].code == code)
            text = codes[i].text;
    pthread_mutex_unlock(&mutex);
    if (text == NULL)
        return REAL(MPI_Error_string)(code, string, length);
    *length = snprintf(string, MPI_MAX_ERROR_STRING, "%s", text);
    return MPI_SUCCESS;
}

ALSO(MPI_Error_string)
#endif
