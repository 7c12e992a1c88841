//! Overloads of typed names in C++, for programs whose arguments have types that C would convert:
//! words that are volatile, as they were before version 1.4, and C's own complex numbers.

use super::families::{Family, Over, SECTIONS};
use super::prototypes::{filled, replace_type};

/// What a parameter of another type becomes.
struct Conversion<'a> {
    /// The element type of the function that is called, and the type that is accepted.
    called: &'a str,
    accepted: &'a str,
    cast: &'static str,
}

pub(super) fn cpp(prefix: &str) -> String {
    let families = || SECTIONS.iter().flat_map(|section| section.families);
    let words: String = families().map(|family| of_volatile(family, prefix)).collect();
    let complex: String = families().map(|family| of_complex(family, prefix)).collect();
    format!(
        "\n/* Overloads in C++: words that are volatile, and C's complex numbers. */\n\
         #ifdef __cplusplus\nextern \"C++\" {{\n\n{words}\n\
         #ifdef FARSIDE_SHMEM_C_COMPLEX\n{complex}#endif\n\n}}\n#endif\n"
    )
}

/// Returns the overloads that take a volatile word, if the family waits for one or is a lock's.
fn of_volatile(family: &Family, prefix: &str) -> String {
    let Family { name, .. } = family;
    let overload = |function: &str, c: &str| {
        let accepted = format!("volatile {c}");
        let conversion = Conversion { called: c, accepted: &accepted, cast: "const_cast" };
        overload(family, &format!("{prefix}shmem_{function}"), &conversion)
    };
    match (&family.over, *name) {
        (Over::Types(list), "wait_until" | "test" | "wait") => {
            let types = list.types();
            types.iter().map(|kind| overload(&format!("{}_{name}", kind.name), kind.c)).collect()
        }
        (Over::One, "wait" | "set_lock" | "test_lock" | "clear_lock") => overload(name, "long"),
        _ => String::new(),
    }
}

/// Returns the overloads that take C's complex numbers, if the family has complex types.
fn of_complex(family: &Family, prefix: &str) -> String {
    let Over::Types(list) = &family.over else { return String::new() };
    let types = list.types();
    let complex = types.iter().filter(|kind| kind.name.starts_with("complex"));
    let texts = complex.map(|kind| {
        let accepted = kind.c.replace("shmem_", "shmem_c_");
        let conversion =
            Conversion { called: kind.c, accepted: &accepted, cast: "reinterpret_cast" };
        overload(family, &format!("{prefix}shmem_{}_{}", kind.name, family.name), &conversion)
    });
    texts.collect()
}

/// Returns an overload of `function` in which pointers to elements are of the accepted type.
fn overload(family: &Family, function: &str, conversion: &Conversion<'_>) -> String {
    let Conversion { called, accepted, cast } = conversion;
    let (mut parameters, mut arguments) = (Vec::new(), Vec::new());
    for parameter in family.parameters.split(", ") {
        let name = parameter.rsplit([' ', '*']).next().unwrap_or_default();
        let typed = replace_type(parameter, called);
        let is_word = parameter.starts_with("long *") && !parameter.contains("pSync");
        let is_pointer = parameter.contains("T *") || is_word;
        if !is_pointer {
            parameters.push(typed);
            arguments.push(name.to_owned());
            continue;
        }
        let pointer = typed.trim_end_matches(name).to_owned();
        arguments.push(format!("{cast}<{pointer}>({name})"));
        parameters.push(match is_word {
            true => parameter.replacen("long", accepted, 1),
            false => replace_type(parameter, accepted),
        });
    }
    let (parameters, arguments) = (parameters.join(", "), arguments.join(", "));
    let returning = if family.returns == "void" { "" } else { "return " };
    [
        filled("", &format!("inline {} {function}({parameters})", family.returns), "    ", ','),
        "{\n".to_owned(),
        filled("    ", &format!("{returning}{function}({arguments});"), "        ", ','),
        "}\n".to_owned(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overload_converts_its_pointers_only() {
        let text = cpp("");
        let word = "inline int shmem_short_test(volatile short *ivar, int cmp, short cmp_value)\n\
                    {\n    return shmem_short_test(const_cast<short *>(ivar), cmp, cmp_value);\n}";
        assert!(text.contains(word), "{text}");
        let lock = "inline void shmem_set_lock(volatile long *lock)\n{\n    \
                    shmem_set_lock(const_cast<long *>(lock));\n}";
        assert!(text.contains(lock), "{text}");
        assert!(text.contains("long *pSync)") && !text.contains("volatile long *pSync"), "{text}");
    }
}
