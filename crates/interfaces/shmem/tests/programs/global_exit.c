/* PE 0 ends the job with shmem_global_exit(0) while the others sit in calls that never return. The
 * job's status is 0. */
#include "check.h"

int main(void)
{
    static long never, lock;
    check_begin();
    CHECK_EQ(never, 0);
    /* PE 0 holds the lock that others wait for. */
    if (me == 0)
        shmem_set_lock(&lock);
    check_report("global_exit");
    if (me == 0)
        shmem_global_exit(0);
    switch (me % 4) {
    case 1:
        shmem_long_wait_until(&never, SHMEM_CMP_NE, 0);
        break;
    case 2:
        shmem_barrier_all();
        break;
    case 3:
        shmem_set_lock(&lock);
        break;
    default:
        for (volatile unsigned long steps = 0;; steps++)
            ;
    }
    check_fail(__FILE__, __LINE__, "a call returned that had nothing to return for");
    return 1;
}
