//! What calls return, and what they say of errors.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use farside::{Error, Result};

/// Success; errors are the codes of [`farside::ErrorClass`].
pub(crate) const OK: c_int = 0;

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Returns the text of this thread's last error.
#[unsafe(no_mangle)]
extern "C" fn farside_mpi_error_text() -> *const c_char {
    TEXT.try_with(|text| text.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Runs a call and turns what comes of it into a code. No panic leaves it.
#[inline(always)]
pub(crate) fn guarded(call: impl FnOnce() -> Result<()>) -> c_int {
    let coded = || match call() {
        Ok(()) => OK,
        Err(error) => failed(error),
    };
    match catch_unwind(AssertUnwindSafe(coded)) {
        Ok(code) => code,
        Err(panic) => panicked(&*panic),
    }
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> c_int {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    failed(Error::Internal(text.unwrap_or("a panic without a message").into()))
}

#[cold]
#[expect(clippy::needless_pass_by_value, reason = "it is dropped here, and not at every call")]
fn failed(error: Error) -> c_int {
    let text = CString::new(error.to_string().replace('\0', "?")).unwrap_or_default();
    let _ = TEXT.try_with(|last| *last.borrow_mut() = text);
    error.class().code()
}
