/* Communicators over which there are windows: a private one with the same members, and a team. */
#include <stdlib.h>
#include "border.h"

static int key = MPI_KEYVAL_INVALID;
static struct communicator *all;

static int share(void *comm, uint64_t *word)
{
    struct communicator *communicator = comm;
    return PMPI_Bcast(word, 8, MPI_BYTE, 0, communicator->own);
}

static int least(void *comm, uint64_t *word)
{
    struct communicator *communicator = comm;
    return PMPI_Allreduce(MPI_IN_PLACE, word, 1, MPI_UINT64_T, MPI_MIN, communicator->own);
}

/* A communicator of the program is freed: its windows may go on. */
static int forget(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    communicator_release(value);
    return MPI_SUCCESS;
}

static int copy_not(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

/* The ranks in the world of all members; null if there are others. */
static int *world_ranks(MPI_Comm comm, int size)
{
    MPI_Group group, world;
    int *members = malloc(sizeof(int) * (size_t)size), *ranks = malloc(sizeof(int) * (size_t)size);
    for (int i = 0; i < size; i++)
        members[i] = i;
    PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, size, members, world, ranks);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    free(members);
    for (int i = 0; i < size; i++)
        if (ranks[i] == MPI_UNDEFINED) {
            free(ranks);
            return NULL;
        }
    return ranks;
}

/* A team of the members. Collective. */
int communicator_team(struct communicator *communicator, void **team)
{
    struct farside_mpi_meeting meeting = { communicator, share, least };
    return farside_mpi_team(communicator->world_ranks, (size_t)communicator->size, &meeting, team);
}

/* Null if the windows of this communicator are left to MPI. Collective when it is new. */
struct communicator *communicator_of(MPI_Comm comm)
{
    int found, is_inter;
    struct communicator *communicator;
    if (PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter)
        return NULL;
    enter();
    if (key == MPI_KEYVAL_INVALID)
        PMPI_Comm_create_keyval(copy_not, forget, &key, NULL);
    leave();
    PMPI_Comm_get_attr(comm, key, &communicator, &found);
    if (found) {
        enter();
        communicator->uses++;
        leave();
        return communicator;
    }
    communicator = calloc(1, sizeof *communicator);
    PMPI_Comm_size(comm, &communicator->size);
    PMPI_Comm_rank(comm, &communicator->rank);
    communicator->world_ranks = world_ranks(comm, communicator->size);
    if (communicator->world_ranks == NULL) {
        say("a window over processes that were not started together is left to MPI");
        free(communicator);
        return NULL;
    }
    PMPI_Comm_split(comm, 0, communicator->rank, &communicator->own);
    PMPI_Comm_set_errhandler(communicator->own, MPI_ERRORS_RETURN);
    int code = communicator_team(communicator, &communicator->team), worst;
    PMPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, communicator->own);
    if (worst != 0) {
        say("a window is left to MPI: %s", farside_mpi_error_text());
        PMPI_Comm_free(&communicator->own);
        free(communicator->world_ranks);
        free(communicator);
        return NULL;
    }
    communicator->uses = 2;     /* the attribute, and the caller */
    PMPI_Comm_set_attr(comm, key, communicator);
    enter();
    communicator->next = all;
    all = communicator;
    leave();
    return communicator;
}

static void destroy(struct communicator *communicator)
{
    if (farside_mpi_team_free(communicator->team) != 0)
        say("the team of a communicator stays: %s", farside_mpi_error_text());
    PMPI_Comm_free(&communicator->own);
    free(communicator->world_ranks);
    free(communicator);
}

/* Collective: MPI_Comm_free and MPI_Win_free are. */
void communicator_release(struct communicator *communicator)
{
    enter();
    bool is_last = --communicator->uses == 0 && is_running;
    for (struct communicator **link = &all; is_last; link = &(*link)->next)
        if (*link == communicator) {
            *link = communicator->next;
            break;
        }
    leave();
    if (is_last)
        destroy(communicator);
}

/* Frees what is left, at the end. */
void communicators_forget(void)
{
    for (struct communicator *next; all != NULL; all = next) {
        next = all->next;
        PMPI_Comm_free(&all->own);
        free(all->world_ranks);
    }
}

/* Ranks of one machine that were divided into nodes do not share memory, although MPI thinks so. */
API int MPI_Comm_split_type(MPI_Comm comm, int type, int key_of, MPI_Info info, MPI_Comm *made)
{
    MPI_Comm whole;
    int error = REAL(MPI_Comm_split_type)(comm, type, key_of, info, made);
    if (error != MPI_SUCCESS || !is_running || type != MPI_COMM_TYPE_SHARED
        || *made == MPI_COMM_NULL || getenv("FARSIDE_NODES") == NULL)
        return error;
    whole = *made;
    int rank;
    PMPI_Comm_rank(whole, &rank);
    error = PMPI_Comm_split(whole, farside_mpi_node(), rank, made);
    PMPI_Comm_free(&whole);
    return error;
}

/* Fortran's calls of Open MPI, and tools, use these names. */
ALSO(MPI_Comm_split_type)
