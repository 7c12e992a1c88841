/* MPICH polls without end while it waits. Where ranks outnumber processors, those that have
 * something to do then wait for their time slice. So a rank whose polls find nothing lets others
 * run. */
#include "border.h"

#ifndef OPEN_MPI
#include <dlfcn.h>
#include <sched.h>

/* So many polls find nothing before others are let run. */
enum { IDLE_POLLS = 32 };

bool yields;

/* The poll of UCX, which Debian's MPICH is built with. */
API unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*real)(void *);
    static __thread unsigned idle;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "ucp_worker_progress");
    /* A library that was loaded for itself alone is not searched, and may have brought UCX. */
    if (real == NULL) {
        void *ucx = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
        if (ucx != NULL)
            *(void **)&real = dlsym(ucx, "ucp_worker_progress");
    }
    if (real == NULL)
        return 0;
    unsigned found = real(worker);
    if (found != 0) {
        idle = 0;
    } else if (yields && ++idle >= IDLE_POLLS) {
        idle = 0;
        sched_yield();
    }
    return found;
}
#else
bool yields;    /* Open MPI does so by itself */
#endif
