/* Barriers, and collectives that move data: of teams, and of active sets by their old names. */

#include "border.h"

SHMEM(void, barrier_all, (void))
{
    TEAM_GROUP(SHMEM_TEAM_WORLD);
    farside_shmem_barrier(&group, CALL(barrier_all));
}

SHMEM(void, sync_all, (void))
{
    TEAM_GROUP(SHMEM_TEAM_WORLD);
    farside_shmem_sync(&group, CALL(sync_all));
}

SHMEM(int, team_sync, (shmem_team_t team))
{
    TEAM_GROUP(team);
    return farside_shmem_sync(&group, CALL(team_sync));
}

SHMEM(void, barrier, (int PE_start, int logPE_stride, int PE_size, long *pSync))
{
    ACTIVE_SET_GROUP();
    farside_shmem_barrier(&group, CALL(barrier));
}

SHMEM(void, sync, (int PE_start, int logPE_stride, int PE_size, long *pSync))
{
    ACTIVE_SET_GROUP();
    farside_shmem_sync(&group, CALL(sync));
}

/* Of a team. `bytes` is the size of an element. */

#define BROADCAST(name, type, bytes) \
    SHMEM(int, name, \
        (shmem_team_t team, type *dest, const type *source, size_t nelems, int PE_root)) \
    { \
        TEAM_GROUP(team); \
        return farside_shmem_broadcast(&group, dest, source, total(bytes, nelems), PE_root, \
            CALL(name)); \
    }

#define EXCHANGE(name, type, bytes, op) \
    SHMEM(int, name, (shmem_team_t team, type *dest, const type *source, size_t nelems)) \
    { \
        TEAM_GROUP(team); \
        return farside_shmem_##op(&group, dest, source, total(bytes, nelems), CALL(name)); \
    }

#define ALLTOALLS(name, type, bytes) \
    SHMEM(int, name, (shmem_team_t team, type *dest, const type *source, ptrdiff_t dst, \
        ptrdiff_t sst, size_t nelems)) \
    { \
        TEAM_GROUP(team); \
        return farside_shmem_alltoalls(&group, dest, source, dst, sst, nelems, bytes, CALL(name)); \
    }

#define TYPED_COLLECTIVES(name, type, base, more) \
    BROADCAST(name##_broadcast, type, sizeof(type)) \
    EXCHANGE(name##_collect, type, sizeof(type), collect) \
    EXCHANGE(name##_fcollect, type, sizeof(type), fcollect) \
    EXCHANGE(name##_alltoall, type, sizeof(type), alltoall) \
    ALLTOALLS(name##_alltoalls, type, sizeof(type))
RMA_TYPES(TYPED_COLLECTIVES, )

BROADCAST(broadcastmem, void, (size_t) 1)
EXCHANGE(collectmem, void, (size_t) 1, collect)
EXCHANGE(fcollectmem, void, (size_t) 1, fcollect)
EXCHANGE(alltoallmem, void, (size_t) 1, alltoall)
ALLTOALLS(alltoallsmem, void, 1)

/* Of an active set. */

#define OLD_BROADCAST(name, bytes) \
    SHMEM(void, name, (void *dest, const void *source, size_t nelems, int PE_root, int PE_start, \
        int logPE_stride, int PE_size, long *pSync)) \
    { \
        ACTIVE_SET_GROUP(); \
        farside_shmem_broadcast(&group, dest, source, total(bytes, nelems), PE_root, \
            CALL(name)); \
    }
OLD_BROADCAST(broadcast32, 4)
OLD_BROADCAST(broadcast64, 8)

#define OLD_EXCHANGE(name, bytes, op) \
    SHMEM(void, name, (void *dest, const void *source, size_t nelems, int PE_start, \
        int logPE_stride, int PE_size, long *pSync)) \
    { \
        ACTIVE_SET_GROUP(); \
        farside_shmem_##op(&group, dest, source, total(bytes, nelems), CALL(name)); \
    }
OLD_EXCHANGE(collect32, 4, collect)
OLD_EXCHANGE(collect64, 8, collect)
OLD_EXCHANGE(fcollect32, 4, fcollect)
OLD_EXCHANGE(fcollect64, 8, fcollect)
OLD_EXCHANGE(alltoall32, 4, alltoall)
OLD_EXCHANGE(alltoall64, 8, alltoall)

#define OLD_ALLTOALLS(name, bytes) \
    SHMEM(void, name, (void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
        size_t nelems, int PE_start, int logPE_stride, int PE_size, long *pSync)) \
    { \
        ACTIVE_SET_GROUP(); \
        farside_shmem_alltoalls(&group, dest, source, dst, sst, nelems, bytes, CALL(name)); \
    }
OLD_ALLTOALLS(alltoalls32, 4)
OLD_ALLTOALLS(alltoalls64, 8)
