/* From where the program has called: the address that its call returns to, which costs nothing to
 * know here, and an unwinding of the stack behind the border. */

#include "border.h"

int farside_shmem_wants_callers;

static _Thread_local struct {
    const char *call;
    void *address;
} last;

void farside_shmem_want_callers(int wants)
{
    farside_shmem_wants_callers = wants;
}

void farside_shmem_note_caller(const char *call, void *address)
{
    last.call = call;
    last.address = address;
}

void *farside_shmem_caller(const char *call)
{
    return last.call == call ? last.address : NULL;
}
