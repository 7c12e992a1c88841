/* Programs made from seeds. Each makes a window of some kind, runs epochs of every kind on it with
 * random datatypes, counts, places and operations, and prints a digest of everything that any rank
 * has in its window or has got. No two operations conflict, so the digest is the same with every
 * correct MPI.
 *
 * usage: generated FIRST COUNT [threads] [verbose]
 *
 * Rank 0 prints `seed N: DIGEST` for each. Every origin, a thread of a rank, has a zone of its own
 * in every part: bytes, and numbers of each kind. All origins accumulate to numbers that they have
 * in common, by operations whose order does not matter. In some epochs everybody only reads. */
#include "generated.h"

static int pick_target(struct origin *origin)
{
    return origin->targets[below(&origin->random, origin->target_count)];
}

static void flush_somehow(struct origin *origin, int target)
{
    switch (below(&origin->random, 4)) {
    case 0: OK(MPI_Win_flush(target, program.win)); break;
    case 1: OK(MPI_Win_flush_all(program.win)); break;
    default:
        OK(MPI_Win_flush_local(target, program.win));
        OK(MPI_Win_flush(target, program.win));
    }
}

/* A call, or its form with large counts where the MPI has it. */
#if MPI_VERSION >= 4
#define EITHER(is_large, call, ...) ((is_large) ? call##_c(__VA_ARGS__) : call(__VA_ARGS__))
#else
#define EITHER(is_large, call, ...) ((void)(is_large), call(__VA_ARGS__))
#endif

/* Puts and gets of bytes: each in a slot that no other operation of the epoch touches. */
static void transfer(struct origin *origin, MPI_Aint slot, MPI_Aint room)
{
    struct random *random = &origin->random;
    const struct kind *kind = &kinds[below(random, kind_count)];
    int target = pick_target(origin), most = (int)(room / kind->size / 4);
    int elements = 1 + below(random, most < 1 ? 1 : most), way = below(random, 6);
    if (origin->only_reads)
        way = way % 2 * 2 + 1;
    bool is_get = way == 1 || way == 3, has_request = origin->is_passive && way < 2;
    struct elements there = make_elements(random, kind->type, elements, room);
    /* Less is sent than there is room for; MPICH 4.0 ends if it has gaps. */
    bool is_shorter = way == 2 && elements > 1 && below(random, 4) == 0;
    elements -= is_shorter ? 1 + below(random, elements - 1) : 0;
    unsigned char *buffer;
    struct elements here = make_buffer(origin, kind->type, elements, is_get, &buffer);
    if (is_shorter) {
        release_type(&here.type, kind->type);
        here = span_of(kind->type, kind->type, elements);
        buffer = keep(origin, (size_t)here.last, false);
    }
    MPI_Aint at = displacement(target, place(random, &there, slot, room));
    note(origin, "%s %d elements of %d bytes, target %d at %ld, types span %ld to %ld, %ld to %ld",
         is_get ? "get" : "put", elements, kind->size, target, (long)at, (long)here.first,
         (long)here.last, (long)there.first, (long)there.last);
    for (MPI_Aint i = here.first; i < here.last && !is_get; i++)
        buffer[i] = (unsigned char)draw(random);
    /* Drawn apart, so that the rest of a seed's program does not depend on it. */
    struct random form = stream(program.seed, 200 + (uint64_t)origin->number,
                                (uint64_t)(slot * ROUNDS_MAX + origin->round));
    bool is_large = below(&form, 3) == 0, to_nobody = below(&form, 12) == 0;
    int to = to_nobody ? MPI_PROC_NULL : target;
    MPI_Request *request = &origin->requests[origin->request_count];
    origin->request_count += has_request;
    if (is_get && has_request) {
        OK(EITHER(is_large, MPI_Rget, buffer, here.count, here.type, to, at, there.count,
                  there.type, program.win, request));
    } else if (is_get) {
        OK(EITHER(is_large, MPI_Get, buffer, here.count, here.type, to, at, there.count,
                  there.type, program.win));
    } else if (has_request) {
        OK(EITHER(is_large, MPI_Rput, buffer, here.count, here.type, to, at, there.count,
                  there.type, program.win, request));
    } else if (way == 4) {
        OK(EITHER(is_large, MPI_Accumulate, buffer, here.count, here.type, to, at, there.count,
                  there.type, MPI_REPLACE, program.win));
    } else {
        OK(EITHER(is_large, MPI_Put, buffer, here.count, here.type, to, at, there.count,
                  there.type, program.win));
    }
    if (!is_get && !to_nobody && origin->is_passive && below(random, 3) == 0) {
        /* After a flush the same bytes may be fetched. */
        unsigned char *back;
        int size, all;
        flush_somehow(origin, target);
        MPI_Type_size(there.type, &size);
        all = there.count * size / kind->size;
        struct elements again = make_buffer(origin, kind->type, all, true, &back);
        OK(MPI_Get(back, again.count, again.type, target, at, there.count, there.type,
                   program.win));
        release_type(&again.type, kind->type);
    }
    release_type(&here.type, kind->type);
    release_type(&there.type, kind->type);
}

/* Small numbers, whose sums are exact in every kind. */
static void set_number(const struct kind *kind, void *at, int value)
{
    if (kind->is_float && kind->size == 8)
        *(double *)at = value;
    else if (kind->is_float)
        *(float *)at = (float)value;
    else
        memcpy(at, &(long long){ value }, (size_t)kind->size);
}

static MPI_Op pick_operation(struct random *random, const struct kind *kind, bool commutes)
{
    static MPI_Op all[12];
    const MPI_Op these[] = { MPI_SUM, MPI_MAX, MPI_MIN, MPI_BXOR, MPI_BOR, MPI_BAND, MPI_LAND,
                             MPI_LOR, MPI_LXOR, MPI_PROD, MPI_REPLACE, MPI_NO_OP };
    memcpy(all, these, sizeof all);
    if (commutes)
        return all[below(random, kind->is_float ? 3 : 6)];
    int any = below(random, 12);
    return all[kind->is_float && any > 2 && any < 9 ? 9 : any];
}

/* One call of those that combine, with elements at a place. */
static void combine_once(struct origin *origin, const struct kind *kind, MPI_Op op, int target,
                         MPI_Aint at, const struct elements *there, int elements, bool fetches)
{
    struct random *random = &origin->random;
    unsigned char *buffer, *result = NULL;
    struct elements here = make_buffer(origin, kind->type, elements, false, &buffer), back = here;
    bool has_request = origin->is_passive && below(random, 3) == 0;
    int most = op == MPI_PROD ? 2 : 50;
    for (MPI_Aint i = here.first; i + kind->size <= here.last; i += kind->size)
        set_number(kind, buffer + i, 1 + below(random, most));
    if (fetches)
        back = make_buffer(origin, kind->type, elements, true, &result);
    MPI_Request *request = &origin->requests[origin->request_count];
    note(origin, "%s %d elements of %d bytes, target %d at %ld",
         fetches ? "get_accumulate" : "accumulate", elements, kind->size, target, (long)at);
    /* MPICH 4.0 takes none of Fortran's kinds there. */
    if (fetches && elements == 1 && there->type == kind->type && here.type == kind->type
        && back.type == kind->type && kind != &kinds[kind_count - 1] && below(random, 2)) {
        OK(MPI_Fetch_and_op(buffer, result, kind->type, target, at, op, program.win));
    } else if (fetches && has_request) {
        OK(MPI_Rget_accumulate(buffer, here.count, here.type, result, back.count, back.type,
                               target, at, there->count, there->type, op, program.win, request));
        origin->request_count++;
    } else if (fetches) {
        OK(MPI_Get_accumulate(buffer, here.count, here.type, result, back.count, back.type, target,
                              at, there->count, there->type, op, program.win));
    } else if (has_request) {
        OK(MPI_Raccumulate(buffer, here.count, here.type, target, at, there->count, there->type,
                           op, program.win, request));
        origin->request_count++;
    } else {
        OK(MPI_Accumulate(buffer, here.count, here.type, target, at, there->count, there->type,
                          op, program.win));
    }
    if (fetches)
        release_type(&back.type, kind->type);
    release_type(&here.type, kind->type);
}

/* Some calls with one operation on the same numbers, which happen in order. */
static void combine(struct origin *origin, int kind_number)
{
    struct random *random = &origin->random;
    const struct kind *kind = &kinds[kind_number];
    int target = pick_target(origin), elements = 1 + below(random, 8);
    MPI_Op op = pick_operation(random, kind, false);
    MPI_Aint room = NUMBER_BYTES, zone = numbers_in(origin->number, kind_number);
    struct elements there = make_elements(random, kind->type, elements, room);
    MPI_Aint at = displacement(target, place(random, &there, zone, room));
    for (int i = below(random, 3); i >= 0; i--) {
        bool fetches = below(random, 2) || op == MPI_NO_OP;
        MPI_Op now = fetches && below(random, 4) == 0 ? MPI_NO_OP : op;
        combine_once(origin, kind, now, target, at, &there, elements, fetches);
    }
    release_type(&there.type, kind->type);
}

static void swap(struct origin *origin, int kind_number)
{
    const struct kind *kind = &kinds[kind_number];
    int target = pick_target(origin);
    MPI_Aint zone = numbers_in(origin->number, kind_number);
    unsigned char *buffer = keep(origin, 16, false), *result = keep(origin, 8, true);
    set_number(kind, buffer, 1 + below(&origin->random, 50));
    set_number(kind, buffer + 8, 1 + below(&origin->random, 4));
    note(origin, "swap %d bytes, target %d at %ld", kind->size, target, (long)zone);
    OK(MPI_Compare_and_swap(buffer, buffer + 8, result, kind->type, target,
                            displacement(target, zone), program.win));
}

/* Everybody combines by the same operation, whose order does not matter. */
static void combine_in_common(struct origin *origin, struct random *common)
{
    int kind_number = below(common, kind_count);
    const struct kind *kind = &kinds[kind_number];
    MPI_Op op = pick_operation(common, kind, true);
    int target = pick_target(origin), elements = 1 + below(&origin->random, COMMON_COUNT);
    struct elements there = span_of(kind->type, kind->type, elements);
    note(origin, "in common, kind %d", kind_number);
    combine_once(origin, kind, op, target, displacement(target, common_of(kind_number)), &there,
                 elements, false);
}

/* The class of an error, by a number that all MPIs have in common. */
static int class_of(int code)
{
    const int classes[] = { MPI_SUCCESS, MPI_ERR_RANK, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_OP };
    int found, at = 0;
    MPI_Error_class(code, &found);
    while (at < COUNT(classes) && classes[at] != found)
        at++;
    return at;
}

/* A mistake, which has no effect but its error. */
static void err(struct origin *origin)
{
    int value = 1, code = MPI_SUCCESS, target = origin->targets[0];
    switch (below(&origin->random, 5)) {
    case 0:
        code = MPI_Put(&value, 1, MPI_INT, program.size + 3, 0, 1, MPI_INT, program.win);
        break;
    case 1:
        code = MPI_Get(&value, -1, MPI_INT, target, 0, 1, MPI_INT, program.win);
        break;
    case 2:
        code = MPI_Put(&value, 1, MPI_DATATYPE_NULL, target, 0, 1, MPI_INT, program.win);
        break;
    case 3:
        code = MPI_Accumulate(&value, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_OP_NULL, program.win);
        break;
    default:
        code = MPI_Accumulate(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM,
                              program.win);
    }
    int found = class_of(code);
    note(origin, "a mistake of class %d", found);
    origin->digest = hash(origin->digest, &found, sizeof found);
}

/* The operations of an origin in one epoch. */
static void operate(struct origin *origin)
{
    struct random *random = &origin->random, common = stream(program.seed, 7, origin->round);
    int slots = 1 + below(random, OPERATIONS);
    MPI_Aint room = program.zone_bytes / slots / ALIGN * ALIGN;
    for (int i = 0; i < slots && origin->target_count > 0; i++) {
        int owner = origin->only_reads ? below(random, program.size * THREADS) : origin->number;
        transfer(origin, zone_of(owner) + i * room, room);
        if (origin->only_reads)
            continue;
        int kind = (i + below(random, 2) * OPERATIONS) % kind_count;
        /* Each slot has its own kinds, so that no two operations of an epoch meet. */
        if (below(random, 4) == 0 && !kinds[kind].is_float)
            swap(origin, kind);
        else
            combine(origin, kind);
        if (below(random, 6) == 0)
            err(origin);
        if (origin->is_passive && below(random, 4) == 0)
            flush_somehow(origin, pick_target(origin));
    }
    if (!origin->only_reads && origin->target_count > 0)
        combine_in_common(origin, &common);
    wait_for_requests(origin);
}

static void let_all_be_targets(struct origin *origin)
{
    origin->target_count = program.size;
    for (int i = 0; i < program.size; i++)
        origin->targets[i] = i;
}

static void run_fence(struct origin *origin, struct random *common)
{
    bool is_last = below(common, 2);
    let_all_be_targets(origin);
    OK(MPI_Win_fence(below(common, 2) ? MPI_MODE_NOPRECEDE : 0, program.win));
    operate(origin);
    OK(MPI_Win_fence(is_last ? MPI_MODE_NOSUCCEED : 0, program.win));
}

/* Who has whom as a target is drawn for all pairs. */
static void run_post_and_start(struct origin *origin, struct random *common)
{
    MPI_Group all, posted, started;
    int origins[64], count = 0, test = below(common, 2), flag = 0;
    bool is_checked = below(common, 2);
    origin->target_count = 0;
    for (int from = 0; from < program.size; from++)
        for (int to = 0; to < program.size; to++) {
            bool is_pair = below(common, 3) > 0;
            if (is_pair && from == program.rank)
                origin->targets[origin->target_count++] = to;
            if (is_pair && to == program.rank)
                origins[count++] = from;
        }
    MPI_Comm_group(program.comm, &all);
    MPI_Group_incl(all, count, origins, &posted);
    MPI_Group_incl(all, origin->target_count, origin->targets, &started);
    OK(MPI_Win_post(posted, 0, program.win));
    if (!is_checked)
        MPI_Barrier(program.comm);
    OK(MPI_Win_start(started, is_checked ? 0 : MPI_MODE_NOCHECK, program.win));
    operate(origin);
    OK(MPI_Win_complete(program.win));
    while (test && !flag)
        OK(MPI_Win_test(program.win, &flag));
    if (!test)
        OK(MPI_Win_wait(program.win));
    MPI_Group_free(&all);
    MPI_Group_free(&posted);
    MPI_Group_free(&started);
}

/* Counts at a target, which only exclusive locks permit: none is lost. */
static void count_under_locks(const struct origin *origin, int target)
{
    MPI_Aint at = displacement(target, COUNTER);
    for (int i = 0; i < COUNTS && !origin->only_reads; i++) {
        long long seen = 0;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, program.win));
        OK(MPI_Get(&seen, 1, MPI_LONG_LONG, target, at, 1, MPI_LONG_LONG, program.win));
        OK(MPI_Win_flush(target, program.win));
        /* Threads are in each other's way only where they sleep for a lock. */
        if (has_threads)
            usleep(HELD_US);
        seen++;
        OK(MPI_Put(&seen, 1, MPI_LONG_LONG, target, at, 1, MPI_LONG_LONG, program.win));
        OK(MPI_Win_unlock(target, program.win));
    }
}

/* One target after the other. */
static void run_locks(struct origin *origin, int type)
{
    int first = below(&origin->random, program.size);
    origin->is_passive = true;
    for (int i = 0; i < 2 && i < program.size; i++) {
        origin->targets[0] = (first + i) % program.size;
        origin->target_count = 1;
        if (type == MPI_LOCK_EXCLUSIVE)
            count_under_locks(origin, origin->targets[0]);
        OK(MPI_Win_lock(type, origin->targets[0], 0, program.win));
        operate(origin);
        OK(MPI_Win_unlock(origin->targets[0], program.win));
        finish_epoch(origin);
    }
}

/* Several targets at a time, in a random part of them. */
static void run_many_locks(struct origin *origin)
{
    origin->is_passive = true;
    origin->target_count = 0;
    for (int i = 0; i < program.size; i++)
        if (below(&origin->random, 3) > 0)
            origin->targets[origin->target_count++] = i;
    for (int i = 0; i < origin->target_count; i++)
        OK(MPI_Win_lock(MPI_LOCK_SHARED, origin->targets[i], 0, program.win));
    operate(origin);
    for (int i = 0; i < origin->target_count; i++)
        OK(MPI_Win_unlock(origin->targets[i], program.win));
}

static void *run_thread(void *argument)
{
    operate(argument);
    return NULL;
}

/* A thread locks a target that no other one of its rank does. */
static void *run_thread_with_lock(void *argument)
{
    struct origin *origin = argument;
    int target = (program.rank + origin->number) % program.size;
    origin->targets[0] = target;
    origin->target_count = 1;
    count_under_locks(origin, target);
    OK(MPI_Win_lock(origin->only_reads ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0,
                    program.win));
    operate(origin);
    OK(MPI_Win_unlock(target, program.win));
    return NULL;
}

static void run_lock_all(struct origin *origins, struct random *common)
{
    bool locks_itself = has_threads && program.size >= THREADS && below(common, 2);
    if (!locks_itself)
        OK(MPI_Win_lock_all(below(common, 2) ? MPI_MODE_NOCHECK : 0, program.win));
    for (int i = 0; i < THREADS; i++) {
        origins[i].is_passive = true;
        let_all_be_targets(&origins[i]);
        if (has_threads)
            pthread_create(&origins[i].thread, NULL,
                           locks_itself ? run_thread_with_lock : run_thread, &origins[i]);
        else
            operate(&origins[i]);
    }
    for (int i = 0; i < THREADS && has_threads; i++)
        pthread_join(origins[i].thread, NULL);
    if (!locks_itself)
        OK(MPI_Win_unlock_all(program.win));
}

/* Stores between epochs, and what the part holds. */
static uint64_t look_and_store(struct random *random, uint64_t digest, bool stores)
{
    MPI_Barrier(program.comm);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, program.rank, 0, program.win));
    digest = hash(digest, program.part, (size_t)program.part_bytes);
    if (stores)
        for (int i = 0; i < ALIGN; i++)
            program.part[i] = (unsigned char)draw(random);
    OK(MPI_Win_unlock(program.rank, program.win));
    MPI_Barrier(program.comm);
    return digest;
}

static uint64_t run_round(int round, uint64_t digest)
{
    struct random common = stream(program.seed, 1, (uint64_t)round);
    int way = below(&common, 6);
    static struct origin origins[THREADS];
    bool only_reads = below(&common, 4) == 0;
    for (int i = 0; i < THREADS; i++) {
        int number = program.rank * THREADS + i;
        memset(&origins[i], 0, sizeof origins[i]);
        origins[i].number = number;
        origins[i].round = round;
        origins[i].only_reads = only_reads;
        origins[i].random = stream(program.seed, 100 + (uint64_t)number, (uint64_t)round);
    }
    note(origins, "epoch of way %d%s", way, only_reads ? ", only read" : "");
    switch (way) {
    case 0: run_fence(origins, &common); break;
    case 1: run_post_and_start(origins, &common); break;
    case 2: run_locks(origins, MPI_LOCK_SHARED); break;
    case 3: run_locks(origins, MPI_LOCK_EXCLUSIVE); break;
    case 4: run_many_locks(origins); break;
    default: run_lock_all(origins, &common);
    }
    for (int i = 0; i < THREADS; i++) {
        finish_epoch(&origins[i]);
        digest = hash(digest, &origins[i].digest, sizeof digest);
    }
    struct random own = stream(program.seed, 2, (uint64_t)(round * 64 + program.rank));
    digest = look_and_store(&own, digest, below(&common, 2));
    note(origins, "digest %016llx", (unsigned long long)digest);
    return digest;
}

/* The numbers of a part begin as small ones. */
static void fill_part(void)
{
    struct random random = stream(program.seed, 3, (uint64_t)program.rank);
    for (MPI_Aint i = 0; i < program.part_bytes; i++)
        program.part[i] = (unsigned char)draw(&random);
    for (int kind = 0; kind < kind_count; kind++) {
        int size = kinds[kind].size;
        for (int i = 0; i < COMMON_COUNT * 8 / size; i++)
            set_number(&kinds[kind], program.part + common_of(kind) + i * size, 1 + i % 4);
        for (int origin = 0; origin < program.size * THREADS; origin++)
            for (int i = 0; i < NUMBER_BYTES / size; i++)
                set_number(&kinds[kind], program.part + numbers_in(origin, kind) + i * size,
                           1 + (i + origin) % 4);
    }
}

/* A communicator for a window: all ranks in some order, or those of a node. */
static MPI_Comm pick_communicator(struct random *common, bool is_near)
{
    MPI_Comm comm;
    int way = below(common, 4);
    if (is_near)
        return node_comm();
    if (way == 0)
        MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &comm);
    else if (way == 1)
        MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &comm);
    else
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    return comm;
}

/* Makes the window; returns memory of the program's own that is under it, or null. */
static void *make_window(struct random *common, int flavor)
{
    static const int units[] = { 1, 2, 4, 8 };
    int unit = units[below(common, 4)];
    void *own = NULL;
    MPI_Aint base = 0, bytes = program.part_bytes;
    if (below(common, 3) == 0)
        unit = units[program.rank % 4];
    if (flavor == 0) {
        OK(MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, program.comm, &program.part,
                            &program.win));
    } else if (flavor == 1) {
        OK(MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, program.comm, &program.part,
                                   &program.win));
    } else {
        own = aligned_alloc(ALIGN, (size_t)bytes);
        program.part = own;
        if (flavor == 2)
            OK(MPI_Win_create(own, bytes, unit, MPI_INFO_NULL, program.comm, &program.win));
    }
    if (flavor == 3) {
        unit = 1;
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, program.comm, &program.win));
        OK(MPI_Win_attach(program.win, own, bytes));
        MPI_Get_address(own, &base);
    }
    program.bases = malloc(sizeof(MPI_Aint) * (size_t)program.size);
    program.units = malloc(sizeof(int) * (size_t)program.size);
    MPI_Allgather(&base, 1, MPI_AINT, program.bases, 1, MPI_AINT, program.comm);
    MPI_Allgather(&unit, 1, MPI_INT, program.units, 1, MPI_INT, program.comm);
    OK(MPI_Win_set_errhandler(program.win, MPI_ERRORS_RETURN));
    return own;
}

static uint64_t run_seed(uint64_t seed)
{
    struct random common = stream(seed, 0, 0);
    int flavor = below(&common, 4), rounds = 1 + below(&common, ROUNDS_MAX);
    program.seed = seed;
    program.comm = pick_communicator(&common, flavor == 1);
    MPI_Comm_rank(program.comm, &program.rank);
    MPI_Comm_size(program.comm, &program.size);
    program.zone_bytes = below(&common, 12) == 0 ? 40000 : 1024 << below(&common, 3);
    program.zone_bytes = program.zone_bytes / ALIGN * ALIGN;
    program.part_bytes = zone_of(program.size * THREADS);
    void *own = make_window(&common, flavor);
    fill_part();
    if (is_verbose && me == 0)
        fprintf(stderr, "window of kind %d, %ld bytes\n", flavor, (long)program.part_bytes);
    uint64_t digest = look_and_store(NULL, 0xcbf29ce484222325u, false);
    for (int round = 0; round < rounds; round++)
        digest = run_round(round, digest);
    if (flavor == 3)
        OK(MPI_Win_detach(program.win, own));
    OK(MPI_Win_free(&program.win));
    MPI_Comm_free(&program.comm);
    free(own);
    free(program.bases);
    free(program.units);
    return digest;
}

int main(int argc, char **argv)
{
    int provided;
    for (int i = 3; i < argc; i++) {
        has_threads |= strcmp(argv[i], "threads") == 0;
        is_verbose |= strcmp(argv[i], "verbose") == 0;
    }
    MPI_Init_thread(&argc, &argv, has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    find_kinds();
    signal(SIGALRM, too_late);
    uint64_t first = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
    for (uint64_t seed = first; seed < first + count; seed++) {
        alarm(LONGEST_S);
        unsigned long long mine = run_seed(seed), all[64];
        MPI_Gather(&mine, 1, MPI_UNSIGNED_LONG_LONG, all, 1, MPI_UNSIGNED_LONG_LONG, 0,
                   MPI_COMM_WORLD);
        if (me == 0) {
            printf("seed %llu: %016llx\n", (unsigned long long)seed,
                   (unsigned long long)hash(1, all, sizeof *all * (size_t)ranks));
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return failures != 0;
}
