//! What only another program in Rust can do to the interface: a handler that panics.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

use farside_c::call::{farside_call, farside_serve};
use farside_c::job::{farside_context_t, farside_join, farside_leave};
use farside_c::status::{FARSIDE_ERROR_HANDLER, FARSIDE_OK, farside_error_text};

extern "C-unwind" fn panics(
    _: *mut c_void,
    _: u32,
    _: *const c_void,
    _: usize,
    _: *mut c_void,
    _: usize,
    _: *mut usize,
) -> c_int {
    panic!("as the test wants it");
}

#[test]
fn a_handler_that_panics_is_an_error_of_its_caller() {
    let mut world = farside_context_t { id: 0 };
    let mut number = 0;
    // SAFETY: all pointers are to memory of this function.
    unsafe {
        assert_eq!(farside_join(&mut world), FARSIDE_OK);
        assert_eq!(farside_serve(world, Some(panics), null_mut(), &mut number), FARSIDE_OK);
        for _ in 0..2 {
            let code = farside_call(world, 0, number, null_mut(), 0, null_mut(), 0, null_mut());
            assert_eq!(code, FARSIDE_ERROR_HANDLER);
            let text = CStr::from_ptr(farside_error_text()).to_string_lossy();
            assert!(text.contains("panicked"), "{text}");
        }
        assert_eq!(farside_leave(world), FARSIDE_OK);
    }
}
