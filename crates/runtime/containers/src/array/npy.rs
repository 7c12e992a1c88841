//! Arrays as files in NumPy's format, written and read by all members together.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use farside_fabric::strided::walk;
use farside_fabric::{Error, Result};
use farside_rma::{Complex, Plain, World};
use zerocopy::IntoBytes;

use super::area::{Area, strides};
use super::math::is_first;
use super::{Builder, GlobalArray};
use crate::map::{agree, check};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Headers are padded so that the data begins at a multiple of this.
const ALIGN: usize = 64;
const HEADER_MAX: usize = 1 << 16;

/// Elements that NumPy has a name for.
pub trait Element: Plain {
    /// The name, such as `<f8`.
    const DESCR: &'static str;
}

macro_rules! elements {
    ($($type:ty => $descr:literal),* $(,)?) => {
        $(impl Element for $type { const DESCR: &'static str = $descr; })*
    };
}

elements! {
    f32 => "<f4", f64 => "<f8",
    i8 => "|i1", i16 => "<i2", i32 => "<i4", i64 => "<i8",
    u8 => "|u1", u16 => "<u2", u32 => "<u4", u64 => "<u8",
    Complex<f32> => "<c8", Complex<f64> => "<c16",
}

impl<T: Element> GlobalArray<'_, T> {
    /// Writes the array into a file that all members reach by this path, as `numpy.load` reads it.
    /// Collective.
    ///
    /// ```
    /// # use farside::GlobalArray;
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let file = &scratch.path().join("a.npy");
    /// farside::local(3, |world| {
    ///     let a = GlobalArray::<f32>::new(world, &[5, 4])?;
    ///     a.put_value(&[4, 3], 1.5)?;
    ///     a.save_npy(file)?;
    ///     let b = GlobalArray::<f32>::load_npy(world, file)?;
    ///     assert_eq!((b.shape(), b.get_value(&[4, 3])?), (&[5, 4][..], 1.5));
    ///     a.sync()?;
    ///     a.free()?;
    ///     b.free()
    /// })?;
    /// # Ok::<(), farside::Error>(())
    /// ```
    #[track_caller]
    pub fn save_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.sync()?;
        let header = header(T::DESCR, self.shape());
        let begin = || -> std::io::Result<()> {
            let mut file = File::create(path)?;
            file.write_all(&header)?;
            file.set_len((header.len() + self.area().len() * size_of::<T>()) as u64)
        };
        agree(self.team(), path, "write", if is_first(self) { begin() } else { Ok(()) })?;
        let write = || -> Result<()> {
            let failed = |error: std::io::Error| {
                Error::File(format!("cannot write {}: {error}", path.display()))
            };
            let mut file = OpenOptions::new().write(true).open(path).map_err(failed)?;
            for area in self.own_blocks().collect::<Vec<Area>>() {
                let block = self.get(area)?;
                for (row, at) in block.rows().into_iter().zip(self.rows(&area)) {
                    file.seek(SeekFrom::Start((header.len() + at * size_of::<T>()) as u64))
                        .map_err(failed)?;
                    file.write_all(row.to_vec().as_bytes()).map_err(failed)?;
                }
            }
            file.flush().map_err(failed)
        };
        check(self.team(), path, write())
    }

    /// Reads a file of the array's shape into it. Collective.
    #[track_caller]
    pub fn read_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.sync()?;
        let read = || -> Result<()> {
            let (mut file, header) = open::<T>(path)?;
            if header.shape != self.shape() {
                let what = format!(
                    "{} holds an array of shape {:?}, not {:?}",
                    path.display(),
                    header.shape,
                    self.shape()
                );
                return Err(Error::File(what));
            }
            let failed = |error: std::io::Error| {
                Error::File(format!("cannot read {}: {error}", path.display()))
            };
            for area in self.own_blocks().collect::<Vec<Area>>() {
                let mut block = vec![T::new_zeroed(); area.len()];
                let len = area.shape().last().copied().unwrap_or(1);
                for (row, at) in block.chunks_exact_mut(len).zip(self.rows(&area)) {
                    file.seek(SeekFrom::Start((header.bytes + at * size_of::<T>()) as u64))
                        .map_err(failed)?;
                    file.read_exact(row.as_mut_bytes()).map_err(failed)?;
                }
                self.put_slice(area, &block)?;
            }
            Ok(())
        };
        check(self.team(), path, read())?;
        self.sync()
    }

    /// Returns the first element of each row of an area, as its number in the whole array.
    fn rows(&self, area: &Area) -> Vec<usize> {
        let (strides, extents) = (strides(self.shape()), area.extents());
        let first = area.low().iter().zip(strides).map(|(low, stride)| low * stride).sum();
        let last = area.dimensions() - 1;
        let mut rows = Vec::with_capacity(extents[..last].iter().product());
        walk([first], &extents[..last], [&strides[..last]], &mut |[row]| {
            rows.push(row);
            true
        });
        rows
    }
}

impl<'w, T: Element> GlobalArray<'w, T> {
    /// Makes an array of what a file in NumPy's format holds, in regular blocks over all ranks.
    /// Collective.
    pub fn load_npy(world: &'w World, path: impl AsRef<Path>) -> Result<GlobalArray<'w, T>> {
        let path = path.as_ref();
        let header = check(&world.team(), path, open::<T>(path).map(|(_, header)| header))?;
        let array = Builder::new(&header.shape).create(world)?;
        array.read_npy(path)?;
        Ok(array)
    }
}

fn header(descr: &str, shape: &[usize]) -> Vec<u8> {
    let extents: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}");
    let before = MAGIC.len() + 4;
    let bytes = (before + text.len() + 1).next_multiple_of(ALIGN);
    text.extend(std::iter::repeat_n(' ', bytes - before - text.len() - 1));
    text.push('\n');
    let len = (text.len() as u16).to_le_bytes();
    [MAGIC, &[1, 0][..], &len, text.as_bytes()].concat()
}

struct Header {
    shape: Vec<usize>,
    /// Where the data begins.
    bytes: usize,
}

fn open<T: Element>(path: &Path) -> Result<(File, Header)> {
    let failed =
        |error: std::io::Error| Error::File(format!("cannot read {}: {error}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    let mut start = [0; 12];
    file.read_exact(&mut start[..10]).map_err(failed)?;
    if start[..6] != *MAGIC {
        return Err(Error::File(format!("{} is not a file in NumPy's format", path.display())));
    }
    let (len, before) = match start[6] {
        1 => (usize::from(u16::from_le_bytes([start[8], start[9]])), 10),
        _ => {
            file.read_exact(&mut start[10..]).map_err(failed)?;
            (u32::from_le_bytes([start[8], start[9], start[10], start[11]]) as usize, 12)
        }
    };
    if len > HEADER_MAX {
        return Err(Error::File(format!(
            "{} begins with a header of {len} bytes, which is too long",
            path.display()
        )));
    }
    let mut text = vec![0; len];
    file.read_exact(&mut text).map_err(failed)?;
    let shape = parse(&String::from_utf8_lossy(&text), T::DESCR)
        .map_err(|problem| Error::File(format!("{}: {problem}", path.display())))?;
    Ok((file, Header { shape, bytes: before + len }))
}

/// The shape that a header says, if its elements are as expected.
fn parse(text: &str, descr: &str) -> Result<Vec<usize>, String> {
    let value = |key: &str| -> Result<&str, String> {
        let at = text
            .find(&format!("'{key}':"))
            .ok_or_else(|| format!("the header {text:?} has no {key}"))?;
        Ok(text[at + key.len() + 3..].trim_start())
    };
    let found = value("descr")?;
    let found = found.strip_prefix('\'').and_then(|rest| rest.split('\'').next()).unwrap_or(found);
    if found != descr {
        return Err(format!(
            "its elements have dtype {found:?}, those of the array have {descr:?}"
        ));
    }
    if !value("fortran_order")?.starts_with("False") {
        return Err(
            "its first dimension varies fastest; save it with numpy.ascontiguousarray".into()
        );
    }
    let shape = value("shape")?.strip_prefix('(').and_then(|rest| rest.split(')').next());
    let shape = shape.ok_or_else(|| format!("the header {text:?} has no shape"))?;
    let extents = shape.split(',').map(str::trim).filter(|extent| !extent.is_empty());
    let extents = extents
        .map(|extent| extent.parse::<usize>().map_err(|_| format!("{shape:?} is not a shape")));
    extents.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_as_numpy_writes_them() {
        let header = header("<f8", &[3, 4]);
        assert_eq!(header.len() % ALIGN, 0);
        assert_eq!(&header[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let text = std::str::from_utf8(&header[10..]).unwrap();
        assert!(
            text.starts_with("{'descr': '<f8', 'fortran_order': False, 'shape': (3,4,), }")
                && text.ends_with('\n')
        );
        assert_eq!(parse(text, "<f8"), Ok(vec![3, 4]));
        assert!(parse(text, "<f4").unwrap_err().contains("<f8"));
        assert_eq!(
            parse("{'descr': '|u1', 'fortran_order': False, 'shape': (7,), }", "|u1"),
            Ok(vec![7])
        );
        assert!(parse("{'descr': '|u1', 'fortran_order': True, 'shape': (7,), }", "|u1").is_err());
        assert!(parse("nonsense", "|u1").is_err());
    }
}
