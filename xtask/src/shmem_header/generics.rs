//! The type-generic names: macros for C11, overloads for C++.

use super::families::{Family, Over, SECTIONS};
use super::prototypes::filled;
use super::types::{List, REDUCE_ARITHMETIC, Type, WAIT};

const C11_HEAD: &str = "
/* Type-generic names in C11: the pointer chooses the function, and values are converted to its
 * type. Where a context may come first, it is looked for there. */
#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L && \\
    !defined(FARSIDE_SHMEM_NO_GENERIC)

/* Takes no arguments, so that a call with a pointer of no known type does not compile. */
void farside_shmem_no_function_for_this_type(void);

#define FARSIDE_SHMEM_FIRST(first, ...) first
#define FARSIDE_SHMEM_SECOND(first, second, ...) second
#define FARSIDE_SHMEM_BY_FIRST(types, name, ...) \\
    _Generic((FARSIDE_SHMEM_FIRST(__VA_ARGS__, 0)), \\
        types(shmem_, _##name) default: farside_shmem_no_function_for_this_type)(__VA_ARGS__)
#define FARSIDE_SHMEM_BY_SECOND(types, name, ...) \\
    _Generic((FARSIDE_SHMEM_SECOND(__VA_ARGS__, 0, 0)), \\
        types(shmem_, _##name) default: farside_shmem_no_function_for_this_type)(__VA_ARGS__)
#define FARSIDE_SHMEM_BY_EITHER(types, name, ...) \\
    _Generic((FARSIDE_SHMEM_FIRST(__VA_ARGS__, 0)), \\
        shmem_ctx_t: _Generic((FARSIDE_SHMEM_SECOND(__VA_ARGS__, 0, 0)), \\
            types(shmem_ctx_, _##name) default: farside_shmem_no_function_for_this_type), \\
        types(shmem_, _##name) default: farside_shmem_no_function_for_this_type)(__VA_ARGS__)

#define shmem_sync(...) \\
    _Generic((FARSIDE_SHMEM_FIRST(__VA_ARGS__, 0)), \\
        shmem_team_t: shmem_team_sync, default: shmem_sync)(__VA_ARGS__)
#define shmem_signal_add(...) \\
    _Generic((FARSIDE_SHMEM_FIRST(__VA_ARGS__, 0)), \\
        shmem_ctx_t: shmem_ctx_signal_add, default: shmem_signal_add)(__VA_ARGS__)
#define shmem_signal_set(...) \\
    _Generic((FARSIDE_SHMEM_FIRST(__VA_ARGS__, 0)), \\
        shmem_ctx_t: shmem_ctx_signal_set, default: shmem_signal_set)(__VA_ARGS__)
";

const CPP_HEAD: &str = "
/* Type-generic names in C++: overloads. */
#if defined(__cplusplus) && !defined(FARSIDE_SHMEM_NO_GENERIC)
extern \"C++\" {

inline int shmem_sync(shmem_team_t team)
{
    return shmem_team_sync(team);
}

inline void shmem_signal_add(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)
{
    shmem_ctx_signal_add(ctx, sig_addr, signal, pe);
}

inline void shmem_signal_set(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)
{
    shmem_ctx_signal_set(ctx, sig_addr, signal, pe);
}
";

pub(super) fn c11() -> String {
    let mut text = C11_HEAD.to_owned();
    for list in lists() {
        text += &format!("\n#define FARSIDE_SHMEM_{}(prefix, name) \\\n", list.label);
        let lines = list.distinct();
        let lines = lines.iter().map(|Type { name, c, .. }| {
            let qualified =
                |qualifier: &str| format!(" \\\n    {qualifier} {c} *: prefix##{name}##name,");
            let more = if list.label == WAIT.label { qualified("volatile") } else { String::new() };
            format!("    {c} *: prefix##{name}##name,{}{more}", qualified("const"))
        });
        text += &lines.collect::<Vec<_>>().join(" \\\n");
        text += "\n";
    }
    text += "\n";
    for (family, list) in generic_families() {
        let Family { name, parameters, .. } = family;
        let by = if family.has_context_form {
            "EITHER"
        } else if parameters.starts_with("shmem_team_t") {
            "SECOND"
        } else {
            "FIRST"
        };
        text += &format!(
            "#define shmem_{name}(...) \\\n    \
             FARSIDE_SHMEM_BY_{by}(FARSIDE_SHMEM_{}, {}, __VA_ARGS__)\n",
            list.label,
            function(name)
        );
    }
    text + "\n#endif\n"
}

pub(super) fn cpp() -> String {
    let mut text = CPP_HEAD.to_owned();
    for list in lists() {
        text += &format!("\n#define FARSIDE_SHMEM_{}(overload) \\\n", list.label);
        let lines = list.distinct();
        let lines = lines.iter().map(|Type { name, c, .. }| format!("    overload({name}, {c})"));
        text += &lines.collect::<Vec<_>>().join(" \\\n");
        text += "\n";
    }
    for (family, list) in generic_families() {
        text += "\n#define FARSIDE_SHMEM_OVERLOAD(N, T) \\\n";
        text += &overload(family, false);
        if family.has_context_form {
            text += " \\\n";
            text += &overload(family, true);
        }
        text += "\n";
        if is_function(family.name) {
            // The function of this name is for `long`, and has C's linkage.
            for Type { name, c, .. } in list.distinct().iter().filter(|kind| kind.name != "long") {
                text += &format!("FARSIDE_SHMEM_OVERLOAD({name}, {c})\n");
            }
        } else {
            text += &format!("FARSIDE_SHMEM_{}(FARSIDE_SHMEM_OVERLOAD)\n", list.label);
        }
        if list.label == REDUCE_ARITHMETIC.label {
            text += C_COMPLEX;
        }
        text += "#undef FARSIDE_SHMEM_OVERLOAD\n";
        if matches!(family.name, "wait_until" | "test") {
            text += &overloads_for_volatile(family);
        }
    }
    text += "\n";
    for list in lists() {
        text += &format!("#undef FARSIDE_SHMEM_{}\n", list.label);
    }
    text + "\n}\n#endif\n"
}

/// Overloads for C's complex numbers, which call those of the typed names.
const C_COMPLEX: &str = "\
#ifdef FARSIDE_SHMEM_C_COMPLEX
FARSIDE_SHMEM_OVERLOAD(complexf, farside_shmem_c_complexf)
FARSIDE_SHMEM_OVERLOAD(complexd, farside_shmem_c_complexd)
#endif
";

/// Returns the overloads for words that are volatile, which call those of the typed names.
fn overloads_for_volatile(family: &Family) -> String {
    let overload = overload(family, false).replace("(T *ivar", "(volatile T *ivar");
    format!(
        "#define FARSIDE_SHMEM_OVERLOAD(N, T) \\\n{overload}\n\
         FARSIDE_SHMEM_{}(FARSIDE_SHMEM_OVERLOAD)\n#undef FARSIDE_SHMEM_OVERLOAD\n",
        WAIT.label
    )
}

/// Returns one overload, as lines of a macro of the type's name `N` and the type `T`.
fn overload(family: &Family, with_context: bool) -> String {
    let Family { returns, name, parameters, .. } = family;
    let (form, context) = if with_context { ("ctx_", "shmem_ctx_t ctx, ") } else { ("", "") };
    let parameters = format!("{context}{parameters}");
    let arguments: Vec<_> = parameters
        .split(", ")
        .map(|parameter| parameter.rsplit([' ', '*']).next().unwrap_or_default())
        .collect();
    let arguments = arguments.join(", ");
    let returning = if *returns == "void" { "" } else { "return " };
    let called = function(name);
    let lines = [
        filled("", &format!("inline {returns} shmem_{name}({parameters})"), "    ", ','),
        "{\n".to_owned(),
        filled(
            "    ",
            &format!("{returning}shmem_{form}##N##_{called}({arguments});"),
            "    ",
            ',',
        ),
        "}\n".to_owned(),
    ]
    .concat();
    lines.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join(" \\\n")
}

/// Returns the function that a type-generic name calls. Old names of atomics accept all types that
/// the current ones do.
fn function(name: &'static str) -> &'static str {
    match name {
        "fetch" => "atomic_fetch",
        "set" => "atomic_set",
        "cswap" => "atomic_compare_swap",
        "swap" => "atomic_swap",
        "finc" => "atomic_fetch_inc",
        "inc" => "atomic_inc",
        "fadd" => "atomic_fetch_add",
        "add" => "atomic_add",
        current => current,
    }
}

fn generic_families() -> impl Iterator<Item = (&'static Family, &'static List)> {
    let families = SECTIONS.iter().flat_map(|section| section.families);
    families.filter_map(|family| Some((family, family.generic?)))
}

/// Returns whether a function without a type in its name has this name, too.
fn is_function(name: &str) -> bool {
    let mut families = SECTIONS.iter().flat_map(|section| section.families);
    families.any(|family| family.name == name && matches!(family.over, Over::One))
}

/// Returns the lists that type-generic names use, each once.
fn lists() -> Vec<&'static List> {
    let mut lists: Vec<&'static List> = Vec::new();
    for (_, list) in generic_families() {
        if !lists.iter().any(|known| known.label == list.label) {
            lists.push(list);
        }
    }
    lists
}
