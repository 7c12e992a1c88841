/* The standard's type tables as X-macros: X(name in the calls, C type, class), where the class is
 * INT or REAL. */
#ifndef TYPES_H
#define TYPES_H

#include <stddef.h>
#include <stdint.h>

#define INTEGERS_OF_AMO(X)                                                                         \
    X(int, int, INT)                                                                               \
    X(long, long, INT)                                                                             \
    X(longlong, long long, INT)                                                                    \
    X(uint, unsigned int, INT)                                                                     \
    X(ulong, unsigned long, INT)                                                                   \
    X(ulonglong, unsigned long long, INT)                                                          \
    X(int32, int32_t, INT)                                                                         \
    X(int64, int64_t, INT)                                                                         \
    X(uint32, uint32_t, INT)                                                                       \
    X(uint64, uint64_t, INT)                                                                       \
    X(size, size_t, INT)                                                                           \
    X(ptrdiff, ptrdiff_t, INT)

#define STANDARD_AMO_TYPES(X) INTEGERS_OF_AMO(X)

#define EXTENDED_AMO_TYPES(X)                                                                      \
    X(float, float, REAL)                                                                          \
    X(double, double, REAL)                                                                        \
    INTEGERS_OF_AMO(X)

#define BITWISE_AMO_TYPES(X)                                                                       \
    X(uint, unsigned int, INT)                                                                     \
    X(ulong, unsigned long, INT)                                                                   \
    X(ulonglong, unsigned long long, INT)                                                          \
    X(int32, int32_t, INT)                                                                         \
    X(int64, int64_t, INT)                                                                         \
    X(uint32, uint32_t, INT)                                                                       \
    X(uint64, uint64_t, INT)

#define SMALL_INTEGERS(X)                                                                          \
    X(char, char, INT)                                                                             \
    X(schar, signed char, INT)                                                                     \
    X(short, short, INT)                                                                           \
    X(uchar, unsigned char, INT)                                                                   \
    X(ushort, unsigned short, INT)                                                                 \
    X(int8, int8_t, INT)                                                                           \
    X(int16, int16_t, INT)                                                                         \
    X(uint8, uint8_t, INT)                                                                         \
    X(uint16, uint16_t, INT)

#define RMA_TYPES(X)                                                                               \
    EXTENDED_AMO_TYPES(X)                                                                          \
    X(longdouble, long double, REAL)                                                               \
    SMALL_INTEGERS(X)

/* Waits: the integers of the atomics, and the two short types. */
#define WAIT_TYPES(X)                                                                              \
    X(short, short, INT)                                                                           \
    X(ushort, unsigned short, INT)                                                                 \
    INTEGERS_OF_AMO(X)

/* The names of before 1.4. */
#define OLD_AMO_INTEGERS(X)                                                                        \
    X(int, int, INT)                                                                               \
    X(long, long, INT)                                                                             \
    X(longlong, long long, INT)

#define OLD_AMO_TYPES(X)                                                                           \
    X(float, float, REAL)                                                                          \
    X(double, double, REAL)                                                                        \
    OLD_AMO_INTEGERS(X)

/* Reductions of teams. */
#define REDUCE_BITWISE_TYPES(X)                                                                    \
    X(uchar, unsigned char, INT)                                                                   \
    X(ushort, unsigned short, INT)                                                                 \
    X(uint, unsigned int, INT)                                                                     \
    X(ulong, unsigned long, INT)                                                                   \
    X(ulonglong, unsigned long long, INT)                                                          \
    X(int8, int8_t, INT)                                                                           \
    X(int16, int16_t, INT)                                                                         \
    X(int32, int32_t, INT)                                                                         \
    X(int64, int64_t, INT)                                                                         \
    X(uint8, uint8_t, INT)                                                                         \
    X(uint16, uint16_t, INT)                                                                       \
    X(uint32, uint32_t, INT)                                                                       \
    X(uint64, uint64_t, INT)                                                                       \
    X(size, size_t, INT)                                                                           \
    X(short, short, INT)                                                                           \
    X(int, int, INT)                                                                               \
    X(long, long, INT)                                                                             \
    X(longlong, long long, INT)

#define REDUCE_ORDERED_TYPES(X) RMA_TYPES(X)

/* Reductions of active sets. */
#define SET_BITWISE_TYPES(X)                                                                       \
    X(short, short, INT)                                                                           \
    OLD_AMO_INTEGERS(X)

#define SET_ORDERED_TYPES(X)                                                                       \
    SET_BITWISE_TYPES(X)                                                                           \
    X(float, float, REAL)                                                                          \
    X(double, double, REAL)                                                                        \
    X(longdouble, long double, REAL)

/* The basic types that type-generic calls tell apart. */
#define DISTINCT_TYPES(X)                                                                          \
    X(float, float, REAL)                                                                          \
    X(double, double, REAL)                                                                        \
    X(longdouble, long double, REAL)                                                               \
    X(char, char, INT)                                                                             \
    X(schar, signed char, INT)                                                                     \
    X(short, short, INT)                                                                           \
    X(int, int, INT)                                                                               \
    X(long, long, INT)                                                                             \
    X(longlong, long long, INT)                                                                    \
    X(uchar, unsigned char, INT)                                                                   \
    X(ushort, unsigned short, INT)                                                                 \
    X(uint, unsigned int, INT)                                                                     \
    X(ulong, unsigned long, INT)                                                                   \
    X(ulonglong, unsigned long long, INT)

/* A value of type T made of a small number: integers get all their bytes from it, floating types a
 * fraction that fills the mantissa. Numbers 0 to 255 give different values in every type. */
#define VALUE_INT(T, number) ((T)((uint64_t)(number) * UINT64_C(0x0102030405060709)))
#define VALUE_REAL(T, number) ((T)((T)(number) + (T)1 / (T)3))

#endif
