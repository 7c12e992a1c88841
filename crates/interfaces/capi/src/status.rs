//! What calls return, and what they say of errors.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use farside::{Error, Result};

/// Success.
pub const FARSIDE_OK: c_int = 0;
/// A rank, a node or a member that does not exist.
pub const FARSIDE_ERROR_RANK: c_int = 1;
/// An access outside of the memory that it was meant for.
pub const FARSIDE_ERROR_BOUNDS: c_int = 2;
/// Memory that was freed, or never allocated.
pub const FARSIDE_ERROR_SEGMENT: c_int = 3;
/// An argument that makes no sense: a null pointer, a handle that was freed, an unknown code.
pub const FARSIDE_ERROR_ARGUMENT: c_int = 4;
/// A call that the rules forbid at this moment.
pub const FARSIDE_ERROR_STATE: c_int = 5;
/// A broken rule of epochs.
pub const FARSIDE_ERROR_EPOCH: c_int = 6;
/// Ranks that came to one collective with different calls or arguments.
pub const FARSIDE_ERROR_DISAGREEMENT: c_int = 7;
/// An operation that this machine or fabric cannot do.
pub const FARSIDE_ERROR_UNSUPPORTED: c_int = 8;
/// A handler that is not registered, or that failed.
pub const FARSIDE_ERROR_HANDLER: c_int = 9;
/// A rank that the call depends on has ended; farside_error_rank tells which.
pub const FARSIDE_ERROR_LOST: c_int = 10;
/// A lock one of whose members was lost; farside_error_rank tells which.
pub const FARSIDE_ERROR_POISONED: c_int = 11;
/// The time given for a wait has passed.
pub const FARSIDE_ERROR_TIMED_OUT: c_int = 12;
/// Memory, or a store of fixed size, is used up.
pub const FARSIDE_ERROR_MEMORY: c_int = 13;
/// A limit of the fabric or of the job was passed.
pub const FARSIDE_ERROR_LIMIT: c_int = 14;
/// A variable, option, profile or list of hosts that makes no sense.
pub const FARSIDE_ERROR_SETTING: c_int = 15;
/// A file that cannot be read or written.
pub const FARSIDE_ERROR_FILE: c_int = 16;
/// A network, or its library, that does not do what it is needed for.
pub const FARSIDE_ERROR_NETWORK: c_int = 17;
/// The operating system refused.
pub const FARSIDE_ERROR_SYSTEM: c_int = 18;
/// The job that this process was started for is not there, or not what it should be.
pub const FARSIDE_ERROR_JOIN: c_int = 19;
/// A failure that the program itself has found and returned.
pub const FARSIDE_ERROR_PROGRAM: c_int = 20;
/// A state that cannot be: a defect of farside.
pub const FARSIDE_ERROR_INTERNAL: c_int = 21;

/// In place of a rank: none.
pub const FARSIDE_NO_RANK: u32 = u32::MAX;

/// The names of the codes, by number.
pub(crate) const NAMES: [&CStr; 22] = [
    c"FARSIDE_OK",
    c"FARSIDE_ERROR_RANK",
    c"FARSIDE_ERROR_BOUNDS",
    c"FARSIDE_ERROR_SEGMENT",
    c"FARSIDE_ERROR_ARGUMENT",
    c"FARSIDE_ERROR_STATE",
    c"FARSIDE_ERROR_EPOCH",
    c"FARSIDE_ERROR_DISAGREEMENT",
    c"FARSIDE_ERROR_UNSUPPORTED",
    c"FARSIDE_ERROR_HANDLER",
    c"FARSIDE_ERROR_LOST",
    c"FARSIDE_ERROR_POISONED",
    c"FARSIDE_ERROR_TIMED_OUT",
    c"FARSIDE_ERROR_MEMORY",
    c"FARSIDE_ERROR_LIMIT",
    c"FARSIDE_ERROR_SETTING",
    c"FARSIDE_ERROR_FILE",
    c"FARSIDE_ERROR_NETWORK",
    c"FARSIDE_ERROR_SYSTEM",
    c"FARSIDE_ERROR_JOIN",
    c"FARSIDE_ERROR_PROGRAM",
    c"FARSIDE_ERROR_INTERNAL",
];

/// This thread's last error.
struct LastError {
    text: CString,
    rank: u32,
}

thread_local! {
    static LAST: RefCell<Option<LastError>> = const { RefCell::new(None) };
}

/// Returns the text of this thread's last error: the value that was wrong and the way out. The
/// text is empty if there was none, and stays until the next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn farside_error_text() -> *const c_char {
    let text = LAST.try_with(|last| last.borrow().as_ref().map(|last| last.text.as_ptr()));
    text.ok().flatten().unwrap_or(c"".as_ptr())
}

/// Returns the rank whose loss this thread's last error reports, or FARSIDE_NO_RANK if it reports
/// none.
#[unsafe(no_mangle)]
pub extern "C" fn farside_error_rank() -> u32 {
    let rank = LAST.try_with(|last| last.borrow().as_ref().map(|last| last.rank));
    rank.ok().flatten().unwrap_or(FARSIDE_NO_RANK)
}

/// Returns the name of a code, such as "FARSIDE_ERROR_LOST"; for any other number
/// "FARSIDE_ERROR_UNKNOWN".
#[unsafe(no_mangle)]
pub extern "C" fn farside_error_name(code: c_int) -> *const c_char {
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    name.map_or(c"FARSIDE_ERROR_UNKNOWN".as_ptr(), |name| name.as_ptr())
}

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn farside_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Runs a call and turns what comes of it into a code. No panic leaves it.
#[inline(always)]
pub(crate) fn guarded(call: impl FnOnce() -> Result<()>) -> c_int {
    // An error is dealt with inside, so that nothing but a number has to come out.
    let code = catch_unwind(AssertUnwindSafe(|| match call() {
        Ok(()) => FARSIDE_OK,
        Err(error) => failed(&error),
    }));
    code.unwrap_or_else(|panic| failed(&Error::Internal(panic_text(&*panic))))
}

/// Notes an error as this thread's last and returns its code.
#[cold]
fn failed(error: &Error) -> c_int {
    let text = CString::new(error.to_string().replace('\0', "?")).unwrap_or_default();
    let rank = error.lost_rank().map_or(FARSIDE_NO_RANK, |rank| rank.0);
    // A thread that is ending keeps no text; the code tells enough.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(LastError { text, rank }));
    error.class().code()
}

/// The text of a panic.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("farside panicked: {}", text.unwrap_or("it does not say why"))
}

/// An argument that makes no sense.
#[cold]
pub(crate) fn bad(text: impl Into<String>) -> Error {
    Error::InvalidArgument(text.into())
}

/// Where a call leaves a result.
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// Checks that the caller wants the result.
    ///
    /// # Safety
    ///
    /// The pointer is null or valid for a write until the call returns.
    #[inline]
    pub(crate) unsafe fn new(pointer: *mut T, name: &str) -> Result<Out<T>> {
        NonNull::new(pointer).map(Out).ok_or_else(|| null(name))
    }

    /// Leaves the result.
    #[inline]
    pub(crate) fn set(self, value: T) {
        // SAFETY: by the promise of `new`.
        unsafe { self.0.write(value) };
    }
}

#[cold]
fn null(name: &str) -> Error {
    bad(format!("`{name}` is null: the call needs memory there"))
}

/// The longest memory that a pointer can name.
const BYTES_MAX: usize = isize::MAX as usize;

#[cold]
fn too_long(name: &str, count: usize) -> Error {
    bad(format!("`{name}` cannot have {count} elements: no memory is that long"))
}

/// Checks what a caller gave as memory, and returns where it begins.
#[inline]
fn begin<T>(pointer: *const T, count: usize, name: &str) -> Result<*const T> {
    if count == 0 {
        return Ok(NonNull::dangling().as_ptr());
    }
    if pointer.is_null() {
        return Err(null(name));
    }
    if count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > BYTES_MAX) {
        return Err(too_long(name, count));
    }
    if !pointer.is_aligned() {
        return Err(bad(format!(
            "`{name}` ({pointer:p}) is not aligned to the {} bytes of its elements",
            align_of::<T>()
        )));
    }
    Ok(pointer)
}

/// What a caller gave to be read.
///
/// # Safety
///
/// The pointer is null or valid for reads of so many elements until the call returns.
#[inline]
pub(crate) unsafe fn input<'a, T>(pointer: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    let pointer = begin(pointer, count, name)?;
    // SAFETY: not null, aligned, not too long, and valid by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// What a caller gave to be written.
///
/// # Safety
///
/// The pointer is null or valid for writes of so many elements until the call returns.
#[inline]
pub(crate) unsafe fn output<'a, T>(
    pointer: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [T]> {
    let pointer = begin(pointer, count, name)?.cast_mut();
    // SAFETY: not null, aligned, not too long, and valid by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) })
}

/// Bytes that a caller gave to be read.
///
/// # Safety
///
/// As for [`input`].
#[inline]
pub(crate) unsafe fn bytes<'a>(
    pointer: *const c_void,
    count: usize,
    name: &str,
) -> Result<&'a [u8]> {
    // SAFETY: by the caller's promise.
    unsafe { input(pointer.cast(), count, name) }
}

/// Bytes that a caller gave to be written.
///
/// # Safety
///
/// As for [`output`].
#[inline]
pub(crate) unsafe fn bytes_mut<'a>(
    pointer: *mut c_void,
    count: usize,
    name: &str,
) -> Result<&'a mut [u8]> {
    // SAFETY: by the caller's promise.
    unsafe { output(pointer.cast(), count, name) }
}

/// Text that a caller gave; `None` for a null pointer.
///
/// # Safety
///
/// The pointer is null or a string that ends with a zero.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: by the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|_| bad(format!("`{name}` is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use farside::ErrorClass;

    use super::*;

    #[test]
    fn codes_and_names_are_those_of_the_classes() {
        assert_eq!(NAMES.len(), ErrorClass::ALL.len() + 1);
        for class in ErrorClass::ALL {
            let name = NAMES[class.code() as usize].to_str().unwrap();
            assert_eq!(name, format!("FARSIDE_ERROR_{}", class.name()));
            let line = format!("pub const {name}: c_int = {};", class.code());
            assert!(include_str!("status.rs").contains(&line), "{line}");
        }
    }

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(guarded(|| panic!("of a test")), FARSIDE_ERROR_INTERNAL);
        // SAFETY: the text is a string of the library.
        let text = unsafe { CStr::from_ptr(farside_error_text()) };
        assert_eq!(text.to_str(), Ok("farside panicked: of a test"));
        assert_eq!(farside_error_rank(), FARSIDE_NO_RANK);
    }

    #[test]
    fn memory_that_cannot_be_is_refused() {
        // SAFETY: nothing is read.
        unsafe {
            assert!(bytes(std::ptr::null(), 1, "data").unwrap_err().to_string().contains("null"));
            assert_eq!(bytes(std::ptr::null(), 0, "data"), Ok(&[][..]));
            let one = 1u8;
            let long = bytes(std::ptr::from_ref(&one).cast(), usize::MAX, "data");
            assert!(long.unwrap_err().to_string().contains("no memory is that long"));
            let numbers = [0u64; 2];
            let crooked = numbers.as_ptr().wrapping_byte_add(1);
            assert!(input(crooked, 1, "data").unwrap_err().to_string().contains("not aligned"));
        }
    }
}
