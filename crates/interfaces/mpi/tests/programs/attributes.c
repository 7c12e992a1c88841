/* What a window says of itself: attributes, names, groups, hints, handlers. */
#include "case.h"

static void check_predefined(MPI_Win win, const void *base, MPI_Aint size, int unit, int flavor)
{
    void *value;
    int flag;
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag));
    EQ(flag, 1);
    CHECK(value == base);
    OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag));
    if (EQ(flag, 1))
        EQ(*(MPI_Aint *)value, size);
    OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag));
    if (EQ(flag, 1))
        EQ(*(int *)value, unit);
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag));
    if (EQ(flag, 1))
        EQ(*(int *)value, flavor);
    OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag));
    if (EQ(flag, 1))
        CHECK(*(int *)value == MPI_WIN_UNIFIED || *(int *)value == MPI_WIN_SEPARATE);
}

static void attributes_of_allocated(void)
{
    void *base;
    MPI_Win win;
    OK(MPI_Win_allocate(80 + 8 * me, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    check_predefined(win, base, 80 + 8 * me, 8, MPI_WIN_FLAVOR_ALLOCATE);
    OK(MPI_Win_free(&win));
}

static void attributes_of_created(void)
{
    int memory[20];
    MPI_Win win;
    OK(MPI_Win_create(memory, sizeof memory, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    check_predefined(win, memory, sizeof memory, 4, MPI_WIN_FLAVOR_CREATE);
    OK(MPI_Win_free(&win));
}

static void attributes_of_shared(void)
{
    void *base;
    MPI_Win win;
    MPI_Comm near = node_comm();
    OK(MPI_Win_allocate_shared(64, 2, MPI_INFO_NULL, near, &base, &win));
    check_predefined(win, base, 64, 2, MPI_WIN_FLAVOR_SHARED);
    OK(MPI_Win_free(&win));
    MPI_Comm_free(&near);
}

/* MPI 3.1 section 11.2.6: the base is MPI_BOTTOM and the size 0. */
static void attributes_of_dynamic(void)
{
    MPI_Win win;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    check_predefined(win, MPI_BOTTOM, 0, 1, MPI_WIN_FLAVOR_DYNAMIC);
    OK(MPI_Win_free(&win));
}

static int deleted;

static int count_deletion(MPI_Win win, int key, void *value, void *extra)
{
    (void)win, (void)key, (void)extra;
    deleted += *(int *)value;
    return MPI_SUCCESS;
}

/* Attributes of the program's own: set, found, deleted, and deleted with the window. */
static void attributes_of_the_program(void)
{
    int *base, key, one = 1, ten = 10, flag;
    void *value;
    MPI_Win win = make_ints(1, &base), other = make_ints(1, &base);
    deleted = 0;
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, count_deletion, &key, NULL));
    OK(MPI_Win_get_attr(win, key, &value, &flag));
    EQ(flag, 0);
    OK(MPI_Win_set_attr(win, key, &one));
    OK(MPI_Win_set_attr(other, key, &ten));
    OK(MPI_Win_get_attr(win, key, &value, &flag));
    EQ(flag, 1);
    CHECK(value == &one);
    OK(MPI_Win_get_attr(other, key, &value, &flag));
    CHECK(flag && value == &ten);
    OK(MPI_Win_delete_attr(win, key));
    EQ(deleted, 1);
    OK(MPI_Win_get_attr(win, key, &value, &flag));
    EQ(flag, 0);
    OK(MPI_Win_free(&win));
    EQ(deleted, 1);
    OK(MPI_Win_free(&other));
    EQ(deleted, 11);
    OK(MPI_Win_free_keyval(&key));
    EQ(key, MPI_KEYVAL_INVALID);
}

static void names(void)
{
    int *base, length;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Win win = make_ints(1, &base), other = make_ints(1, &base);
    OK(MPI_Win_set_name(win, "first"));
    OK(MPI_Win_set_name(other, "second"));
    OK(MPI_Win_get_name(win, name, &length));
    EQ(length, 5);
    EQ(strcmp(name, "first"), 0);
    OK(MPI_Win_get_name(other, name, &length));
    EQ(strcmp(name, "second"), 0);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_free(&other));
}

static void groups(void)
{
    int *base, result, size, rank;
    MPI_Group group, world;
    MPI_Comm reversed;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Win win = make_ints(1, &base);
    OK(MPI_Win_get_group(win, &group));
    OK(MPI_Group_compare(group, world, &result));
    EQ(result, MPI_IDENT);
    MPI_Group_free(&group);
    OK(MPI_Win_free(&win));
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &reversed);
    OK(MPI_Win_allocate(64, 1, MPI_INFO_NULL, reversed, &base, &win));
    OK(MPI_Win_get_group(win, &group));
    MPI_Group_size(group, &size);
    MPI_Group_rank(group, &rank);
    EQ(size, (ranks + 1 - me % 2) / 2);
    EQ(rank, size - 1 - me / 2);
    for (int i = 0, there; i < size; i++) {
        MPI_Group_translate_ranks(group, 1, &i, world, &there);
        EQ(there, (size - 1 - i) * 2 + me % 2);
    }
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    OK(MPI_Win_free(&win));
    MPI_Comm_free(&reversed);
}

/* Windows work with every hint that MPI knows, and with one that it does not. */
static void hints_are_accepted(void)
{
    static const char *const hints[][2] = {
        { "no_locks", "false" }, { "accumulate_ordering", "none" },
        { "accumulate_ordering", "rar,war" }, { "accumulate_ops", "same_op" },
        { "accumulate_ops", "same_op_no_op" }, { "same_size", "true" },
        { "same_disp_unit", "true" }, { "no_such_hint", "no such value" },
    };
    for (int i = 0; i < COUNT(hints); i++) {
        int *base;
        MPI_Info info;
        MPI_Win win;
        MPI_Info_create(&info);
        MPI_Info_set(info, hints[i][0], hints[i][1]);
        OK(MPI_Win_allocate(64, sizeof(int), info, MPI_COMM_WORLD, &base, &win));
        check_ring(win, MPI_COMM_WORLD, base, 8, 0);
        MPI_Info_free(&info);
        OK(MPI_Win_free(&win));
    }
}

static void window_without_locks(void)
{
    int *base, value = me + 1;
    MPI_Info info;
    MPI_Win win;
    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "true");
    OK(MPI_Win_allocate(64, sizeof(int), info, MPI_COMM_WORLD, &base, &win));
    MPI_Info_free(&info);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_INT, right(), 3, 1, MPI_INT, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    EQ(base[3], left() + 1);
    OK(MPI_Win_free(&win));
}

/* A hint of a window; not every MPI tells of each, but the library does. */
static void check_hint(MPI_Win win, const char *key, const char *expected)
{
    char value[MPI_MAX_INFO_VAL + 1] = "";
    const char *preloaded = getenv("LD_PRELOAD");
    int found = 0;
    MPI_Info info;
    OK(MPI_Win_get_info(win, &info));
    OK(MPI_Info_get(info, (char *)key, MPI_MAX_INFO_VAL, value, &found));
    if (preloaded != NULL && strstr(preloaded, "libfarside") != NULL)
        CHECK(found && strcmp(value, expected) == 0);
    MPI_Info_free(&info);
}

/* What MPI_Win_get_info returns is the caller's own, and has what was set. */
static void hints_are_told(void)
{
    int *base, keys = 0;
    MPI_Info info;
    MPI_Win win = make_ints(1, &base);
    OK(MPI_Win_get_info(win, &info));
    CHECK(info != MPI_INFO_NULL);
    OK(MPI_Info_get_nkeys(info, &keys));
    CHECK(keys >= 0);
    MPI_Info_free(&info);
    MPI_Info_create(&info);
    MPI_Info_set(info, "accumulate_ordering", "none");
    check_hint(win, "accumulate_ordering", "rar,raw,war,waw");
    OK(MPI_Win_set_info(win, info));
    MPI_Info_free(&info);
    check_hint(win, "accumulate_ordering", "none");
    check_hint(win, "same_size", "false");
    OK(MPI_Win_free(&win));
}

static int handled;

static void count_error(MPI_Win *win, int *code, ...)
{
    (void)win;
    handled += *code != MPI_SUCCESS;
}

static void error_handlers(void)
{
    int *base;
    MPI_Errhandler handler, found;
    MPI_Win win = make_ints(1, &base);
    OK(MPI_Win_get_errhandler(win, &found));
    CHECK(found == MPI_ERRORS_ARE_FATAL);
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_get_errhandler(win, &found));
    CHECK(found == MPI_ERRORS_RETURN);
    OK(MPI_Win_create_errhandler(count_error, &handler));
    OK(MPI_Win_set_errhandler(win, handler));
    handled = 0;
    OK(MPI_Win_call_errhandler(win, MPI_ERR_OTHER));
    EQ(handled, 1);
    OK(MPI_Win_get_errhandler(win, &found));
    CHECK(found == handler);
    OK(MPI_Errhandler_free(&found));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Win_free(&win));
}

/* Handles go through Fortran's integers and back. */
static void handles_of_fortran(void)
{
    int *base, value = me + 1;
    MPI_Win win = make_ints(1, &base);
    MPI_Fint number = MPI_Win_c2f(win);
    MPI_Win again = MPI_Win_f2c(number);
    CHECK(again == win);
    OK(MPI_Win_fence(0, again));
    OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, again));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    EQ(base[0], left() + 1);
    OK(MPI_Win_free(&win));
}

/* Memory that goes when MPI ends, by the callback of an attribute of MPI_COMM_SELF, and some that
 * never does. */
static unsigned char *kept;

static int free_late(MPI_Comm comm, int key, void *value, void *state)
{
    (void)comm, (void)key, (void)state;
    memset(value, 1, 100);
    return MPI_Free_mem(value);
}

static void read_kept(void)
{
    if (kept[99] != 7)
        _exit(4);
}

static void memory_at_the_end(void)
{
    int key;
    void *late;
    OK(MPI_Alloc_mem(100, MPI_INFO_NULL, &late));
    OK(MPI_Alloc_mem(100, MPI_INFO_NULL, &kept));
    memset(kept, 7, 100);
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_late, &key, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, late));
    EQ(atexit(read_kept), 0);
}

/* A window is whole when it is handed to the callbacks of its attributes. */
static int look_at_window(MPI_Win win, int key, void *value, void *extra)
{
    int *base = NULL, flag;
    MPI_Aint *size = NULL;
    (void)key, (void)extra;
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
    OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag));
    if (CHECK(base != NULL && size != NULL)) {
        EQ(base[0], 7 + me);
        EQ(*size, 4 << 20);
    }
    ++*(int *)value;
    return MPI_SUCCESS;
}

static void windows_in_callbacks(void)
{
    int *base, key, calls = 0;
    MPI_Win win;
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, look_at_window, &key, NULL));
    OK(MPI_Win_allocate(4 << 20, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    base[0] = 7 + me;
    OK(MPI_Win_set_attr(win, key, &calls));
    OK(MPI_Win_free(&win));
    EQ(calls, 1);
    CHECK(win == MPI_WIN_NULL);
    OK(MPI_Win_free_keyval(&key));
}

#ifndef OPEN_MPI
static int fail_once(MPI_Win win, int key, void *value, void *extra)
{
    (void)win, (void)key, (void)extra;
    return ++*(int *)value == 1 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

/* A callback that fails keeps its window from being freed; Open MPI does not look. */
static void failing_callbacks(void)
{
    int *base, key, calls = 0, value = 5;
    MPI_Win win = make_ints(1, &base);
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, fail_once, &key, NULL));
    OK(MPI_Win_set_attr(win, key, &calls));
    if (CHECK(MPI_Win_free(&win) != MPI_SUCCESS) && CHECK(win != MPI_WIN_NULL)) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win));
        OK(MPI_Put(&value, 1, MPI_INT, me, 0, 1, MPI_INT, win));
        OK(MPI_Win_unlock(me, win));
        EQ(base[0], 5);
        OK(MPI_Win_free(&win));
    }
    CHECK(calls >= 1);
    OK(MPI_Win_free_keyval(&key));
}
#endif

/* A window that goes when MPI ends, by the callback of an attribute of MPI_COMM_SELF. */
static MPI_Win late_window;

static int free_window(MPI_Comm comm, int key, void *value, void *state)
{
    int got = 0, *base = value;
    (void)comm, (void)key, (void)state;
    if (MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, late_window) != MPI_SUCCESS
        || MPI_Get(&got, 1, MPI_INT, right(), 0, 1, MPI_INT, late_window) != MPI_SUCCESS
        || MPI_Win_unlock(right(), late_window) != MPI_SUCCESS || got != right() + 3
        || base[0] != me + 3)
        _exit(5);
    return MPI_Win_free(&late_window);
}

static void window_at_the_end(void)
{
    int key, *base;
    late_window = make_ints(1, &base);
    base[0] = me + 3;
    settle(late_window);
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_window, &key, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, base));
}

static const struct test cases[] = {
    CASE(attributes_of_allocated), CASE(attributes_of_created), CASE(attributes_of_shared),
    CASE(attributes_of_dynamic), CASE(attributes_of_the_program), CASE(names), CASE(groups),
    CASE(hints_are_accepted), CASE(window_without_locks), CASE(hints_are_told),
    CASE(error_handlers), CASE(handles_of_fortran), CASE(memory_at_the_end),
    CASE(windows_in_callbacks), CASE(window_at_the_end),
#ifndef OPEN_MPI
    CASE(failing_callbacks),
#endif
};

MAIN(cases)
