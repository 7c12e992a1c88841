/* Windows: made, asked about and freed. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "border.h"

/* Windows by handle, in a table with room to spare. */
static struct window **table;
static size_t table_size, table_count;
struct window *last_window;

static size_t slot_of(MPI_Win win)
{
    uint64_t bits = (uint64_t)(uintptr_t)win;
    return (size_t)(bits * 0x9E3779B97F4A7C15u >> 20) & (table_size - 1);
}

static struct window *find(MPI_Win win)
{
    if (table_size == 0)
        return NULL;
    for (size_t at = slot_of(win); table[at] != NULL; at = (at + 1) & (table_size - 1))
        if (table[at]->real == win)
            return table[at];
    return NULL;
}

/* A window with the same handle is one that a thread has just freed, and is about to forget: its
 * place is taken. */
static void insert(struct window *window)
{
    size_t at = slot_of(window->real);
    while (table[at] != NULL && table[at]->real != window->real)
        at = (at + 1) & (table_size - 1);
    table_count += table[at] == NULL;
    table[at] = window;
}

/* Makes the table anew, without one window or with more room. */
static void rebuild(size_t size, const struct window *without)
{
    struct window **before = table;
    size_t count = table_size;
    table_size = size;
    table_count = 0;
    table = calloc(size, sizeof *table);
    for (size_t i = 0; i < count; i++)
        if (before[i] != NULL && before[i] != without)
            insert(before[i]);
    free(before);
}

struct window *look_up(MPI_Win win)
{
    if (!is_running)
        return NULL;
    if (!has_threads)
        return last_window = find(win);
    enter();
    struct window *found = find(win);
    leave();
    return found;
}

int windows_left(void)
{
    return (int)table_count;
}

static void remember(struct window *window)
{
    enter();
    windows++;
    if (2 * (table_count + 1) > table_size)
        rebuild(table_size == 0 ? 64 : table_size * 2, NULL);
    insert(window);
    leave();
}

static void forget(struct window *window)
{
    enter();
    last_window = NULL;
    rebuild(table_size, window);
    leave();
}

/* A real window of this process alone, without memory. Which kind an MPI makes for one process
 * differs, so several are tried. */
static int carrier(MPI_Win *win)
{
    static MPI_Comm self;
    static bool has_self;
    void *base;
    /* Threads that make windows at once take turns: they are made over one communicator. */
    enter();
    if (!has_self) {
        PMPI_Comm_split(MPI_COMM_SELF, 0, 0, &self);
        PMPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
        has_self = true;
    }
    int error = REAL(MPI_Win_allocate_shared)(0, 1, MPI_INFO_NULL, self, &base, win);
    if (error != MPI_SUCCESS)
        error = REAL(MPI_Win_create_dynamic)(MPI_INFO_NULL, self, win);
    if (error != MPI_SUCCESS)
        error = REAL(MPI_Win_allocate)(0, 1, MPI_INFO_NULL, self, &base, win);
    if (error != MPI_SUCCESS)
        error = REAL(MPI_Win_create)(NULL, 0, 1, MPI_INFO_NULL, self, win);
    leave();
    return error;
}

static bool info_is(MPI_Info info, const char *key, const char *value)
{
    char found[MPI_MAX_INFO_VAL + 1];
    int flag = 0;
    if (info != MPI_INFO_NULL)
        PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, found, &flag);
    return flag && strcmp(found, value) == 0;
}

/* What a member brings to a new window. */
struct offer {
    const char *call;
    MPI_Comm comm;
    MPI_Info info;
    struct communicator *communicator;
    int flavor, unit;
    void *base, *block;
    MPI_Aint size;
    struct farside_mpi_part part;
    int error;              /* an MPI class, if this member has nothing to bring */
    char text[256];
};

/* The first reason stays: it is why the members' next call fails, too. */
static void refuse(struct offer *offer, int class, const char *text)
{
    if (offer->error != MPI_SUCCESS)
        return;
    offer->error = class;
    strncpy(offer->text, text, sizeof offer->text - 1);
}

/* Gathers what all members bring, and the error of one that has any. Collective. */
static int compare(struct offer *offer, struct farside_mpi_part *parts)
{
    struct communicator *communicator = offer->communicator;
    struct { struct farside_mpi_part part; int error; } mine = { offer->part, offer->error }, *all;
    all = calloc((size_t)communicator->size, sizeof *all);
    int error = class_of(farside_mpi_gather(communicator->team, &mine, sizeof mine, all));
    if (error != MPI_SUCCESS) {
        refuse(offer, error, farside_mpi_error_text());
        error = offer->error;
    }
    for (int i = 0; i < communicator->size; i++) {
        parts[i] = all[i].part;
        if (all[i].error != MPI_SUCCESS)
            error = all[i].error;
    }
    free(all);
    if (has_threads) {
        /* One may have failed alone. The others would hear of it in the next collective of this
         * team, but go on to collectives of MPI, and of a team that the window has to itself. */
        int mine_or_other = error;
        PMPI_Allreduce(&mine_or_other, &error, 1, MPI_INT, MPI_MAX, communicator->own);
    }
    /* What is said of it is this member's own reason, if it has one. */
    return offer->error != MPI_SUCCESS ? offer->error : error;
}

/* Makes what a window has besides its parts. What members make together fails on all of them; the
 * window of MPI may fail on one. Collective. */
static void build(struct offer *offer, struct window *window)
{
    struct communicator *communicator = offer->communicator;
    int code = has_threads ? communicator_team(communicator, &window->team) : 0;
    if (code == 0)
        code = farside_mpi_window(has_threads ? window->team : communicator->team, window->parts,
                                  &window->core);
    if (code != 0) {
        refuse(offer, class_of(code), farside_mpi_error_text());
        return;
    }
    window->near = calloc((size_t)communicator->size, sizeof *window->near);
    if (!farside_mpi_window_near(window->core, window->near)) {
        free(window->near);
        window->near = NULL;
    }
    if (carrier(&window->real) != MPI_SUCCESS) {
        window->real = MPI_WIN_NULL;
        refuse(offer, MPI_ERR_WIN, "MPI makes no window to carry the handle");
    }
}

/* Frees what there is of a window. Collective: members have come equally far with what they make
 * together. */
static void abandon(struct offer *offer, struct window *window)
{
    if (window->core != NULL)
        farside_mpi_window_free(window->core);
    if (window->team != NULL)
        farside_mpi_team_free(window->team);
    if (window->real != MPI_WIN_NULL)
        REAL(MPI_Win_free)(&window->real);
    if (offer->block != NULL)
        farside_mpi_give(offer->block);
    communicator_release(offer->communicator);
    free(window->near);
    free(window->parts);
    free(window);
}

/* Makes the window from what all members bring. Fails on all if it does on one. */
static int conclude(struct offer *offer, MPI_Win *win)
{
    struct communicator *communicator = offer->communicator;
    struct window *window = calloc(1, sizeof *window);
    window->parts = calloc((size_t)communicator->size, sizeof *window->parts);
    window->real = MPI_WIN_NULL;
    int error = compare(offer, window->parts);
    if (error == MPI_SUCCESS) {
        build(offer, window);
        error = compare(offer, window->parts);
    }
    if (error != MPI_SUCCESS) {
        abandon(offer, window);
        return fail_comm(offer->comm, error, offer->call,
                         offer->error ? offer->text : "another member had an error");
    }
    window->communicator = communicator;
    window->flavor = offer->flavor;
    window->model = MPI_WIN_UNIFIED;
    window->base = offer->base;
    window->size = offer->size;
    window->unit = offer->unit;
    window->block = offer->block;
    window->is_shared = offer->flavor == MPI_WIN_FLAVOR_SHARED;
    info_start(window, offer->info);
    remember(window);
    *win = window->real;
    return MPI_SUCCESS;
}

/* Fills in what is common; false if the window is left to MPI. */
static bool begin(struct offer *offer, const char *call, MPI_Comm comm, MPI_Info info, int flavor)
{
    if (!is_running || comm == MPI_COMM_NULL)
        return false;
    struct communicator *communicator = communicator_of(comm);
    if (communicator == NULL)
        return false;
    uint32_t me = (uint32_t)communicator->world_ranks[communicator->rank];
    *offer = (struct offer){
        .call = call, .comm = comm, .info = info, .communicator = communicator, .flavor = flavor,
        .part = { .rank = me, .owner = me }
    };
    return true;
}

static void check_size(struct offer *offer, MPI_Aint size, MPI_Aint unit)
{
    offer->size = size;
    offer->unit = (int)unit;
    offer->part.unit = (uint32_t)unit;
    offer->part.bytes = (uint64_t)size;
    if (size < 0)
        refuse(offer, MPI_ERR_SIZE, "the size of a window is negative");
    else if (unit <= 0)
        refuse(offer, MPI_ERR_DISP, "the displacement unit of a window is not positive");
    else if (unit > INT_MAX)
        refuse(offer, MPI_ERR_DISP, "the displacement unit of a window is more than an int holds");
}

/* Memory of the job for this member. */
static void take(struct offer *offer, uint64_t bytes)
{
    uint64_t align = info_alignment(offer->info);
    if (offer->error != MPI_SUCCESS)
        return;
    if (bytes >= 4096 && align < 4096)
        align = 4096;
    if (farside_mpi_take(bytes, align, &offer->block) != 0) {
        refuse(offer, MPI_ERR_NO_MEM, farside_mpi_error_text());
        return;
    }
    offer->base = offer->block;
    farside_mpi_offset(offer->block, bytes, &offer->part.start);
}

/* Whether something holds for any member. Collective. */
static bool any(struct offer *offer, int mine)
{
    struct communicator *communicator = offer->communicator;
    int *all = calloc((size_t)communicator->size, sizeof *all);
    bool found = false;
    if (farside_mpi_gather(communicator->team, &mine, sizeof mine, all) != 0)
        refuse(offer, MPI_ERR_OTHER, farside_mpi_error_text());
    for (int i = 0; i < communicator->size; i++)
        found |= all[i] != 0;
    free(all);
    return found;
}

/* Members whose memory others cannot reach by themselves serve it. Collective. */
static void serve_if_needed(struct offer *offer)
{
    struct communicator *communicator = offer->communicator;
    int *owners = calloc((size_t)communicator->size, sizeof *owners);
    int mine = offer->part.kind == PART_OF_PROCESS;
    /* Before others try whether they reach it. */
    if (mine)
        farside_mpi_allow_others();
    if (farside_mpi_gather(communicator->team, &mine, sizeof mine, owners) != 0)
        refuse(offer, MPI_ERR_OTHER, farside_mpi_error_text());
    size_t count = 0;
    for (int i = 0; i < communicator->size; i++)
        if (owners[i])
            owners[count++] = communicator->world_ranks[i];
    bool needs = count > 0 && any(offer, !farside_mpi_reaches_all(owners, count));
    free(owners);
    if (needs && farside_mpi_serve() != 0)
        refuse(offer, MPI_ERR_OTHER, farside_mpi_error_text());
}

static int allocate(struct offer *offer, MPI_Aint size, MPI_Aint unit, void *baseptr, MPI_Win *win)
{
    check_size(offer, size, unit);
    take(offer, (uint64_t)size);
    int error = conclude(offer, win);
    if (error == MPI_SUCCESS)
        *(void **)baseptr = offer->base;
    return error;
}

/* Whether loads and stores reach the memory of all members, as they must. */
static bool all_near(const struct communicator *communicator)
{
    for (int i = 0; i < communicator->size; i++)
        if (farside_mpi_address(communicator->world_ranks[i], 0) == NULL)
            return false;
    return true;
}

/* Gathers a word of each member; what there is after an error is not used. Collective. */
static void gather_word(struct offer *offer, int64_t mine, int64_t *all)
{
    if (farside_mpi_gather(offer->communicator->team, &mine, sizeof mine, all) != 0)
        refuse(offer, MPI_ERR_OTHER, farside_mpi_error_text());
}

static int allocate_shared(struct offer *offer, MPI_Aint size, MPI_Aint unit, void *baseptr,
                           MPI_Win *win)
{
    struct communicator *communicator = offer->communicator;
    check_size(offer, size, unit);
    if (offer->error == MPI_SUCCESS && !all_near(communicator))
        refuse(offer, MPI_ERR_RMA_SHARED,
               "loads and stores do not reach the memory of all members: split the communicator "
               "with MPI_COMM_TYPE_SHARED");
    if (info_is(offer->info, "alloc_shared_noncontig", "true")) {
        take(offer, (uint64_t)(size > 0 ? size : 0));
    } else {
        /* All parts lie one behind the other, in memory of the first member. */
        int64_t mine = offer->error == MPI_SUCCESS ? size : -1;
        int64_t *sizes = calloc((size_t)communicator->size, sizeof *sizes);
        gather_word(offer, mine, sizes);
        uint64_t total = 0, before = 0;
        for (int i = 0; i < communicator->size; i++) {
            before += i < communicator->rank && sizes[i] > 0 ? (uint64_t)sizes[i] : 0;
            total += sizes[i] > 0 ? (uint64_t)sizes[i] : 0;
        }
        if (communicator->rank == 0)
            take(offer, total);
        gather_word(offer, (int64_t)offer->part.start, sizes);
        int owner = communicator->world_ranks[0];
        offer->part.owner = (uint32_t)owner;
        offer->part.start = (uint64_t)sizes[0] + before;
        offer->base = farside_mpi_address(owner, offer->part.start);
        free(sizes);
    }
    int error = conclude(offer, win);
    if (error == MPI_SUCCESS)
        *(void **)baseptr = offer->base;
    return error;
}

static int create(struct offer *offer, void *base, MPI_Aint size, MPI_Aint unit, MPI_Win *win)
{
    check_size(offer, size, unit);
    offer->base = base;
    bool is_of_job = size > 0 && farside_mpi_offset(base, (uint64_t)size, &offer->part.start);
    if (size != 0 && !is_of_job) {
        offer->part.kind = PART_OF_PROCESS;
        offer->part.start = (uint64_t)(uintptr_t)base;
    }
    serve_if_needed(offer);
    return conclude(offer, win);
}

API int MPI_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    struct offer offer;
    if (!begin(&offer, "MPI_Win_create_dynamic", comm, info, MPI_WIN_FLAVOR_DYNAMIC))
        return REAL(MPI_Win_create_dynamic)(info, comm, win);
    offer.unit = 1;
    offer.base = MPI_BOTTOM;
    offer.part.kind = PART_OF_PROCESS;
    offer.part.unit = 1;
    offer.part.bytes = INT64_MAX;
    serve_if_needed(&offer);
    return conclude(&offer, win);
}

API int MPI_Win_attach(MPI_Win win, void *base, MPI_Aint size)
{
    struct window *window = window_of(win);
    if (window == NULL)
        return REAL(MPI_Win_attach)(win, base, size);
    if (window->flavor != MPI_WIN_FLAVOR_DYNAMIC)
        return fail_window(win, MPI_ERR_RMA_FLAVOR, "MPI_Win_attach", "the window is not dynamic");
    if (size < 0)
        return fail_window(win, MPI_ERR_SIZE, "MPI_Win_attach", "the size is negative");
    if (base == NULL && size > 0)
        return fail_window(win, MPI_ERR_ARG, "MPI_Win_attach", "there is no memory at null");
    return MPI_SUCCESS;
}

API int MPI_Win_detach(MPI_Win win, const void *base)
{
    struct window *window = window_of(win);
    if (window == NULL)
        return REAL(MPI_Win_detach)(win, base);
    if (window->flavor != MPI_WIN_FLAVOR_DYNAMIC)
        return fail_window(win, MPI_ERR_RMA_FLAVOR, "MPI_Win_detach", "the window is not dynamic");
    return MPI_SUCCESS;
}

API int MPI_Win_free(MPI_Win *win)
{
    struct window *window = window_of(*win);
    if (window == NULL)
        return REAL(MPI_Win_free)(win);
    int code = farside_mpi_window_is_idle(window->core);
    if (code != 0)
        return done(window, "MPI_Win_free", code);
    if (!window->has_met) {
        int completed = farside_mpi_window_complete(window->core);
        int met = farside_mpi_window_meet(window->core);
        if (met == FARSIDE_LOST) {
            /* The rest would wait for the lost process. The handle stays, and every call on it
             * fails. */
            int error = done(window, "MPI_Win_free", met);
            farside_mpi_window_free(window->core);
            window->core = NULL;
            free(window->near);
            window->near = NULL;
            return error;
        }
        /* A member that has not met the others cannot know whether they still write to its part. */
        if (met != 0)
            window->block = NULL;
        code = met != 0 ? met : completed;
    }
    window->has_met = true;
    /* What was put to a lost process, which need not be a member, an epoch that has failed half-way
     * and a message of the meeting that failed are errors of this member alone: the others come, or
     * have come, to the rest, which frees the communicator with it. Its handler is called while
     * there is a window. */
    int told = done(window, "MPI_Win_free", code);
    /* The callbacks of the program's attributes find the window as it was; after one that fails it
     * stays. */
    int error = REAL(MPI_Win_free)(win);
    if (error != MPI_SUCCESS)
        return error;
    forget(window);
    if (farside_mpi_window_free(window->core) != 0)
        say("MPI_Win_free: %s", farside_mpi_error_text());
    if (window->team != NULL)
        farside_mpi_team_free(window->team);
    if (window->block != NULL)
        farside_mpi_give(window->block);
    communicator_release(window->communicator);
    PMPI_Info_free(&window->info);
    free(window->near);
    free(window->parts);
    free(window);
    return told;
}

static int shared_query(struct window *window, int rank, MPI_Aint *size, int *disp_unit,
                        void *baseptr)
{
    MPI_Win win = window->real;
    if (!window->is_shared)
        return fail_window(win, MPI_ERR_RMA_FLAVOR, "MPI_Win_shared_query",
                           "the window was not made by MPI_Win_allocate_shared");
    int members = window->communicator->size;
    if (rank == MPI_PROC_NULL) {
        /* The first member that has some memory. */
        for (rank = 0; rank < members - 1 && window->parts[rank].bytes == 0;)
            rank++;
        if (window->parts[rank].bytes == 0) {
            *size = 0;
            *disp_unit = 1;
            *(void **)baseptr = NULL;
            return MPI_SUCCESS;
        }
    }
    if (rank < 0 || rank >= members)
        return fail_window(win, MPI_ERR_RANK, "MPI_Win_shared_query", "there is no such member");
    const struct farside_mpi_part *part = &window->parts[rank];
    *size = (MPI_Aint)part->bytes;
    *disp_unit = (int)part->unit;
    /* Without a block of its own, an empty part is nowhere. */
    *(void **)baseptr = part->bytes == 0 && part->owner == part->rank ? NULL
        : farside_mpi_address((int)part->owner, part->start);
    return MPI_SUCCESS;
}

/* Each call in the form with an int as the unit, and in that with a larger one where the MPI has
 * it. */
#define WINDOWS(suffix, unit_t) \
    API int MPI_Win_allocate##suffix(MPI_Aint size, unit_t unit, MPI_Info info, MPI_Comm comm, \
                                     void *baseptr, MPI_Win *win) \
    { \
        struct offer offer; \
        if (!begin(&offer, "MPI_Win_allocate", comm, info, MPI_WIN_FLAVOR_ALLOCATE)) \
            return REAL(MPI_Win_allocate##suffix)(size, unit, info, comm, baseptr, win); \
        return allocate(&offer, size, unit, baseptr, win); \
    } \
    API int MPI_Win_allocate_shared##suffix(MPI_Aint size, unit_t unit, MPI_Info info, \
                                            MPI_Comm comm, void *baseptr, MPI_Win *win) \
    { \
        struct offer offer; \
        if (!begin(&offer, "MPI_Win_allocate_shared", comm, info, MPI_WIN_FLAVOR_SHARED)) \
            return REAL(MPI_Win_allocate_shared##suffix)(size, unit, info, comm, baseptr, win); \
        return allocate_shared(&offer, size, unit, baseptr, win); \
    } \
    API int MPI_Win_create##suffix(void *base, MPI_Aint size, unit_t unit, MPI_Info info, \
                                   MPI_Comm comm, MPI_Win *win) \
    { \
        struct offer offer; \
        if (!begin(&offer, "MPI_Win_create", comm, info, MPI_WIN_FLAVOR_CREATE)) \
            return REAL(MPI_Win_create##suffix)(base, size, unit, info, comm, win); \
        return create(&offer, base, size, unit, win); \
    } \
    API int MPI_Win_shared_query##suffix(MPI_Win win, int rank, MPI_Aint *size, unit_t *unit, \
                                         void *baseptr) \
    { \
        struct window *window = window_of(win); \
        int unit_of_part = 0; \
        if (window == NULL) \
            return REAL(MPI_Win_shared_query##suffix)(win, rank, size, unit, baseptr); \
        int error = shared_query(window, rank, size, &unit_of_part, baseptr); \
        if (error == MPI_SUCCESS) \
            *unit = unit_of_part; \
        return error; \
    }

WINDOWS(, int)
#if MPI_VERSION >= 4
WINDOWS(_c, MPI_Aint)
#endif

API int MPI_Win_get_group(MPI_Win win, MPI_Group *group)
{
    struct window *window = window_of(win);
    if (window == NULL)
        return REAL(MPI_Win_get_group)(win, group);
    return PMPI_Comm_group(window->communicator->own, group);
}

API int MPI_Win_get_attr(MPI_Win win, int keyval, void *value, int *flag)
{
    struct window *window = window_of(win);
    void *found = NULL;
    if (window == NULL)
        return REAL(MPI_Win_get_attr)(win, keyval, value, flag);
    if (keyval == MPI_WIN_BASE)
        found = window->base;
    else if (keyval == MPI_WIN_SIZE)
        found = &window->size;
    else if (keyval == MPI_WIN_DISP_UNIT)
        found = &window->unit;
    else if (keyval == MPI_WIN_CREATE_FLAVOR)
        found = &window->flavor;
    else if (keyval == MPI_WIN_MODEL)
        found = &window->model;
    else
        return REAL(MPI_Win_get_attr)(win, keyval, value, flag);
    *(void **)value = found;
    *flag = 1;
    return MPI_SUCCESS;
}

/* Fortran's calls of Open MPI, and tools, use these names. */
ALSO(MPI_Win_allocate)
ALSO(MPI_Win_allocate_shared)
ALSO(MPI_Win_attach)
ALSO(MPI_Win_create)
ALSO(MPI_Win_create_dynamic)
ALSO(MPI_Win_detach)
ALSO(MPI_Win_free)
ALSO(MPI_Win_get_attr)
ALSO(MPI_Win_get_group)
ALSO(MPI_Win_shared_query)
#if MPI_VERSION >= 4
ALSO(MPI_Win_allocate_c)
ALSO(MPI_Win_allocate_shared_c)
ALSO(MPI_Win_create_c)
ALSO(MPI_Win_shared_query_c)
#endif
