//! The element types of OpenSHMEM, and the lists of them that families of functions range over.

/// An element type, as names of functions and prototypes spell it.
#[derive(Clone, Copy)]
pub(super) struct Type {
    /// The part of a function's name, such as `longlong`.
    pub(super) name: &'static str,
    /// The type in C, such as `long long`.
    pub(super) c: &'static str,
    /// The name of the fundamental type that it is on machines with a 64-bit `long`.
    fundamental: &'static str,
}

const fn of(name: &'static str, c: &'static str, fundamental: &'static str) -> Type {
    Type { name, c, fundamental }
}

const TYPES: &[Type] = &[
    of("float", "float", "float"),
    of("double", "double", "double"),
    of("longdouble", "long double", "longdouble"),
    of("complexf", "farside_shmem_complexf", "complexf"),
    of("complexd", "farside_shmem_complexd", "complexd"),
    of("char", "char", "char"),
    of("schar", "signed char", "schar"),
    of("short", "short", "short"),
    of("int", "int", "int"),
    of("long", "long", "long"),
    of("longlong", "long long", "longlong"),
    of("uchar", "unsigned char", "uchar"),
    of("ushort", "unsigned short", "ushort"),
    of("uint", "unsigned int", "uint"),
    of("ulong", "unsigned long", "ulong"),
    of("ulonglong", "unsigned long long", "ulonglong"),
    of("int8", "int8_t", "schar"),
    of("int16", "int16_t", "short"),
    of("int32", "int32_t", "int"),
    of("int64", "int64_t", "long"),
    of("uint8", "uint8_t", "uchar"),
    of("uint16", "uint16_t", "ushort"),
    of("uint32", "uint32_t", "uint"),
    of("uint64", "uint64_t", "ulong"),
    of("size", "size_t", "ulong"),
    of("ptrdiff", "ptrdiff_t", "long"),
];

/// A list of types that several families share.
pub(super) struct List {
    /// What the header's macros call the list.
    pub(super) label: &'static str,
    /// The types' names, with spaces between them.
    names: &'static str,
}

impl List {
    pub(super) fn types(&self) -> Vec<Type> {
        let find = |name| TYPES.iter().find(|known| known.name == name);
        let named = self.names.split_whitespace();
        named.map(|name| *find(name).unwrap_or_else(|| panic!("no type {name}"))).collect()
    }

    /// Returns the types that a compiler can tell apart: of several names of one type, the first.
    pub(super) fn distinct(&self) -> Vec<Type> {
        let mut distinct: Vec<Type> = Vec::new();
        for new in self.types() {
            if !distinct.iter().any(|known| known.fundamental == new.fundamental) {
                distinct.push(new);
            }
        }
        distinct
    }
}

/// Transfers and collectives without arithmetic.
pub(super) const RMA: List = List {
    label: "RMA",
    names: "float double longdouble char schar short int long longlong uchar ushort uint ulong \
            ulonglong int8 int16 int32 int64 uint8 uint16 uint32 uint64 size ptrdiff",
};

/// Atomics with arithmetic.
pub(super) const AMO: List = List {
    label: "AMO",
    names: "int long longlong uint ulong ulonglong int32 int64 uint32 uint64 size ptrdiff",
};

/// Atomics that only move values.
pub(super) const AMO_EXTENDED: List = List {
    label: "AMO_EXTENDED",
    names: "float double int long longlong uint ulong ulonglong int32 int64 uint32 uint64 size \
            ptrdiff",
};

pub(super) const AMO_BITWISE: List =
    List { label: "AMO_BITWISE", names: "uint ulong ulonglong int32 int64 uint32 uint64" };

/// Waiting for one word.
pub(super) const WAIT: List = List {
    label: "WAIT",
    names: "short int long longlong ushort uint ulong ulonglong int32 int64 uint32 uint64 size \
            ptrdiff",
};

/// Waiting for several words, beyond the types of [`AMO`].
pub(super) const WAIT_SHORT: List = List { label: "WAIT_SHORT", names: "short ushort" };

/// Bitwise reductions over a team.
pub(super) const REDUCE_BITWISE: List = List {
    label: "REDUCE_BITWISE",
    names: "uchar ushort uint ulong ulonglong int8 int16 int32 int64 uint8 uint16 uint32 uint64 \
            size",
};

/// Bitwise reductions over a team, of signed types.
pub(super) const REDUCE_SIGNED: List =
    List { label: "REDUCE_SIGNED", names: "short int long longlong" };

/// All types of bitwise reductions, for the type-generic names.
pub(super) const REDUCE_BITS: List = List {
    label: "REDUCE_BITS",
    names: "uchar ushort uint ulong ulonglong int8 short int long longlong",
};

/// Maximum and minimum over a team.
pub(super) const REDUCE_ORDERED: List = List {
    label: "REDUCE_ORDERED",
    names: "char schar short int long longlong ptrdiff uchar ushort uint ulong ulonglong int8 \
            int16 int32 int64 uint8 uint16 uint32 uint64 size float double longdouble",
};

/// Sum and product over a team.
pub(super) const REDUCE_ARITHMETIC: List = List {
    label: "REDUCE_ARITHMETIC",
    names: "char schar short int long longlong ptrdiff uchar ushort uint ulong ulonglong int8 \
            int16 int32 int64 uint8 uint16 uint32 uint64 size float double longdouble complexd \
            complexf",
};

/// Bitwise reductions over an active set, and old names for waiting.
pub(super) const OLD_INTEGERS: List =
    List { label: "OLD_INTEGERS", names: "short int long longlong" };

/// Maximum and minimum over an active set.
pub(super) const OLD_ORDERED: List =
    List { label: "OLD_ORDERED", names: "short int long longlong float double longdouble" };

/// Sum and product over an active set.
pub(super) const OLD_ARITHMETIC: List = List {
    label: "OLD_ARITHMETIC",
    names: "short int long longlong float double longdouble complexd complexf",
};

/// Atomics with arithmetic, by their old names.
pub(super) const OLD_AMO: List = List { label: "OLD_AMO", names: "int long longlong" };

/// Atomics that only move values, by their old names.
pub(super) const OLD_AMO_EXTENDED: List =
    List { label: "OLD_AMO_EXTENDED", names: "float double int long longlong" };
