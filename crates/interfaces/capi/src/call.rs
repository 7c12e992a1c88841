//! Handlers that run at a node, and calls of them.

use std::ffi::{c_int, c_void};

use farside::{Error, HandlerId, Node};

use crate::job::{context, farside_context_t};
use crate::status::{Out, bad, bytes, bytes_mut, guarded};

/// A handler: is given who calls and the request, and writes a reply of `room` bytes at most to
/// `reply` and its length to `reply_bytes`, which is 0 before. It returns 0, or a number of its own
/// that the caller is told with FARSIDE_ERROR_HANDLER. It runs in a thread of its own, must not
/// block, and must not use a context: what it remembers is in memory of windows of its node.
pub type farside_handler_t = Option<
    unsafe extern "C-unwind" fn(
        user: *mut c_void,
        from: u32,
        request: *const c_void,
        bytes: usize,
        reply: *mut c_void,
        room: usize,
        reply_bytes: *mut usize,
    ) -> c_int,
>;

/// The longest reply of a handler, in bytes.
pub const FARSIDE_REPLY_BYTES_MAX: usize = 1 << 16;

/// A handler of the caller, with the pointer that it is given.
struct Served {
    handler: unsafe extern "C-unwind" fn(
        *mut c_void,
        u32,
        *const c_void,
        usize,
        *mut c_void,
        usize,
        *mut usize,
    ) -> c_int,
    user: *mut c_void,
}

// SAFETY: that the pointer may be used by the handler's thread is the promise of the caller of
// `farside_serve`.
unsafe impl Send for Served {}

impl Served {
    /// Runs the handler. A request begins with the room that the caller has for a reply; a reply
    /// begins with what the handler returned.
    fn run(&self, from: u32, request: &[u8]) -> Vec<u8> {
        let Some((room, request)) = request.split_first_chunk::<8>() else {
            return (-1i32).to_le_bytes().to_vec();
        };
        let room = (u64::from_le_bytes(*room) as usize).min(FARSIDE_REPLY_BYTES_MAX);
        let mut reply = vec![0; room + 4];
        let mut written = 0;
        let (head, body) = reply.split_at_mut(4);
        // SAFETY: the handler is what the caller of `farside_serve` says it is; it reads and writes
        // no more than it is told.
        let code = unsafe {
            (self.handler)(
                self.user,
                from,
                request.as_ptr().cast(),
                request.len(),
                body.as_mut_ptr().cast(),
                room,
                &mut written,
            )
        };
        head.copy_from_slice(&code.to_le_bytes());
        reply.truncate(4 + written.min(room));
        reply
    }
}

/// Registers a handler with every node, and gives its number. Collective over all ranks: all
/// register the same handlers in the same order. A node runs one handler at a time, in the process
/// of one of its ranks, with that rank's `user`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_serve(
    world: farside_context_t,
    handler: farside_handler_t,
    user: *mut c_void,
    number: *mut u32,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let number = unsafe { Out::new(number, "number")? };
        let handler = handler.ok_or_else(|| bad("`handler` is null: there is nothing to run"))?;
        let served = Served { handler, user };
        let world = context(world)?.world()?;
        number.set(world.serve(move |_, from, request| served.run(from.0, request))?.0);
        Ok(())
    })
}

/// Has a node run a handler, and waits for its reply, which is written to `reply`, and its length
/// to `reply_bytes`, which may be null. The handler is told that there is `room` for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_call(
    context: farside_context_t,
    node: u32,
    number: u32,
    request: *const c_void,
    bytes: usize,
    reply: *mut c_void,
    room: usize,
    reply_bytes: *mut usize,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let (request, into) =
            unsafe { (self::bytes(request, bytes, "request")?, bytes_mut(reply, room, "reply")?) };
        let context = self::context(context)?.context();
        let message = [&(room as u64).to_le_bytes()[..], request].concat();
        let answer = context.call(Node(node), HandlerId(number), &message)?;
        let Some((code, answer)) = answer.split_first_chunk::<4>() else {
            return Err(Error::Internal("a handler of C sent back no code".into()));
        };
        match i32::from_le_bytes(*code) {
            0 => {}
            code => return Err(refused(node, number, code)),
        }
        let into = into.get_mut(..answer.len());
        into.ok_or_else(|| Error::Internal("a reply is longer than its room".into()))?
            .copy_from_slice(answer);
        if !reply_bytes.is_null() {
            // SAFETY: by the caller's promise.
            unsafe { Out::new(reply_bytes, "reply_bytes")? }.set(answer.len());
        }
        Ok(())
    })
}

/// A handler that returned a code of its own.
fn refused(node: u32, number: u32, code: i32) -> Error {
    HandlerReturned { node, number, code }.into()
}

/// The code that a handler has returned.
#[derive(Debug)]
struct HandlerReturned {
    node: u32,
    number: u32,
    code: i32,
}

impl std::fmt::Display for HandlerReturned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "handler {} at node {} returned {}", self.number, self.node, self.code)
    }
}

impl std::error::Error for HandlerReturned {}

impl farside::fabric::Fault for HandlerReturned {
    fn class(&self) -> farside::ErrorClass {
        farside::ErrorClass::Handler
    }
}
