//! Watched memory: accesses are told of, and what is not watched still ends the process.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use farside_pager::{Allowed, Fault, Handler, Method, Watched, has_userfault, page_bytes};

const PAGES: usize = 4;

fn memory() -> NonNull<u8> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    // SAFETY: a new mapping, which stays for the rest of the test.
    let at = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            PAGES * page_bytes(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
        )
    };
    NonNull::new(at.unwrap().cast()).unwrap()
}

fn methods() -> Vec<Method> {
    if !has_userfault() {
        println!("skipped: userfaultfd, which this system does not allow");
    }
    [Method::Protect, Method::Userfault]
        .into_iter()
        .filter(|&method| method == Method::Protect || has_userfault())
        .collect()
}

/// Allows what is tried, and writes it down. A page is filled with its number when it is touched
/// first.
struct Diary {
    watched: Arc<Watched>,
    first: NonNull<u8>,
    faults: Mutex<Vec<Fault>>,
}

// SAFETY: the pointer is to memory of the process, and the rest is behind a lock.
unsafe impl Sync for Diary {}

// SAFETY: it touches the first mapping only, one thread at a time, and its list is not locked while
// a test touches the memory.
unsafe impl Handler for Diary {
    fn handle(&self, fault: Fault) {
        let mut faults = self.faults.lock().unwrap();
        let is_known = faults.iter().any(|known| known.page == fault.page);
        if !is_known {
            // SAFETY: a byte of the page, in the first mapping.
            unsafe { self.first.add(fault.page * page_bytes()).write(fault.page as u8 + 10) };
        }
        let is_write = fault.is_write.unwrap_or(is_known);
        faults.push(fault);
        let what = if is_write { Allowed::Writing } else { Allowed::Reading };
        self.watched.allow(fault.page, 1, what).unwrap();
    }
}

#[test]
fn accesses_that_are_not_allowed_are_told_of_once() {
    for method in methods() {
        let first = memory();
        // SAFETY: a shared mapping of that length, which stays.
        let watched =
            Arc::new(unsafe { Watched::new(first, PAGES * page_bytes(), method) }.unwrap());
        let diary = Diary { watched: watched.clone(), first, faults: Mutex::default() };
        // SAFETY: both live until the end of this turn, and nothing is touched after.
        unsafe { watched.arm(&diary) }.unwrap();
        // SAFETY: inside of the second mapping, and faults are dealt with.
        let byte = |page: usize, at: usize| unsafe {
            watched.base().add(page * page_bytes() + at).as_ptr()
        };
        // SAFETY: as above; no other code touches it.
        let (load, store) = (
            |page, at| unsafe { byte(page, at).read_volatile() },
            |page, at, value| unsafe { byte(page, at).write_volatile(value) },
        );
        let told = || {
            let faults = std::mem::take(&mut *diary.faults.lock().unwrap());
            faults.iter().map(|fault| (fault.page, fault.is_write)).collect::<Vec<_>>()
        };
        let write = cfg!(target_arch = "x86_64").then_some(true);
        let read = write.map(|write| !write);

        assert_eq!(load(1, 0), 11, "{method}");
        assert_eq!(load(1, 5), 0);
        store(1, 5, 99);
        assert_eq!((load(1, 5), load(1, 0)), (99, 11));
        assert_eq!(told(), [(1, read), (1, write)], "{method}");
        // Through the first mapping the same is seen.
        // SAFETY: inside of it.
        assert_eq!(unsafe { first.add(page_bytes() + 5).read_volatile() }, 99);
        watched.allow(1, 1, Allowed::Reading).unwrap();
        assert_eq!(load(1, 5), 99);
        store(1, 6, 1);
        watched.allow(0, PAGES, Allowed::Nothing).unwrap();
        assert_eq!(load(1, 6), 1);
        store(3, 0, 7);
        assert_eq!(told(), [(1, write), (1, read), (3, write)], "{method}");
        assert!(watched.allow(2, PAGES, Allowed::Reading).is_err());
    }
}

#[test]
fn threads_touch_the_memory_at_the_same_time() {
    const THREADS: usize = 4;
    for method in methods() {
        for _ in 0..50 {
            let first = memory();
            // SAFETY: a shared mapping of that length, which stays.
            let watched = unsafe { Watched::new(first, PAGES * page_bytes(), method) };
            let watched = Arc::new(watched.unwrap());
            let diary = Diary { watched: watched.clone(), first, faults: Mutex::default() };
            // SAFETY: both live until the end of this turn, and nothing is touched after.
            unsafe { watched.arm(&diary) }.unwrap();
            let base = watched.base().as_ptr() as usize;
            std::thread::scope(|scope| {
                for thread in 1..=THREADS {
                    scope.spawn(move || {
                        for page in 0..PAGES {
                            let byte = (base + page * page_bytes()) as *mut u8;
                            // SAFETY: inside of the second mapping; the first byte of a page is
                            // written before any thread can read it, and no two threads write the
                            // same.
                            unsafe {
                                assert_eq!(byte.read_volatile(), page as u8 + 10);
                                byte.add(thread).write_volatile(thread as u8);
                            }
                        }
                    });
                }
            });
            let faults = diary.faults.lock().unwrap();
            // SAFETY: inside of the first mapping; the threads are gone.
            let byte = |page: usize, at| unsafe { first.add(page * page_bytes() + at).read() };
            for page in 0..PAGES {
                assert!((1..=THREADS).all(|thread| byte(page, thread) == thread as u8));
                assert!(faults.iter().any(|fault| fault.page == page), "{method}: {faults:?}");
            }
        }
    }
}

/// Run by the test below, in a process of its own.
#[test]
fn child() {
    if std::env::var_os("FARSIDE_TEST_PAGER_CHILD").is_none() {
        return;
    }
    let first = memory();
    // SAFETY: as above.
    let watched =
        Arc::new(unsafe { Watched::new(first, PAGES * page_bytes(), Method::Protect) }.unwrap());
    let diary = Diary { watched: watched.clone(), first, faults: Mutex::default() };
    // SAFETY: both live until the process ends.
    unsafe { watched.arm(&diary) }.unwrap();
    // SAFETY: it is not: that is what the test is about.
    unsafe { (page_bytes() as *mut u8).write_volatile(1) };
    println!("went on");
}

#[test]
fn a_wild_pointer_still_ends_the_process() {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args(["--exact", "child", "--nocapture"])
        .env("FARSIDE_TEST_PAGER_CHILD", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(11), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("went on"), "{output:?}");
}
