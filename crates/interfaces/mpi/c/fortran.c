/* Attributes for Fortran, which has them as numbers instead of pointers to numbers: the one call
 * whose Fortran form does not go through the C one. */
#include "border.h"

#ifdef OPEN_MPI
enum { FORTRAN_KEY = 0 };
#else
enum { FORTRAN_KEY = 1 };   /* MPICH's predefined keys of Fortran are those of C and one */
#endif

/* Whether a window of this library has the attribute, and its value. */
static bool has(MPI_Win win, int keyval, MPI_Aint *value)
{
    struct window *window = window_of(win);
    int key = keyval - FORTRAN_KEY;
    if (window == NULL)
        return false;
    if (key == MPI_WIN_BASE)
        *value = (MPI_Aint)window->base;
    else if (key == MPI_WIN_SIZE)
        *value = window->size;
    else if (key == MPI_WIN_DISP_UNIT)
        *value = window->unit;
    else if (key == MPI_WIN_CREATE_FLAVOR)
        *value = window->flavor;
    else if (key == MPI_WIN_MODEL)
        *value = window->model;
    else
        return false;
    return true;
}

/* Fortran's arguments are addresses; the last one may be missing in Fortran 2008. */
#define FORTRAN(name) \
    API void name(MPI_Fint *win, MPI_Fint *keyval, MPI_Aint *value, MPI_Fint *flag, \
                  MPI_Fint *ierror) \
    { \
        static void (*real)(MPI_Fint *, MPI_Fint *, MPI_Aint *, MPI_Fint *, MPI_Fint *); \
        if (is_running && has(PMPI_Win_f2c(*win), *keyval, value)) { \
            *flag = 1; \
            if (ierror != NULL) \
                *ierror = MPI_SUCCESS; \
            return; \
        } \
        if (real == NULL) \
            *(void **)&real = find_next(#name); \
        real(win, keyval, value, flag, ierror); \
    }

FORTRAN(mpi_win_get_attr_)
FORTRAN(pmpi_win_get_attr_)
FORTRAN(mpi_win_get_attr_f08_)
