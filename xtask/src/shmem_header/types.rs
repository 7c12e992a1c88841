//! The element types of OpenSHMEM, and the lists of them that families of functions range over: as
//! the border has them.

const BORDER: &str = include_str!("../../../crates/interfaces/shmem/c/types.h");

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

/// A list of types that several families share.
pub(super) struct List {
    /// What the header's macros call the list; the border's adds `_TYPES`.
    pub(super) label: &'static str,
}

impl List {
    pub(super) fn types(&self) -> Vec<Type> {
        calls_of(&format!("{}_TYPES", self.label))
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

/// Returns the types for which a macro of the border calls `X`.
fn calls_of(name: &str) -> Vec<Type> {
    let (_, text) = BORDER
        .split_once(&format!("#define {name}(X, more)"))
        .unwrap_or_else(|| panic!("no list {name}"));
    // No macro has a comment in it.
    let body = text.split(['#', '/']).next().unwrap_or_default();
    let calls = body.split(')').filter_map(|call| call.split_once('('));
    let types = |(called, arguments): (&str, &'static str)| {
        let called = called.trim_start_matches([' ', '\\', '\n']);
        match arguments.split(", ").collect::<Vec<_>>()[..] {
            [name, c, fundamental, _] => vec![Type { name, c, fundamental }],
            _ => calls_of(called),
        }
    };
    calls.flat_map(types).collect()
}

const fn list(label: &'static str) -> List {
    List { label }
}

pub(super) const RMA: List = list("RMA");
pub(super) const AMO: List = list("AMO");
pub(super) const AMO_EXTENDED: List = list("AMO_EXTENDED");
pub(super) const AMO_BITWISE: List = list("AMO_BITWISE");
pub(super) const WAIT: List = list("WAIT");
pub(super) const WAIT_SHORT: List = list("WAIT_SHORT");
pub(super) const REDUCE_BITWISE: List = list("REDUCE_BITWISE");
pub(super) const REDUCE_BITS: List = list("REDUCE_BITS");
pub(super) const REDUCE_ORDERED: List = list("REDUCE_ORDERED");
pub(super) const REDUCE_ARITHMETIC: List = list("REDUCE_ARITHMETIC");
pub(super) const OLD_INTEGER: List = list("OLD_INTEGER");
pub(super) const OLD_ORDERED: List = list("OLD_ORDERED");
pub(super) const OLD_ARITHMETIC: List = list("OLD_ARITHMETIC");
pub(super) const OLD_AMO: List = list("OLD_AMO");
pub(super) const OLD_AMO_EXTENDED: List = list("OLD_AMO_EXTENDED");
