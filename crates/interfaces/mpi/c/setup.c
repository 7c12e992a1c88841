/* From MPI_Init to MPI_Finalize. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "border.h"

bool is_running, has_threads;
static bool is_verbose;
static pthread_mutex_t mutex;
MPI_Comm world;

#ifdef OPEN_MPI
#define THIS_MPI "Open MPI"
#define THIS_LIBRARY "libfarside-mpi-openmpi.so"
#define NAMES "libmpi.so.40"
#define OTHER_LIBRARY "libfarside-mpi-mpich.so"
#else
#define THIS_MPI "MPICH"
#define THIS_LIBRARY "libfarside-mpi-mpich.so"
#define NAMES "libmpich.so.12", "libmpi.so.12"
#define OTHER_LIBRARY "libfarside-mpi-openmpi.so"
#endif

/* MPI's library, which others may have loaded for themselves alone: then it is made known to all,
 * so that this one finds the rest of it. */
static void *mpi_library(void)
{
    static const char *const names[] = { NAMES };
    static void *library;
    for (size_t i = 0; library == NULL && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
    return library;
}

void *find_in_mpi(const char *name)
{
    void *library = mpi_library();
    void *found = library == NULL ? NULL : dlsym(library, name);
    if (found == NULL)
        found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        fprintf(stderr, "farside: " THIS_LIBRARY " is for " THIS_MPI ", of which this program has "
                        "no %s: preload " OTHER_LIBRARY " if it uses another MPI\n", name);
        exit(1);
    }
    return found;
}

/* A function of a library of Fortran, of which this one has the name. */
void *find_next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    return found != NULL ? found : find_in_mpi(name);
}

/* An executable may have a copy of an object, which then is the one that all use. */
void *find_object(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    return found != NULL ? found : find_in_mpi(name);
}

void enter(void)
{
    if (has_threads)
        pthread_mutex_lock(&mutex);
}

void leave(void)
{
    if (has_threads)
        pthread_mutex_unlock(&mutex);
}

void say(const char *format, ...)
{
    if (!is_verbose)
        return;
    va_list arguments;
    va_start(arguments, format);
    fputs("farside: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && *value != '\0' && strcmp(value, "0") != 0;
}

/* Whether the MPI that is loaded is the one whose header this file was compiled with. */
static bool is_this_mpi(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    if (PMPI_Get_library_version(version, &length) != MPI_SUCCESS)
        return false;
#ifdef OPEN_MPI
    return strstr(version, "Open MPI") != NULL;
#else
    return strstr(version, "Open MPI") == NULL;
#endif
}

/* A function pointer of another MPI would be called with handles of this one's kind. */
static void check_mpi(void)
{
    if (is_this_mpi())
        return;
    fprintf(stderr, "farside: " THIS_LIBRARY " is for " THIS_MPI ", and this program uses another "
                    "MPI: preload " OTHER_LIBRARY "\n");
    exit(1);
}

static int gather(const void *mine, size_t bytes, void *all)
{
    return PMPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, world);
}

/* MPI makes progress when it is called. */
static void progress(void)
{
    int flag;
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &flag, MPI_STATUS_IGNORE);
}

static void finish(void);

static int copy_not(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

static int end(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    finish();
    return MPI_SUCCESS;
}

/* MPI_Finalize first deletes the attributes of MPI_COMM_SELF, the one that was set first last. So
 * the program's callbacks find their windows and their memory, and the library ends behind them. */
static void finish_at_the_end(void)
{
    int key;
    PMPI_Comm_create_keyval(copy_not, end, &key, NULL);
    PMPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    PMPI_Comm_free_keyval(&key);
}

static void start(void)
{
    const char *wanted = getenv("FARSIDE_MPI");
    is_verbose = is_set("FARSIDE_MPI_VERBOSE");
    if (wanted != NULL && strcmp(wanted, "off") == 0)
        return;
    check_mpi();
    int rank, size, level;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    PMPI_Query_thread(&level);
    has_threads = level == MPI_THREAD_MULTIPLE;
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &kind);
    if (PMPI_Comm_split(MPI_COMM_WORLD, 0, rank, &world) != MPI_SUCCESS)
        return;
    PMPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    struct farside_mpi_host host = { rank, size, has_threads, gather, progress };
    int code = farside_mpi_start(&host), worst;
    PMPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, world);
    if (worst != 0) {
        if (code != 0)
            fprintf(stderr, "farside: rank %d: %s; one-sided calls are left to MPI\n", rank,
                    farside_mpi_error_text());
        return;
    }
    types_start();
    finish_at_the_end();
    is_running = true;
    counts_waits = is_set("FARSIDE_MPI_SUMMARY");
    yields = farside_mpi_is_crowded();
    say("rank %d of %d: one-sided calls of " THIS_MPI " are taken over", rank, size);
}

/* The memory that this process gives out: what is freed while MPI ends stays. */
static const void *heap;
static uint64_t heap_bytes;

static void finish(void)
{
    if (!is_running)
        return;
    farside_mpi_heap(&heap, &heap_bytes);
    if (counts_waits) {
        int rank;
        PMPI_Comm_rank(world, &rank);
        say_summary(rank);
    }
    is_running = false;
    last_window = NULL;
    if (windows_left() > 0)
        say(windows_left() == 1 ? "%d window was not freed" : "%d windows were not freed",
            windows_left());
    if (farside_mpi_finish() != 0)
        say("MPI_Finalize: %s", farside_mpi_error_text());
    communicators_forget();
    PMPI_Comm_free(&world);
}

API int MPI_Init(int *argc, char ***argv)
{
    int code = REAL(MPI_Init)(argc, argv);
    if (code == MPI_SUCCESS)
        start();
    return code;
}

API int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int code = REAL(MPI_Init_thread)(argc, argv, required, provided);
    if (code == MPI_SUCCESS)
        start();
    return code;
}

API int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *base)
{
    if (is_running && size > 0) {
        void *block;
        if (farside_mpi_take((uint64_t)size, info_alignment(info), &block) == 0) {
            *(void **)base = block;
            return MPI_SUCCESS;
        }
    }
    return REAL(MPI_Alloc_mem)(size, info, base);
}

API int MPI_Free_mem(void *base)
{
    if (is_running && base != NULL && farside_mpi_give(base))
        return MPI_SUCCESS;
    if (!is_running && (uintptr_t)base - (uintptr_t)heap < heap_bytes)
        return MPI_SUCCESS;
    return REAL(MPI_Free_mem)(base);
}

/* Fortran's calls of Open MPI, and tools, use these names. */
ALSO(MPI_Alloc_mem)
ALSO(MPI_Free_mem)
ALSO(MPI_Init)
ALSO(MPI_Init_thread)
