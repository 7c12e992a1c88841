/* Windows: made, asked about and freed. */
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

static void insert(struct window *window)
{
    size_t at = slot_of(window->real);
    while (table[at] != NULL)
        at = (at + 1) & (table_size - 1);
    table[at] = window;
}

/* Makes the table anew, without one window or with more room. */
static void rebuild(size_t size, const struct window *without)
{
    struct window **before = table;
    size_t count = table_size;
    table_size = size;
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
    table_count++;
    leave();
}

static void forget(struct window *window)
{
    enter();
    last_window = NULL;
    rebuild(table_size, window);
    table_count--;
    leave();
}

/* A real window of this process alone, without memory. Which kind an MPI makes for one process
 * differs, so several are tried. */
static int carrier(MPI_Win *win)
{
    static MPI_Comm self;
    static bool has_self;
    void *base;
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

static void refuse(struct offer *offer, int class, const char *text)
{
    offer->error = class;
    strncpy(offer->text, text, sizeof offer->text - 1);
}

/* Makes the window from what all members bring. Fails on all if it does on one. */
static int conclude(struct offer *offer, MPI_Win *win)
{
    struct communicator *communicator = offer->communicator;
    struct window *window = calloc(1, sizeof *window);
    struct { struct farside_mpi_part part; int error; } mine = { offer->part, offer->error }, *all;
    all = calloc((size_t)communicator->size, sizeof *all);
    window->parts = calloc((size_t)communicator->size, sizeof *window->parts);
    int error = class_of(farside_mpi_gather(communicator->team, &mine, sizeof mine, all));
    if (error != MPI_SUCCESS)
        refuse(offer, error, farside_mpi_error_text());
    for (int i = 0; i < communicator->size; i++) {
        window->parts[i] = all[i].part;
        if (all[i].error != MPI_SUCCESS)
            error = all[i].error;
    }
    free(all);
    if (error == MPI_SUCCESS) {
        int code = has_threads ? communicator_team(communicator, &window->team) : 0;
        if (code == 0)
            code = farside_mpi_window(has_threads ? window->team : communicator->team,
                                      window->parts, &window->core);
        if (code != 0) {
            error = class_of(code);
            refuse(offer, error, farside_mpi_error_text());
        }
    }
    if (error == MPI_SUCCESS) {
        window->near = calloc((size_t)communicator->size, sizeof *window->near);
        if (!farside_mpi_window_near(window->core, window->near)) {
            free(window->near);
            window->near = NULL;
        }
        error = carrier(&window->real);
        if (error != MPI_SUCCESS) {
            refuse(offer, MPI_ERR_WIN, "MPI makes no window to carry the handle");
            farside_mpi_window_free(window->core);
        }
    }
    if (error != MPI_SUCCESS) {
        if (offer->block != NULL)
            farside_mpi_give(offer->block);
        communicator_release(communicator);
        free(window->near);
        free(window->parts);
        free(window);
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

static void check_size(struct offer *offer, MPI_Aint size, int unit)
{
    offer->size = size;
    offer->unit = unit;
    offer->part.unit = (uint32_t)unit;
    offer->part.bytes = (uint64_t)size;
    if (size < 0)
        refuse(offer, MPI_ERR_SIZE, "the size of a window is negative");
    else if (unit <= 0)
        refuse(offer, MPI_ERR_DISP, "the displacement unit of a window is not positive");
}

/* Memory of the job for this member. */
static void take(struct offer *offer, uint64_t bytes)
{
    uint64_t align = bytes >= 4096 ? 4096 : 64;
    if (offer->error != MPI_SUCCESS)
        return;
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

static int allocate(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *baseptr,
                    MPI_Win *win, const char *call)
{
    struct offer offer;
    if (!begin(&offer, call, comm, info, MPI_WIN_FLAVOR_ALLOCATE))
        return REAL(MPI_Win_allocate)(size, unit, info, comm, baseptr, win);
    check_size(&offer, size, unit);
    take(&offer, (uint64_t)size);
    int error = conclude(&offer, win);
    if (error == MPI_SUCCESS)
        *(void **)baseptr = offer.base;
    return error;
}

API int MPI_Win_allocate(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void *baseptr,
                         MPI_Win *win)
{
    return allocate(size, disp_unit, info, comm, baseptr, win, "MPI_Win_allocate");
}

/* Whether loads and stores reach the memory of all members, as they must. */
static bool all_near(const struct communicator *communicator)
{
    for (int i = 0; i < communicator->size; i++)
        if (!farside_mpi_is_near(communicator->world_ranks[i]))
            return false;
    return true;
}

API int MPI_Win_allocate_shared(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm,
                                void *baseptr, MPI_Win *win)
{
    struct offer offer;
    if (!begin(&offer, "MPI_Win_allocate_shared", comm, info, MPI_WIN_FLAVOR_SHARED))
        return REAL(MPI_Win_allocate_shared)(size, disp_unit, info, comm, baseptr, win);
    struct communicator *communicator = offer.communicator;
    check_size(&offer, size, disp_unit);
    if (offer.error == MPI_SUCCESS && !all_near(communicator))
        refuse(&offer, MPI_ERR_RMA_SHARED, "members are on several nodes: split the communicator "
                                           "with MPI_COMM_TYPE_SHARED");
    if (info_is(info, "alloc_shared_noncontig", "true")) {
        take(&offer, (uint64_t)(size > 0 ? size : 0));
    } else {
        /* All parts lie one behind the other, in memory of the first member. */
        int64_t mine = offer.error == MPI_SUCCESS ? size : -1;
        int64_t *sizes = calloc((size_t)communicator->size, sizeof *sizes);
        farside_mpi_gather(communicator->team, &mine, sizeof mine, sizes);
        uint64_t total = 0, before = 0;
        for (int i = 0; i < communicator->size; i++) {
            before += i < communicator->rank && sizes[i] > 0 ? (uint64_t)sizes[i] : 0;
            total += sizes[i] > 0 ? (uint64_t)sizes[i] : 0;
        }
        if (communicator->rank == 0)
            take(&offer, total);
        mine = (int64_t)offer.part.start;
        farside_mpi_gather(communicator->team, &mine, sizeof mine, sizes);
        int owner = communicator->world_ranks[0];
        offer.part.owner = (uint32_t)owner;
        offer.part.start = (uint64_t)sizes[0] + before;
        offer.base = farside_mpi_address(owner, offer.part.start);
        free(sizes);
    }
    int error = conclude(&offer, win);
    if (error == MPI_SUCCESS)
        *(void **)baseptr = offer.base;
    return error;
}

API int MPI_Win_create(void *base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm,
                       MPI_Win *win)
{
    struct offer offer;
    if (!begin(&offer, "MPI_Win_create", comm, info, MPI_WIN_FLAVOR_CREATE))
        return REAL(MPI_Win_create)(base, size, disp_unit, info, comm, win);
    check_size(&offer, size, disp_unit);
    offer.base = base;
    bool is_of_job = size > 0 && farside_mpi_offset(base, (uint64_t)size, &offer.part.start);
    if (size != 0 && !is_of_job) {
        offer.part.kind = PART_OF_PROCESS;
        offer.part.start = (uint64_t)(uintptr_t)base;
    }
    serve_if_needed(&offer);
    return conclude(&offer, win);
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
    code = farside_mpi_window_free(window->core);
    if (code != 0) {
        /* Somebody was lost: MPI's own call would wait for it. The handle stays, and every call on
         * it fails. */
        window->core = NULL;
        free(window->near);
        window->near = NULL;
        return done(window, "MPI_Win_free", code);
    }
    forget(window);
    if (window->team != NULL)
        farside_mpi_team_free(window->team);
    if (window->block != NULL)
        farside_mpi_give(window->block);
    int error = REAL(MPI_Win_free)(win);
    communicator_release(window->communicator);
    PMPI_Info_free(&window->info);
    free(window->near);
    free(window->parts);
    free(window);
    return error;
}

API int MPI_Win_shared_query(MPI_Win win, int rank, MPI_Aint *size, int *disp_unit, void *baseptr)
{
    struct window *window = window_of(win);
    if (window == NULL)
        return REAL(MPI_Win_shared_query)(win, rank, size, disp_unit, baseptr);
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
