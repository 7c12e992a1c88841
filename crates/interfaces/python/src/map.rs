//! Hash tables over all members of a team, with keys and values of numpy's dtypes.

use farside::map::{Options, Synchronization};
use farside::raw::Number;
use farside::{Context, Op, Result, rw};
use numpy::{PyArrayDescr, PyArrayDescrMethods as _, PyUntypedArrayMethods as _};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::array::{self, as_array, as_summand, plain_dtype, scalar};
use crate::error::{bad_argument, unsupported};
use crate::made::Made;
use crate::number::{bytes_of, folder, number_of};
use crate::team::Team;

/// The longest key and value in bytes.
const KEY_BYTES_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 256;

/// A hash table whose entries are spread over the members of a team. Keys are compared as bytes;
/// keys and values are of dtypes that were given when it was made, such as `"i8"` or `"S20"`.
#[pyclass(frozen, module = "farside")]
pub(crate) struct HashMap {
    made: Made<Box<dyn Table>>,
    key: Kind,
    value: Kind,
    /// True if an operation may wait: for another node, or for a lock.
    is_slow: bool,
}

/// A dtype, and what is known of it.
struct Kind {
    descr: Py<PyArrayDescr>,
    number: Option<Number>,
    item: usize,
}

impl Kind {
    fn read(dtype: &Bound<'_, PyAny>, most: usize, what: &str) -> PyResult<Kind> {
        let descr = plain_dtype(dtype)?;
        let item = descr.itemsize();
        if item > most {
            let text = format!("a {what} has at most {most} bytes, not {item} ({descr})");
            return Err(unsupported(dtype.py(), text));
        }
        Ok(Kind { number: number_of(&descr), descr: descr.unbind(), item })
    }

    /// Returns the bytes of a key, which the dtype can hold: another would be cut or rounded, and
    /// found for keys that are not equal.
    fn key_bytes(&self, key: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        let py = key.py();
        let descr = self.descr.bind(py);
        // An integer of Python that fits is what it was.
        let integer = self.number.filter(|_| b"iu".contains(&descr.kind()));
        if let Some((bytes, len)) = integer.and_then(|number| bytes_of(number, key)) {
            return Ok(bytes[..len].to_vec());
        }
        let bytes = self.bytes(key)?;
        // Numbers with a fraction are rounded as numpy rounds them; records compare as they are.
        if !b"biuSU".contains(&descr.kind()) {
            return Ok(bytes);
        }
        let held = self.value(py, bytes.clone())?;
        let is_of_kind = match descr.kind() {
            b'S' => key.is_instance_of::<PyBytes>(),
            b'U' => key.is_instance_of::<PyString>(),
            _ => false,
        };
        let is_same = if is_of_kind {
            held.eq(key)?
        } else {
            let key = py.import("numpy")?.call_method1("asarray", (key,))?;
            let back = held.call_method1("astype", (key.getattr("dtype")?,))?;
            back.eq(key)?
        };
        if is_same {
            return Ok(bytes);
        }
        Err(bad_argument(py, format!("{} is not a key of dtype {descr}", key.repr()?)))
    }

    /// Returns the bytes of a value.
    fn bytes(&self, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        if let Some((bytes, len)) = self.number.and_then(|number| bytes_of(number, value)) {
            return Ok(bytes[..len].to_vec());
        }
        let array = as_array(value, self.descr.bind(value.py()))?;
        if array.len() != 1 {
            let text = format!("expected one element, not an array of shape {:?}", array.shape());
            return Err(bad_argument(value.py(), text));
        }
        // SAFETY: an array of one element has its bytes, for as long as it lives.
        Ok(unsafe { std::slice::from_raw_parts(array::data(&array), self.item) }.to_vec())
    }

    /// Returns the value that bytes are.
    fn value<'py>(&self, py: Python<'py>, mut bytes: Vec<u8>) -> PyResult<Bound<'py, PyAny>> {
        scalar(self.descr.bind(py), &mut bytes)
    }
}

/// A change of a value: what it was, if there was one, and what it becomes.
type Change<'a> = &'a dyn Fn(Option<&[u8]>) -> Option<Vec<u8>>;

/// A table whose keys and values are bytes, padded with zeros.
trait Table {
    fn get(&self, context: &Context, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn insert(&self, context: &Context, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>>;
    fn insert_new(&self, context: &Context, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>>;
    fn remove(&self, context: &Context, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn update(&self, context: &Context, key: &[u8], change: Change<'_>) -> Result<Option<Vec<u8>>>;
    fn len(&self, context: &Context) -> Result<usize>;
    fn own_entries(&self, context: &Context) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;
    fn recover(&mut self, survivors: &farside::Team<'_>) -> Result<()>;
    fn free(self: Box<Self>, team: &farside::Team<'_>) -> Result<()>;
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}

fn unpadded<const N: usize>(bytes: Option<[u8; N]>) -> Option<Vec<u8>> {
    bytes.map(|bytes| bytes.to_vec())
}

impl<const K: usize, const V: usize> Table for farside::HashMap<[u8; K], [u8; V]> {
    fn get(&self, context: &Context, key: &[u8]) -> Result<Option<Vec<u8>>> {
        farside::HashMap::get(self, context, padded(key)).map(unpadded)
    }

    fn insert(&self, context: &Context, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        farside::HashMap::insert(self, context, padded(key), padded(value)).map(unpadded)
    }

    fn insert_new(&self, context: &Context, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        farside::HashMap::insert_new(self, context, padded(key), padded(value)).map(unpadded)
    }

    fn remove(&self, context: &Context, key: &[u8]) -> Result<Option<Vec<u8>>> {
        farside::HashMap::remove(self, context, padded(key)).map(unpadded)
    }

    fn update(&self, context: &Context, key: &[u8], change: Change<'_>) -> Result<Option<Vec<u8>>> {
        let change =
            |old: Option<[u8; V]>| change(old.as_ref().map(|old| &old[..])).map(|new| padded(&new));
        farside::HashMap::update(self, context, padded(key), change).map(unpadded)
    }

    fn len(&self, context: &Context) -> Result<usize> {
        farside::HashMap::len(self, context)
    }

    fn own_entries(&self, context: &Context) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut entries = Vec::new();
        self.for_each_own(context, |key, value| entries.push((key.to_vec(), value.to_vec())))?;
        Ok(entries)
    }

    fn recover(&mut self, survivors: &farside::Team<'_>) -> Result<()> {
        farside::HashMap::recover(self, survivors)
    }

    fn free(self: Box<Self>, team: &farside::Team<'_>) -> Result<()> {
        farside::HashMap::free(*self, team)
    }
}

/// Makes a table of the least lengths that keys and values fit into.
fn make_table(
    team: &farside::Team<'_>,
    (key, value): (usize, usize),
    options: &Options,
) -> Result<Box<dyn Table>> {
    macro_rules! values {
        ($key:literal; $($value:literal)*) => {
            $(if value <= $value {
                let map = farside::HashMap::<[u8; $key], [u8; $value]>::with(team, options)?;
                return Ok(Box::new(map));
            })*
        };
    }
    macro_rules! keys {
        ($($key:literal)*) => {
            $(if key <= $key {
                values!($key; 8 16 32 64 128 256);
            })*
        };
    }
    keys!(8 16 32 64);
    Err(farside::Error::Internal(format!("no table for keys of {key} and values of {value} bytes")))
}

#[pymethods]
impl Team {
    /// Makes a hash table of keys and values of two dtypes. Collective.
    #[pyo3(signature = (key, value, slots=1024, reserve_bytes=None, locked=false))]
    fn hash_map(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        slots: usize,
        reserve_bytes: Option<usize>,
        locked: bool,
    ) -> PyResult<HashMap> {
        let (py, team) = (key.py(), &self.shared);
        let key = Kind::read(key, KEY_BYTES_MAX, "key")?;
        let value = Kind::read(value, VALUE_BYTES_MAX, "value")?;
        let synchronization = match locked {
            true => Synchronization::Locked(rw::Kind::Default),
            false => Synchronization::Atomics,
        };
        let options = Options { synchronization, slots, reserve_bytes };
        let sizes = (key.item, value.item);
        let table = team.run(py, |team| make_table(team, sizes, &options))?;
        let is_slow = locked || !team.access.is_one_node;
        Ok(HashMap { made: Made::new(team, "map", table), key, value, is_slow })
    }
}

impl HashMap {
    /// Runs an operation on the table.
    fn run<R>(
        &self,
        py: Python<'_>,
        operation: impl FnOnce(&dyn Table, &Context) -> Result<R>,
    ) -> PyResult<R> {
        self.made.run(py, self.is_slow, |table, context| operation(&**table, context))
    }

    fn found<'py>(
        &self,
        py: Python<'py>,
        found: Option<Vec<u8>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        found.map(|bytes| self.value.value(py, bytes)).transpose()
    }
}

#[pymethods]
impl HashMap {
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bytes = self.key.key_bytes(key)?;
        let found = self.run(py, |table, context| table.get(context, &bytes))?;
        self.found(py, found)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (self.key.key_bytes(key)?, self.value.bytes(value)?);
        self.run(py, |table, context| table.insert(context, &key, &value)).map(drop)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.pop(py, key)? {
            Some(_) => Ok(()),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = self.key.key_bytes(key)?;
        Ok(self.run(py, |table, context| table.get(context, &key))?.is_some())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.run(py, |table, context| table.len(context))
    }

    /// Returns the value of a key, or the default.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = self.key.key_bytes(key)?;
        let found = self.run(py, |table, context| table.get(context, &key))?;
        Ok(self.found(py, found)?.or(default))
    }

    /// Makes a key stand for a value; returns what it stood for before.
    fn insert<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (key, value) = (self.key.key_bytes(key)?, self.value.bytes(value)?);
        let old = self.run(py, |table, context| table.insert(context, &key, &value))?;
        self.found(py, old)
    }

    /// Makes a key stand for a value unless it stands for something, which is returned.
    fn insert_new<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (key, value) = (self.key.key_bytes(key)?, self.value.bytes(value)?);
        let old = self.run(py, |table, context| table.insert_new(context, &key, &value))?;
        self.found(py, old)
    }

    /// Removes the entry of a key; returns its value, or `None`.
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = self.key.key_bytes(key)?;
        let old = self.run(py, |table, context| table.remove(context, &key))?;
        self.found(py, old)
    }

    /// Adds to the value of a key, which is zero if there is none, and returns what it was before.
    /// Integers wrap.
    fn fetch_add<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let descr = self.value.descr.bind(py);
        let Some(sum) = folder(descr, Op::Sum) else {
            return Err(unsupported(py, format!("fetch_add of {descr}: only numbers have it")));
        };
        let value = as_summand(value, descr)?;
        let (key, value) = (self.key.key_bytes(key)?, self.value.bytes(&value)?);
        let change = |old: Option<&[u8]>| {
            let mut new = value.clone();
            if let Some(old) = old {
                sum.apply_all(&mut new, &old[..value.len()]);
            }
            Some(new)
        };
        let old = self.run(py, |table, context| table.update(context, &key, &change))?;
        self.value.value(py, old.unwrap_or_else(|| vec![0; self.value.item]))
    }

    /// Returns copies of the entries that this rank's own memory has, as pairs.
    fn own_items<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let entries = self.run(py, |table, context| table.own_entries(context))?;
        let item = |(key, value)| Ok((self.key.value(py, key)?, self.value.value(py, value)?));
        entries.into_iter().map(item).collect()
    }

    /// Makes a map with locks usable again after the loss of a member. Collective over
    /// `survivors`, a team of members that are all alive, made before the loss.
    fn recover(&self, py: Python<'_>, survivors: &Bound<'_, Team>) -> PyResult<()> {
        self.made.recover(py, survivors.get(), |table, team| table.recover(team))
    }

    /// Gives its memory back. Collective.
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        self.made.free(py, |table, team| table.free(team))
    }
}
