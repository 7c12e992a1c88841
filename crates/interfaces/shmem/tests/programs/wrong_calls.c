/* The beginning of a program that makes calls with arguments that are wrong, which a test adds.
 * Each is made in a child, whose errors come out behind a line of its own. */
#define _DEFAULT_SOURCE
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void call_shmem(int n);

/* Makes the calls from one number to another, those from `before` on after shmem_init. */
static int try_from(int from, int to, int before)
{
    for (int n = from, started = 0; n < to; n++) {
        if (n >= before && !started) {
            shmem_init();
            started = 1;
        }
        puts("next");
        fflush(stdout);
        if (fork() == 0) {
            dup2(1, 2);
            alarm(30);
            call_shmem(n);
            _exit(0);
        }
        wait(NULL);
    }
    _exit(0);
}

#define try_all(count, arguments) \
    (count == 3 ? try_from(atoi(arguments[1]), atoi(arguments[2]), BEFORE) : 2)

