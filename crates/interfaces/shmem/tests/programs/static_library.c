/* The second source of static_data.c, built as a shared library: globals that are not the
 * executable's. */
long library_data = 4321;
long library_bss[100];

long *library_static(void);

long *library_static(void)
{
    static long hidden = 99;
    return &hidden;
}
