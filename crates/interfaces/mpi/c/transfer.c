/* Puts, gets and accumulates. */
#include "border.h"

typedef long long count_t;

/* A call, with what it was given. */
struct call {
    const char *name;
    struct window *window;
};

static int fail(const struct call *call, int class, const char *text)
{
    return fail_window(call->window->real, class, call->name, text);
}

/* Flattens a type, which must be committed to be used. */
static const struct farside_mpi_type *find_type(const struct call *call, MPI_Datatype type,
                                                bool numbers, int *error)
{
    const struct farside_mpi_type *found = numbers ? numbers_of(type, error)
                                                   : type_of(type, error);
    if (found == NULL)
        *error = fail(call, MPI_ERR_TYPE, "no datatype, or one of an unknown kind");
    return found;
}

static int check_counts(const struct call *call, count_t origin, count_t target)
{
    if (origin < 0 || target < 0)
        return fail(call, MPI_ERR_COUNT, "a count is negative");
    return MPI_SUCCESS;
}

static int check_target(const struct call *call, int rank, MPI_Aint disp)
{
    if (rank < 0 || rank >= call->window->communicator->size)
        return fail(call, MPI_ERR_RANK, "there is no such target");
    if (disp < 0 && call->window->flavor != MPI_WIN_FLAVOR_DYNAMIC)
        return fail(call, MPI_ERR_DISP, "the displacement is negative");
    return MPI_SUCCESS;
}

/* A member's part if it is near and the type is the one that was used last and has no gaps, and
 * which bytes of it are meant: the shortest way. */
static inline const void *find_near(const struct window *window, count_t count, MPI_Datatype type,
                                    int rank, MPI_Aint disp, uint64_t *offset, uint64_t *bytes)
{
    const struct type_entry *last = last_type;
    int64_t at;
    const struct farside_mpi_near *near = near_of(window, rank);
    if (near == NULL || last == NULL || last->type != type || !last->exact.is_flat || count < 0
        || __builtin_mul_overflow(disp, near->unit, &at))
        return NULL;
    /* What is negative is beyond the end. */
    *offset = (uint64_t)at;
    *bytes = total(&last->exact, (uint64_t)count);
    return near->part;
}

/* Combines numbers of one piece with near memory, by the shortest way; false if that cannot be, and
 * nothing is done. */
static inline bool combine_near(const struct window *window, const void *origin, void *result,
                                count_t count, MPI_Datatype type, int rank, MPI_Aint disp,
                                MPI_Op op)
{
    const struct type_entry *last = last_type;
    if (near_of(window, rank) == NULL || last == NULL || last->type != type
        || !last->numbers.is_flat || count < 0)
        return false;
    uint64_t bytes = total(&last->numbers, (uint64_t)count);
    if (bytes > INT64_MAX)
        return false;
    struct farside_mpi_combination combination = { last->numbers.number, operation_of(op), fold };
    if (farside_mpi_accumulate_near(window->core, &combination, origin, result, bytes, rank, disp)
        != 0)
        return false;
    count_operation(bytes);
    return true;
}

/* The end of a call, which counts if it has done what it should. */
static inline int counted(struct window *window, const char *name, int code, uint64_t bytes)
{
    if (code == 0)
        count_operation(bytes);
    return done(window, name, code);
}

/* A get that is waited for is over when the call returns. */
enum way { PUT, GET, GET_NOW };

static int move(enum way way, const char *name, struct window *window, const void *origin,
                count_t origin_count, MPI_Datatype origin_type, int rank, MPI_Aint disp,
                count_t target_count, MPI_Datatype target_type)
{
    struct call call = { name, window };
    int error = check_counts(&call, origin_count, target_count);
    if (error != MPI_SUCCESS || rank == MPI_PROC_NULL)
        return error;
    error = check_target(&call, rank, disp);
    if (error != MPI_SUCCESS)
        return error;
    const struct farside_mpi_type *here = find_type(&call, origin_type, false, &error);
    if (here == NULL)
        return error;
    const struct farside_mpi_type *there = here;
    if (target_type != origin_type)
        there = find_type(&call, target_type, false, &error);
    if (there == NULL)
        return error;
    struct farside_mpi_buffer buffer = { (void *)origin, here, (uint64_t)origin_count };
    struct farside_mpi_at at = { rank, disp, there, (uint64_t)target_count };
    uint64_t sent = way == PUT ? total(here, buffer.count) : total(there, at.count);
    uint64_t room = way == PUT ? total(there, at.count) : total(here, buffer.count);
    if (sent > room)
        return fail(&call, MPI_ERR_TRUNCATE, "more bytes are sent than the receiver has room for");
    int code = way == PUT ? farside_mpi_put(window->core, &buffer, &at)
                          : farside_mpi_get(window->core, &buffer, &at, way == GET);
    return counted(window, name, code, sent);
}

static int combine(const char *name, struct window *window, const void *origin,
                   count_t origin_count, MPI_Datatype origin_type, void *result,
                   count_t result_count, MPI_Datatype result_type, int rank, MPI_Aint disp,
                   count_t target_count, MPI_Datatype target_type, MPI_Op op, bool fetches)
{
    struct call call = { name, window };
    int error = check_counts(&call, op == MPI_NO_OP ? 0 : origin_count, target_count);
    if (error != MPI_SUCCESS || rank == MPI_PROC_NULL)
        return error;
    error = check_target(&call, rank, disp);
    if (error != MPI_SUCCESS)
        return error;
    uint32_t operation = operation_of(op);
    if (operation == NO_OPERATION)
        return fail(&call, MPI_ERR_OP, "the operation is not a predefined one");
    const struct farside_mpi_type *there = find_type(&call, target_type, true, &error);
    if (there == NULL)
        return error;
    const struct farside_mpi_type *here = there;
    if (operation != NOTHING && origin_type != target_type
        && (here = find_type(&call, origin_type, true, &error)) == NULL)
        return error;
    const struct farside_mpi_type *back = there;
    if (fetches && result_type != target_type
        && (back = find_type(&call, result_type, true, &error)) == NULL)
        return error;
    if (total(there, (uint64_t)target_count) == 0)
        return MPI_SUCCESS;
    if (!is_defined(operation, there->number))
        return fail(&call, MPI_ERR_OP, "the operation is not defined for the datatype");
    struct farside_mpi_buffer from = { (void *)origin, here,
                                       operation == NOTHING ? 0 : (uint64_t)origin_count };
    struct farside_mpi_buffer into = { result, back, (uint64_t)result_count };
    struct farside_mpi_at at = { rank, disp, there, (uint64_t)target_count };
    struct farside_mpi_combination combination = { there->number, operation, fold };
    uint64_t bytes = total(there, at.count);
    uint64_t sent = operation == NOTHING ? bytes : total(here, from.count);
    if (sent > bytes)
        return fail(&call, MPI_ERR_TRUNCATE, "more bytes are sent than the receiver has room for");
    if (fetches && (sent != bytes || total(back, into.count) < bytes))
        return fail(&call, MPI_ERR_TRUNCATE, "origin, result and target have different lengths");
    int code = farside_mpi_accumulate(window->core, &from, fetches ? &into : NULL, &at,
                                      &combination);
    return counted(window, name, code, bytes);
}

/* A request that is complete: what it stands for was done by the call itself. */
static int query(void *state, MPI_Status *status)
{
    (void)state;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int release(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

static int complete_request(int error, MPI_Request *request)
{
    if (error != MPI_SUCCESS)
        return error;
    error = PMPI_Grequest_start(query, release, cancel, NULL, request);
    return error == MPI_SUCCESS ? PMPI_Grequest_complete(*request) : error;
}

/* Each call in the form with int counts, and in that with large ones where the MPI has it. */
#define TRANSFERS(suffix, count) \
    API int MPI_Put##suffix(const void *origin, count origin_count, MPI_Datatype origin_type, \
                            int rank, MPI_Aint disp, count target_count, \
                            MPI_Datatype target_type, MPI_Win win) \
    { \
        struct window *window = window_of(win); \
        if (window == NULL) \
            return REAL(MPI_Put##suffix)(origin, origin_count, origin_type, rank, disp, \
                                    target_count, target_type, win); \
        uint64_t at, bytes; \
        const void *near = origin_type != target_type || origin_count != target_count ? NULL \
                           : find_near(window, origin_count, origin_type, rank, disp, &at, \
                                       &bytes); \
        if (near != NULL && farside_mpi_put_near(near, at, origin, bytes) == 0) { \
            count_operation(bytes); \
            return MPI_SUCCESS; \
        } \
        return move(PUT, "MPI_Put", window, origin, origin_count, origin_type, rank, disp, \
                    target_count, target_type); \
    } \
    API int MPI_Get##suffix(void *origin, count origin_count, MPI_Datatype origin_type, int rank, \
                            MPI_Aint disp, count target_count, MPI_Datatype target_type, \
                            MPI_Win win) \
    { \
        struct window *window = window_of(win); \
        if (window == NULL) \
            return REAL(MPI_Get##suffix)(origin, origin_count, origin_type, rank, disp, \
                                    target_count, target_type, win); \
        uint64_t at, bytes; \
        const void *near = origin_type != target_type || origin_count != target_count ? NULL \
                           : find_near(window, origin_count, origin_type, rank, disp, &at, \
                                       &bytes); \
        if (near != NULL && farside_mpi_get_near(near, at, origin, bytes) == 0) { \
            count_operation(bytes); \
            return MPI_SUCCESS; \
        } \
        return move(GET, "MPI_Get", window, origin, origin_count, origin_type, rank, disp, \
                    target_count, target_type); \
    } \
    API int MPI_Rput##suffix(const void *origin, count origin_count, MPI_Datatype origin_type, \
                             int rank, MPI_Aint disp, count target_count, \
                             MPI_Datatype target_type, MPI_Win win, MPI_Request *request) \
    { \
        struct window *window = window_of(win); \
        if (window == NULL) \
            return REAL(MPI_Rput##suffix)(origin, origin_count, origin_type, rank, disp, \
                                    target_count, target_type, win, request); \
        return complete_request(move(PUT, "MPI_Rput", window, origin, origin_count, origin_type, \
                                     rank, disp, target_count, target_type), request); \
    } \
    API int MPI_Rget##suffix(void *origin, count origin_count, MPI_Datatype origin_type, \
                             int rank, MPI_Aint disp, count target_count, \
                             MPI_Datatype target_type, MPI_Win win, MPI_Request *request) \
    { \
        struct window *window = window_of(win); \
        if (window == NULL) \
            return REAL(MPI_Rget##suffix)(origin, origin_count, origin_type, rank, disp, \
                                    target_count, target_type, win, request); \
        return complete_request(move(GET_NOW, "MPI_Rget", window, origin, origin_count, \
                                     origin_type, rank, disp, target_count, target_type), \
                                request); \
    } \
    API int MPI_Accumulate##suffix(const void *origin, count origin_count, \
                                   MPI_Datatype origin_type, int rank, MPI_Aint disp, \
                                   count target_count, MPI_Datatype target_type, MPI_Op op, \
                                   MPI_Win win) \
    { \
        struct window *window = window_of(win); \
        if (window == NULL) \
            return REAL(MPI_Accumulate##suffix)(origin, origin_count, origin_type, rank, disp, \
                                           target_count, target_type, op, win); \
        if (origin_type == target_type && origin_count == target_count \
            && combine_near(window, origin, NULL, target_count, target_type, rank, disp, op)) \
            return MPI_SUCCESS; \
        return combine("MPI_Accumulate", window, origin, origin_count, origin_type, NULL, 0, \
                       MPI_BYTE, rank, disp, target_count, target_type, op, false); \
    } \
    API int MPI_Raccumulate##suffix(const void *origin, count origin_count, \
                                    MPI_Datatype origin_type, int rank, MPI_Aint disp, \
                                    count target_count, MPI_Datatype target_type, MPI_Op op, \
                                    MPI_Win win, MPI_Request *request) \
    { \
        struct window *window = window_of(win); \
        if (window == NULL) \
            return REAL(MPI_Raccumulate##suffix)(origin, origin_count, origin_type, rank, disp, \
                                            target_count, target_type, op, win, request); \
        return complete_request( \
            combine("MPI_Raccumulate", window, origin, origin_count, origin_type, NULL, 0, \
                    MPI_BYTE, rank, disp, target_count, target_type, op, false), request); \
    } \
    API int MPI_Get_accumulate##suffix(const void *origin, count origin_count, \
                                       MPI_Datatype origin_type, void *result, \
                                       count result_count, MPI_Datatype result_type, int rank, \
                                       MPI_Aint disp, count target_count, \
                                       MPI_Datatype target_type, MPI_Op op, MPI_Win win) \
    { \
        struct window *window = window_of(win); \
        if (window == NULL) \
            return REAL(MPI_Get_accumulate##suffix)(origin, origin_count, origin_type, result, \
                                               result_count, result_type, rank, disp, \
                                               target_count, target_type, op, win); \
        if (origin_type == target_type && origin_count == target_count \
            && result_type == target_type && result_count == target_count \
            && combine_near(window, origin, result, target_count, target_type, rank, disp, op)) \
            return MPI_SUCCESS; \
        return combine("MPI_Get_accumulate", window, origin, origin_count, origin_type, result, \
                       result_count, result_type, rank, disp, target_count, target_type, op, \
                       true); \
    } \
    API int MPI_Rget_accumulate##suffix(const void *origin, count origin_count, \
                                        MPI_Datatype origin_type, void *result, \
                                        count result_count, MPI_Datatype result_type, int rank, \
                                        MPI_Aint disp, count target_count, \
                                        MPI_Datatype target_type, MPI_Op op, MPI_Win win, \
                                        MPI_Request *request) \
    { \
        struct window *window = window_of(win); \
        if (window == NULL) \
            return REAL(MPI_Rget_accumulate##suffix)(origin, origin_count, origin_type, result, \
                                                result_count, result_type, rank, disp, \
                                                target_count, target_type, op, win, request); \
        return complete_request( \
            combine("MPI_Rget_accumulate", window, origin, origin_count, origin_type, result, \
                    result_count, result_type, rank, disp, target_count, target_type, op, true), \
            request); \
    }

TRANSFERS(, int)
#if MPI_VERSION >= 4
TRANSFERS(_c, MPI_Count)
#endif

API int MPI_Fetch_and_op(const void *origin, void *result, MPI_Datatype type, int rank,
                         MPI_Aint disp, MPI_Op op, MPI_Win win)
{
    struct window *window = window_of(win);
    if (window == NULL)
        return REAL(MPI_Fetch_and_op)(origin, result, type, rank, disp, op, win);
    if (combine_near(window, origin, result, 1, type, rank, disp, op))
        return MPI_SUCCESS;
    return combine("MPI_Fetch_and_op", window, origin, 1, type, result, 1, type, rank, disp, 1,
                   type, op, true);
}

API int MPI_Compare_and_swap(const void *origin, const void *compare, void *result,
                             MPI_Datatype type, int rank, MPI_Aint disp, MPI_Win win)
{
    struct window *window = window_of(win);
    if (window == NULL)
        return REAL(MPI_Compare_and_swap)(origin, compare, result, type, rank, disp, win);
    struct call call = { "MPI_Compare_and_swap", window };
    if (rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    int error = check_target(&call, rank, disp);
    if (error != MPI_SUCCESS)
        return error;
    const struct farside_mpi_type *found = find_type(&call, type, false, &error);
    if (found == NULL)
        return error;
    if (found->number < I8 || found->number > U64)
        return fail(&call, MPI_ERR_TYPE, "the datatype is neither an integer nor a logical or a "
                                         "byte");
    struct farside_mpi_at at = { rank, disp, found, 1 };
    int code = farside_mpi_compare_and_swap_near(window->core, compare, origin, result,
                                                 found->size, rank, disp);
    if (code == NOT_NEAR)
        code = farside_mpi_compare_and_swap(window->core, compare, origin, result, &at);
    return counted(window, call.name, code, found->size);
}

/* Fortran's calls of Open MPI, and tools, use these names. */
ALSO(MPI_Accumulate)
ALSO(MPI_Compare_and_swap)
ALSO(MPI_Fetch_and_op)
ALSO(MPI_Get)
ALSO(MPI_Get_accumulate)
ALSO(MPI_Put)
ALSO(MPI_Raccumulate)
ALSO(MPI_Rget)
ALSO(MPI_Rget_accumulate)
ALSO(MPI_Rput)
#if MPI_VERSION >= 4
ALSO(MPI_Put_c)
ALSO(MPI_Get_c)
ALSO(MPI_Rput_c)
ALSO(MPI_Rget_c)
ALSO(MPI_Accumulate_c)
ALSO(MPI_Raccumulate_c)
ALSO(MPI_Get_accumulate_c)
ALSO(MPI_Rget_accumulate_c)
#endif
