//! PMIx: the client library of the launcher's server, found when the program runs, so that building
//! and running without it need nothing.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use crate::pmi::{Error, PMIX_LIBRARY, Result, Session, StartDeadline};

/// The names under which the library is looked for, in this order. The number is that of its binary
/// interface, which versions 3 to 5 share.
const LIBRARIES: [&str; 2] = ["libpmix.so.2", "libpmix.so"];

/// The part of the library's interface that is used, as its headers declare it.
mod abi {
    use std::ffi::{c_char, c_int, c_void};

    pub(super) const SUCCESS: c_int = 0;
    pub(super) const RANK_WILDCARD: u32 = u32::MAX - 1;
    pub(super) const SCOPE_GLOBAL: u8 = 3;
    pub(super) const BOOL: u16 = 1;
    pub(super) const STRING: u16 = 3;
    pub(super) const INT: u16 = 6;
    pub(super) const UINT32: u16 = 14;

    #[repr(C)]
    #[derive(Clone, Copy)]
    pub(super) struct Proc {
        pub(super) space: [c_char; 256],
        pub(super) rank: u32,
    }

    #[repr(C)]
    #[derive(Clone, Copy)]
    pub(super) union Data {
        pub(super) flag: bool,
        pub(super) string: *mut c_char,
        pub(super) integer: c_int,
        pub(super) uint32: u32,
        pub(super) whole: [u64; 3],
    }

    #[repr(C)]
    pub(super) struct Value {
        pub(super) kind: u16,
        pub(super) data: Data,
    }

    #[repr(C)]
    pub(super) struct Info {
        pub(super) key: [c_char; 512],
        pub(super) flags: u32,
        pub(super) value: Value,
    }

    const _: () =
        assert!(size_of::<Proc>() == 260 && size_of::<Value>() == 32 && size_of::<Info>() == 552);

    pub(super) type Init = unsafe extern "C" fn(*mut Proc, *const Info, usize) -> c_int;
    pub(super) type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
    pub(super) type Commit = unsafe extern "C" fn() -> c_int;
    pub(super) type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int;
    pub(super) type Get = unsafe extern "C" fn(
        *const Proc,
        *const c_char,
        *const Info,
        usize,
        *mut *mut Value,
    ) -> c_int;
    pub(super) type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
    pub(super) type Text = unsafe extern "C" fn(c_int) -> *const c_char;
    pub(super) type Version = unsafe extern "C" fn() -> *const c_char;

    /// Any of them.
    pub(super) type Symbol = *mut c_void;
}

#[derive(Clone, Copy)]
struct Library {
    init: abi::Init,
    put: abi::Put,
    commit: abi::Commit,
    fence: abi::Fence,
    get: abi::Get,
    finalize: abi::Finalize,
    text: abi::Text,
    version: abi::Version,
}

/// The version of the PMIx library that there is, as it describes itself; none if there is no such
/// library.
pub(crate) fn library_version(named: Option<&str>) -> Option<String> {
    let library = Library::load(named).ok()?;
    // SAFETY: the function takes nothing and returns a string that stays.
    let text = unsafe { (library.version)() };
    (!text.is_null()).then(|| {
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    })
}

impl Library {
    fn load(named: Option<&str>) -> Result<Library> {
        let names: Vec<&str> = named.map_or(LIBRARIES.to_vec(), |name| vec![name]);
        let handle = names.iter().find_map(|name| open(name)).ok_or_else(|| {
            Error(format!(
                "this program was started by a PMIx launcher (PMIX_NAMESPACE is set), but {} \
                 cannot be loaded: {}; install the package libpmix2, or say where \
                 the launcher's library is with {PMIX_LIBRARY}",
                names.join(" or "),
                last_error()
            ))
        })?;
        let symbol = |name: &CStr| -> Result<abi::Symbol> {
            // SAFETY: the handle is that of a library that is never closed, the name a string with
            // an end.
            let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
            let why = || {
                format!(
                    "the PMIx library has no {}: {}; it is too old",
                    name.to_string_lossy(),
                    last_error()
                )
            };
            if found.is_null() { Err(Error(why())) } else { Ok(found) }
        };
        // SAFETY: these are the types that the library's headers declare its functions with.
        unsafe {
            Ok(Library {
                init: std::mem::transmute::<abi::Symbol, abi::Init>(symbol(c"PMIx_Init")?),
                put: std::mem::transmute::<abi::Symbol, abi::Put>(symbol(c"PMIx_Put")?),
                commit: std::mem::transmute::<abi::Symbol, abi::Commit>(symbol(c"PMIx_Commit")?),
                fence: std::mem::transmute::<abi::Symbol, abi::Fence>(symbol(c"PMIx_Fence")?),
                get: std::mem::transmute::<abi::Symbol, abi::Get>(symbol(c"PMIx_Get")?),
                finalize: std::mem::transmute::<abi::Symbol, abi::Finalize>(symbol(
                    c"PMIx_Finalize",
                )?),
                text: std::mem::transmute::<abi::Symbol, abi::Text>(symbol(c"PMIx_Error_string")?),
                version: std::mem::transmute::<abi::Symbol, abi::Version>(symbol(
                    c"PMIx_Get_version",
                )?),
            })
        }
    }
}

/// Opens a library, for good: its threads may outlive the last use of it.
fn open(name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    // SAFETY: a string with an end. Its initializers are those of a library that the user has
    // installed for this.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!handle.is_null()).then_some(handle)
}

fn last_error() -> String {
    // SAFETY: returns a string that stays until the next call of this family on this thread, or
    // nothing.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader does not say why".into();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A thread on which the library is called. The library does not say what it does when its server
/// or another process is gone: a call that does not return is given up, and the thread with it.
struct Caller {
    calls: Sender<Box<dyn FnOnce() + Send>>,
    deadline: Rc<StartDeadline>,
    /// The call that was given up.
    unanswered: Cell<Option<&'static str>>,
}

impl Caller {
    fn start(deadline: &Rc<StartDeadline>) -> Result<Caller> {
        let (calls, wanted) = channel::<Box<dyn FnOnce() + Send>>();
        let run = move || wanted.into_iter().for_each(|call| call());
        let thread = std::thread::Builder::new().name("farside-pmix".into()).spawn(run);
        thread.map_err(|error| {
            Error(format!("cannot start the thread that calls the PMIx library: {error}"))
        })?;
        Ok(Caller { calls, deadline: Rc::clone(deadline), unanswered: Cell::new(None) })
    }

    fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        if let Some(unanswered) = self.unanswered.get() {
            return Err(Error(format!("{name}: an earlier {unanswered} has not returned")));
        }
        let (sender, answer) = channel();
        let gone = || Error(format!("{name}: the thread that calls the PMIx library has ended"));
        // The answer to a call that was given up is dropped.
        let call = move || drop(sender.send(call()));
        self.calls.send(Box::new(call)).map_err(|_| gone())?;
        loop {
            let pause =
                self.deadline.pause(name).inspect_err(|_| self.unanswered.set(Some(name)))?;
            match answer.recv_timeout(pause) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
    }
}

pub(crate) struct Pmix {
    library: Library,
    caller: Caller,
    me: abi::Proc,
    size: u32,
}

impl Pmix {
    pub(crate) fn open(named: Option<&str>, deadline: &Rc<StartDeadline>) -> Result<Pmix> {
        let library = Library::load(named)?;
        let caller = Caller::start(deadline)?;
        let init = library.init;
        let (status, me) = caller.call("PMIx_Init", move || {
            let mut me = abi::Proc { space: [0; 256], rank: 0 };
            // SAFETY: `me` is there to be filled in; no further information is given.
            (unsafe { init(&mut me, null(), 0) }, me)
        })?;
        let mut session = Pmix { library, caller, me, size: 0 };
        session.check(status, "PMIx_Init").map_err(|error| {
            Error(format!(
                "{error}; is the launcher that set PMIX_NAMESPACE and PMIX_SERVER_URI… still \
                 there? To run this program alone, set {}=none",
                crate::pmi::PROTOCOL
            ))
        })?;
        let of_all = abi::Proc { rank: abi::RANK_WILDCARD, ..me };
        session.size = match session.look_up(&of_all, "pmix.job.size")? {
            Found::Number(size) if size > 0 => size,
            _ => {
                return Err(Error(
                    "the launcher's PMIx server does not say how large the job is".into(),
                ));
            }
        };
        Ok(session)
    }

    fn check(&self, status: c_int, call: &str) -> Result<()> {
        if status == abi::SUCCESS {
            return Ok(());
        }
        // SAFETY: takes a number and returns a string that stays.
        let text = unsafe { (self.library.text)(status) };
        let text = if text.is_null() {
            "unknown".into()
        } else {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(text) }.to_string_lossy()
        };
        Err(Error(format!("{call}: {text} ({status})")))
    }

    /// Returns the time that is left for the start, for a server that keeps time as well.
    fn seconds_left(&self) -> c_int {
        self.caller.deadline.seconds_left().min(c_int::MAX as u64) as c_int
    }

    fn look_up(&self, of: &abi::Proc, key: &str) -> Result<Found> {
        let name =
            CString::new(key).map_err(|_| Error(format!("the key {key:?} contains a zero")))?;
        let (get, of, seconds) = (self.library.get, *of, self.seconds_left());
        let (status, found) = self.caller.call("PMIx_Get", move || {
            let timeout = timeout(seconds);
            let mut value: *mut abi::Value = null_mut();
            // SAFETY: all that is pointed to lives until the call returns; it fills in a value that
            // is ours then.
            let status = unsafe { get(&of, name.as_ptr(), &timeout, 1, &mut value) };
            let is_there = status == abi::SUCCESS && !value.is_null();
            // SAFETY: the library has just filled it in, and it is looked at once.
            (status, is_there.then(|| unsafe { take(value) }))
        })?;
        self.check(status, "PMIx_Get")
            .map_err(|error| Error(format!("{error}, asked for {key:?}")))?;
        found.ok_or_else(|| Error(format!("PMIx_Get: no value of {key:?}")))
    }
}

enum Found {
    Number(u32),
    Text(String),
    /// A kind of value that we have not asked for.
    Other(u16),
}

/// Reads a value that the library has handed over, and frees it.
///
/// # Safety
///
/// It points to a value whose kind says which part of the union holds. It comes from the C heap,
/// like the string in it, and belongs to the caller.
unsafe fn take(value: *mut abi::Value) -> Found {
    // SAFETY: as promised.
    unsafe {
        let found = match (*value).kind {
            abi::UINT32 => Found::Number((*value).data.uint32),
            abi::STRING if !(*value).data.string.is_null() => {
                let text = CStr::from_ptr((*value).data.string).to_string_lossy().into_owned();
                libc::free((*value).data.string.cast());
                Found::Text(text)
            }
            other => Found::Other(other),
        };
        libc::free(value.cast());
        found
    }
}

/// The wish that a call end in time.
fn timeout(seconds: c_int) -> abi::Info {
    let mut data = abi::Data { whole: [0; 3] };
    data.integer = seconds;
    info("pmix.timeout", abi::INT, data)
}

fn info(key: &str, kind: u16, data: abi::Data) -> abi::Info {
    let mut info = abi::Info { key: [0; 512], flags: 0, value: abi::Value { kind, data } };
    for (to, &from) in info.key.iter_mut().take(511).zip(key.as_bytes()) {
        *to = from as c_char;
    }
    info
}

impl Session for Pmix {
    fn rank(&self) -> u32 {
        self.me.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn value_bytes_max(&self) -> usize {
        4096
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        let bad = |_| Error(format!("the key {key:?} or its value contains a zero"));
        let (name, text) = (CString::new(key).map_err(bad)?, CString::new(value).map_err(bad)?);
        let put = self.library.put;
        let status = self.caller.call("PMIx_Put", move || {
            let mut value = abi::Value { kind: abi::STRING, data: abi::Data { whole: [0; 3] } };
            value.data.string = text.as_ptr().cast_mut();
            // SAFETY: the library copies key and value before it returns.
            unsafe { put(abi::SCOPE_GLOBAL, name.as_ptr(), &mut value) }
        })?;
        self.check(status, "PMIx_Put")
    }

    fn fence(&mut self) -> Result<()> {
        let commit = self.library.commit;
        // SAFETY: takes nothing.
        let status = self.caller.call("PMIx_Commit", move || unsafe { commit() })?;
        self.check(status, "PMIx_Commit")?;
        let (fence, seconds) = (self.library.fence, self.seconds_left());
        let all = abi::Proc { rank: abi::RANK_WILDCARD, ..self.me };
        let status = self.caller.call("PMIx_Fence", move || {
            let mut data = abi::Data { whole: [0; 3] };
            data.flag = true;
            let wishes = [info("pmix.collect", abi::BOOL, data), timeout(seconds)];
            // SAFETY: all that is pointed to lives until the call returns.
            unsafe { fence(&all, 1, wishes.as_ptr(), wishes.len()) }
        })?;
        self.check(status, "PMIx_Fence").map_err(|error| {
            Error(format!("{error}; has one of the job's processes ended before it joined?"))
        })
    }

    fn get(&mut self, from: u32, key: &str) -> Result<String> {
        match self.look_up(&abi::Proc { rank: from, ..self.me }, key)? {
            Found::Text(text) => Ok(text),
            Found::Number(_) => Err(Error(format!("PMIx_Get: {key:?} is a number"))),
            Found::Other(kind) => Err(Error(format!("PMIx_Get: {key:?} is of kind {kind}"))),
        }
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let finalize = self.library.finalize;
        // SAFETY: takes no further information. The library counts its users in this process.
        let status = self.caller.call("PMIx_Finalize", move || unsafe { finalize(null(), 0) })?;
        self.check(status, "PMIx_Finalize")
    }
}
