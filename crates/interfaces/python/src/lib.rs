//! The Python interface of farside, as the module `farside._core`.
//!
//! - `access`: one thread's way into the job, and the release of the interpreter's lock;
//! - `array`, `number`, `selection`: numpy's arrays, kinds of numbers and basic indexing;
//! - `window`, `transfer`, `atomic`, `scope`: memory with a part on every member, and operations;
//! - `team`, `collective`, `world`: the job and its teams;
//! - `lock`, `epoch`, `map`, `global_array`: what stands on them;
//! - `error`: errors as exceptions.
//!
//! An object whose job was left stays: its calls raise `InvalidState`.

mod access;
mod array;
mod atomic;
mod collective;
mod context;
mod epoch;
mod error;
mod global_array;
mod lock;
mod made;
mod map;
mod number;
mod scope;
mod selection;
mod team;
mod transfer;
mod window;
mod world;

use pyo3::prelude::*;

/// The module `farside._core`.
#[pymodule(gil_used = true)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<team::Team>()?;
    module.add_class::<world::World>()?;
    module.add_class::<context::Context>()?;
    module.add_class::<window::Window>()?;
    module.add_class::<scope::Scope>()?;
    module.add_class::<lock::Lock>()?;
    module.add_class::<lock::RwLock>()?;
    module.add_class::<epoch::EpochWindow>()?;
    module.add_class::<map::HashMap>()?;
    module.add_class::<global_array::GlobalArray>()?;
    module.add_function(wrap_pyfunction!(world::join, module)?)?;
    Ok(())
}
