/* Operations on numbers: which exist for which types, and what they do. */
#include <complex.h>
#include "border.h"

static uint32_t code_of(MPI_Op op)
{
    if (op == MPI_SUM) return SUM;
    if (op == MPI_PROD) return PRODUCT;
    if (op == MPI_MIN) return MIN;
    if (op == MPI_MAX) return MAX;
    if (op == MPI_BAND) return BITS_AND;
    if (op == MPI_BOR) return BITS_OR;
    if (op == MPI_BXOR) return BITS_XOR;
    if (op == MPI_LAND) return LOGICAL_AND;
    if (op == MPI_LOR) return LOGICAL_OR;
    if (op == MPI_LXOR) return LOGICAL_XOR;
    if (op == MPI_MINLOC) return MIN_LOC;
    if (op == MPI_MAXLOC) return MAX_LOC;
    if (op == MPI_REPLACE) return REPLACE;
    if (op == MPI_NO_OP) return NOTHING;
    return NO_OPERATION;
}

uint32_t operation_of(MPI_Op op)
{
    static MPI_Op last;
    static uint32_t code;
    if (has_threads)
        return code_of(op);
    if (code == NO_OPERATION || last != op) {
        last = op;
        code = code_of(op);
    }
    return code;
}

bool is_defined(uint32_t op, uint32_t number)
{
    if (op == REPLACE || op == NOTHING)
        return true;
    switch (number) {
    case NO_NUMBER: return false;
    case I8: case I16: case I32: case I64: case U8: case U16: case U32: case U64:
        return op < MIN_LOC;
    case F32: case F64: case LONG_DOUBLE:
        /* The standard has no logical operations here; the MPIs that there are do. */
        return op <= MAX || (op >= LOGICAL_AND && op <= LOGICAL_XOR);
    case C32: case C64: case LONG_DOUBLE_COMPLEX:
        return op == SUM || op == PRODUCT;
    default:
        return op == MIN_LOC || op == MAX_LOC;
    }
}

#define EACH(what) for (size_t i = 0; i < count; i++) { what; } break
#define ARITHMETIC(type) \
    case SUM: EACH(y[i] = (type)(y[i] + x[i])); \
    case PRODUCT: EACH(y[i] = (type)(y[i] * x[i]));
#define ORDER \
    case MIN: EACH(if (x[i] < y[i]) y[i] = x[i]); \
    case MAX: EACH(if (x[i] > y[i]) y[i] = x[i]);
#define LOGIC \
    case LOGICAL_AND: EACH(y[i] = y[i] && x[i]); \
    case LOGICAL_OR: EACH(y[i] = y[i] || x[i]); \
    case LOGICAL_XOR: EACH(y[i] = !y[i] != !x[i]);
#define BITS(type) \
    case BITS_AND: EACH(y[i] = (type)(y[i] & x[i])); \
    case BITS_OR: EACH(y[i] = (type)(y[i] | x[i])); \
    case BITS_XOR: EACH(y[i] = (type)(y[i] ^ x[i]));
#define COPY case REPLACE: EACH(y[i] = x[i]);

#define FOLD(name, type, cases) \
    static void name(uint32_t op, type *y, const type *x, size_t count) \
    { \
        switch (op) { \
        cases COPY \
        default: break; \
        } \
    }
#define INTEGER(name, type) FOLD(name, type, ARITHMETIC(type) ORDER LOGIC BITS(type))
#define FLOATING(name, type) FOLD(name, type, ARITHMETIC(type) ORDER LOGIC)
#define COMPLEX(name, type) FOLD(name, type, ARITHMETIC(type))

/* A value and its place; of equal values the lower place wins. */
#define PAIRS(name, value_type, index_type) \
    struct name { value_type value; index_type index; }; \
    FOLD(fold_##name, struct name, \
         case MIN_LOC: EACH( \
             if (x[i].value < y[i].value \
                 || (x[i].value == y[i].value && x[i].index < y[i].index)) y[i] = x[i]); \
         case MAX_LOC: EACH( \
             if (x[i].value > y[i].value \
                 || (x[i].value == y[i].value && x[i].index < y[i].index)) y[i] = x[i]);)

INTEGER(fold_i8, int8_t)
INTEGER(fold_i16, int16_t)
/* Sums wrap around, which signed ones need not in C. */
INTEGER(fold_u8, uint8_t)
INTEGER(fold_u16, uint16_t)
INTEGER(fold_u32, uint32_t)
INTEGER(fold_u64, uint64_t)
FOLD(order_i32, int32_t, ORDER)
FOLD(order_i64, int64_t, ORDER)
FLOATING(fold_f32, float)
FLOATING(fold_f64, double)
FLOATING(fold_long_double, long double)
COMPLEX(fold_c32, float _Complex)
COMPLEX(fold_c64, double _Complex)
COMPLEX(fold_long_complex, long double _Complex)
PAIRS(i16_index, int16_t, int)
PAIRS(i32_index, int32_t, int)
PAIRS(i64_index, int64_t, int)
PAIRS(f32_index, float, int)
PAIRS(f64_index, double, int)
PAIRS(long_double_index, long double, int)
PAIRS(f32_pair, float, float)
PAIRS(f64_pair, double, double)

void fold(uint32_t number, uint32_t op, void *into, const void *from, size_t count)
{
    bool orders = op == MIN || op == MAX;
    switch (number) {
    case I8: fold_i8(op, into, from, count); break;
    case I16: fold_i16(op, into, from, count); break;
    case I32:
        if (orders)
            order_i32(op, into, from, count);
        else
            fold_u32(op, into, from, count);
        break;
    case I64:
        if (orders)
            order_i64(op, into, from, count);
        else
            fold_u64(op, into, from, count);
        break;
    case U8: fold_u8(op, into, from, count); break;
    case U16: fold_u16(op, into, from, count); break;
    case U32: fold_u32(op, into, from, count); break;
    case U64: fold_u64(op, into, from, count); break;
    case F32: fold_f32(op, into, from, count); break;
    case F64: fold_f64(op, into, from, count); break;
    case C32: fold_c32(op, into, from, count); break;
    case C64: fold_c64(op, into, from, count); break;
    case LONG_DOUBLE: fold_long_double(op, into, from, count); break;
    case LONG_DOUBLE_COMPLEX: fold_long_complex(op, into, from, count); break;
    case I16_INDEX: fold_i16_index(op, into, from, count); break;
    case I32_INDEX: fold_i32_index(op, into, from, count); break;
    case I64_INDEX: fold_i64_index(op, into, from, count); break;
    case F32_INDEX: fold_f32_index(op, into, from, count); break;
    case F64_INDEX: fold_f64_index(op, into, from, count); break;
    case LONG_DOUBLE_INDEX: fold_long_double_index(op, into, from, count); break;
    case F32_PAIR: fold_f32_pair(op, into, from, count); break;
    case F64_PAIR: fold_f64_pair(op, into, from, count); break;
    default: break;
    }
}
