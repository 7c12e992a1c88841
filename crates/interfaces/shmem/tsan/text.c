/* Functions of the C library that read or write memory for the program: calls from its objects,
 * which the linker sends here (--wrap). */

#define _GNU_SOURCE

#include "seen.h"

#include <stdio.h>
#include <string.h>
#include <sys/types.h>

int __real_memcmp(const void *a, const void *b, size_t bytes);
size_t __real_strlen(const char *text);
char *__real_strcpy(char *to, const char *from);
char *__real_strncpy(char *to, const char *from, size_t bytes);
char *__real_strcat(char *to, const char *from);
int __real_strcmp(const char *a, const char *b);
int __real_strncmp(const char *a, const char *b, size_t bytes);
size_t __real_fread(void *to, size_t size, size_t count, FILE *file);
size_t __real_fwrite(const void *from, size_t size, size_t count, FILE *file);
ssize_t __real_read(int file, void *to, size_t bytes);
ssize_t __real_write(int file, const void *from, size_t bytes);

int __wrap_memcmp(const void *a, const void *b, size_t bytes);
int __wrap_memcmp(const void *a, const void *b, size_t bytes)
{
    seen(a, bytes, 0, HERE);
    seen(b, bytes, 0, HERE);
    return __real_memcmp(a, b, bytes);
}

size_t __wrap_strlen(const char *text);
size_t __wrap_strlen(const char *text)
{
    size_t bytes = __real_strlen(text);
    seen(text, bytes + 1, 0, HERE);
    return bytes;
}

char *__wrap_strcpy(char *to, const char *from);
char *__wrap_strcpy(char *to, const char *from)
{
    size_t bytes = __real_strlen(from) + 1;
    seen(from, bytes, 0, HERE);
    seen(to, bytes, 1, HERE);
    return __real_strcpy(to, from);
}

char *__wrap_strncpy(char *to, const char *from, size_t bytes);
char *__wrap_strncpy(char *to, const char *from, size_t bytes)
{
    seen(from, strnlen(from, bytes), 0, HERE);
    seen(to, bytes, 1, HERE);
    return __real_strncpy(to, from, bytes);
}

char *__wrap_strcat(char *to, const char *from);
char *__wrap_strcat(char *to, const char *from)
{
    size_t bytes = __real_strlen(from) + 1, there = __real_strlen(to);
    seen(from, bytes, 0, HERE);
    seen(to, there + 1, 0, HERE);
    seen(to + there, bytes, 1, HERE);
    return __real_strcat(to, from);
}

/* Of each text, as much as must be read to tell. */
static void compared(const char *a, const char *b, size_t most, uintptr_t address)
{
    size_t bytes = 0;
    while (bytes < most && a[bytes] == b[bytes] && a[bytes]) {
        bytes++;
    }
    bytes += bytes < most;
    seen(a, bytes, 0, address);
    seen(b, bytes, 0, address);
}

int __wrap_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b)
{
    compared(a, b, SIZE_MAX, HERE);
    return __real_strcmp(a, b);
}

int __wrap_strncmp(const char *a, const char *b, size_t bytes);
int __wrap_strncmp(const char *a, const char *b, size_t bytes)
{
    compared(a, b, bytes, HERE);
    return __real_strncmp(a, b, bytes);
}

size_t __wrap_fread(void *to, size_t size, size_t count, FILE *file);
size_t __wrap_fread(void *to, size_t size, size_t count, FILE *file)
{
    size_t done = __real_fread(to, size, count, file);
    seen(to, size * done, 1, HERE);
    return done;
}

size_t __wrap_fwrite(const void *from, size_t size, size_t count, FILE *file);
size_t __wrap_fwrite(const void *from, size_t size, size_t count, FILE *file)
{
    seen(from, size * count, 0, HERE);
    return __real_fwrite(from, size, count, file);
}

ssize_t __wrap_read(int file, void *to, size_t bytes);
ssize_t __wrap_read(int file, void *to, size_t bytes)
{
    ssize_t done = __real_read(file, to, bytes);
    if (done > 0) {
        seen(to, (size_t) done, 1, HERE);
    }
    return done;
}

ssize_t __wrap_write(int file, const void *from, size_t bytes);
ssize_t __wrap_write(int file, const void *from, size_t bytes)
{
    seen(from, bytes, 0, HERE);
    return __real_write(file, from, bytes);
}
