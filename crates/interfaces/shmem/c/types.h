/* The element types, and the lists of them that families of functions range over; `cargo xtask
 * header` reads them here.
 *
 * A list calls X for each of its types, with the name that functions give it, the type, and the
 * name of the fundamental type that it is; `more` is passed on. */
#ifndef FARSIDE_SHMEM_TYPES_H
#define FARSIDE_SHMEM_TYPES_H

#define T_float(X, more) X(float, float, float, more)
#define T_double(X, more) X(double, double, double, more)
#define T_longdouble(X, more) X(longdouble, long double, longdouble, more)
#define T_complexf(X, more) X(complexf, farside_shmem_complexf, complexf, more)
#define T_complexd(X, more) X(complexd, farside_shmem_complexd, complexd, more)
#define T_char(X, more) X(char, char, char, more)
#define T_schar(X, more) X(schar, signed char, schar, more)
#define T_short(X, more) X(short, short, short, more)
#define T_int(X, more) X(int, int, int, more)
#define T_long(X, more) X(long, long, long, more)
#define T_longlong(X, more) X(longlong, long long, longlong, more)
#define T_uchar(X, more) X(uchar, unsigned char, uchar, more)
#define T_ushort(X, more) X(ushort, unsigned short, ushort, more)
#define T_uint(X, more) X(uint, unsigned int, uint, more)
#define T_ulong(X, more) X(ulong, unsigned long, ulong, more)
#define T_ulonglong(X, more) X(ulonglong, unsigned long long, ulonglong, more)
#define T_int8(X, more) X(int8, int8_t, schar, more)
#define T_int16(X, more) X(int16, int16_t, short, more)
#define T_int32(X, more) X(int32, int32_t, int, more)
#define T_int64(X, more) X(int64, int64_t, long, more)
#define T_uint8(X, more) X(uint8, uint8_t, uchar, more)
#define T_uint16(X, more) X(uint16, uint16_t, ushort, more)
#define T_uint32(X, more) X(uint32, uint32_t, uint, more)
#define T_uint64(X, more) X(uint64, uint64_t, ulong, more)
#define T_size(X, more) X(size, size_t, ulong, more)
#define T_ptrdiff(X, more) X(ptrdiff, ptrdiff_t, long, more)

/* Atomics with arithmetic, by their old names. */
#define OLD_AMO_TYPES(X, more) T_int(X, more) T_long(X, more) T_longlong(X, more)

/* Atomics that only move values, by their old names. */
#define OLD_AMO_EXTENDED_TYPES(X, more) T_float(X, more) T_double(X, more) OLD_AMO_TYPES(X, more)

/* Bitwise atomics. */
#define UNSIGNED_TYPES(X, more) T_uint(X, more) T_ulong(X, more) T_ulonglong(X, more)
#define AMO_BITWISE_TYPES(X, more) \
    UNSIGNED_TYPES(X, more) \
    T_int32(X, more) T_int64(X, more) T_uint32(X, more) T_uint64(X, more)

/* Atomics with arithmetic. */
#define AMO_TYPES(X, more) \
    OLD_AMO_TYPES(X, more) AMO_BITWISE_TYPES(X, more) T_size(X, more) T_ptrdiff(X, more)

/* Atomics that only move values. */
#define AMO_EXTENDED_TYPES(X, more) T_float(X, more) T_double(X, more) AMO_TYPES(X, more)

/* Bitwise reductions over an active set, those of signed types over a team, which are not in the
 * standard, and old names for waiting. */
#define OLD_INTEGER_TYPES(X, more) T_short(X, more) OLD_AMO_TYPES(X, more)

/* Waiting for one word, and for several words beyond the types of AMO_TYPES. */
#define WAIT_TYPES(X, more) \
    OLD_INTEGER_TYPES(X, more) \
    T_ushort(X, more) AMO_BITWISE_TYPES(X, more) T_size(X, more) T_ptrdiff(X, more)
#define WAIT_SHORT_TYPES(X, more) T_short(X, more) T_ushort(X, more)

/* Bitwise reductions over a team. */
#define REDUCE_BITWISE_TYPES(X, more) \
    T_uchar(X, more) T_ushort(X, more) UNSIGNED_TYPES(X, more) \
    T_int8(X, more) T_int16(X, more) T_int32(X, more) T_int64(X, more) \
    T_uint8(X, more) T_uint16(X, more) T_uint32(X, more) T_uint64(X, more) T_size(X, more)

/* All types of bitwise reductions, for the type-generic names. */
#define REDUCE_BITS_TYPES(X, more) \
    T_uchar(X, more) T_ushort(X, more) UNSIGNED_TYPES(X, more) \
    T_int8(X, more) OLD_INTEGER_TYPES(X, more)

#define FLOAT_TYPES(X, more) T_float(X, more) T_double(X, more) T_longdouble(X, more)
#define COMPLEX_TYPES(X, more) T_complexd(X, more) T_complexf(X, more)

/* Maximum and minimum, then also sum and product: over a team, and over an active set. */
#define REDUCE_ORDERED_TYPES(X, more) \
    T_char(X, more) T_schar(X, more) OLD_INTEGER_TYPES(X, more) T_ptrdiff(X, more) \
    REDUCE_BITWISE_TYPES(X, more) FLOAT_TYPES(X, more)
#define REDUCE_ARITHMETIC_TYPES(X, more) REDUCE_ORDERED_TYPES(X, more) COMPLEX_TYPES(X, more)
#define OLD_ORDERED_TYPES(X, more) OLD_INTEGER_TYPES(X, more) FLOAT_TYPES(X, more)
#define OLD_ARITHMETIC_TYPES(X, more) OLD_ORDERED_TYPES(X, more) COMPLEX_TYPES(X, more)

/* Transfers and collectives without arithmetic, and those of at most eight bytes. */
#define INTEGER_TYPES(X, more) \
    T_char(X, more) T_schar(X, more) OLD_INTEGER_TYPES(X, more) \
    REDUCE_BITWISE_TYPES(X, more) T_ptrdiff(X, more)
#define RMA_TYPES(X, more) FLOAT_TYPES(X, more) INTEGER_TYPES(X, more)
#define WORD_TYPES(X, more) T_float(X, more) T_double(X, more) INTEGER_TYPES(X, more)

#endif
