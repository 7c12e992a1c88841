//! Copies between private and shared memory, and the fence: everything here that is not portable
//! Rust.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// From this length on a copy is one string instruction, below it a loop over vectors.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LONG_COPY: usize = 1024;

/// Returns when all that this thread wrote before can be seen by all others, ahead of all that it
/// reads or writes afterwards.
#[inline]
pub fn full_fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a locked "or" with zero leaves the top of the stack as it is. It is a full barrier,
    // as `mfence` is, at half the price.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp], 0");
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// Copies private bytes into shared memory.
///
/// # Safety
///
/// `to` must be mapped shared memory and `from` readable private memory, both for `len` bytes.
#[inline]
pub unsafe fn copy_in(to: *mut u8, from: *const u8, len: usize) {
    if len == 8 && to.addr().is_multiple_of(8) {
        // SAFETY: aligned and inside, by the caller's promise.
        unsafe {
            (*to.cast::<AtomicU64>()).store(from.cast::<u64>().read_unaligned(), Ordering::Relaxed)
        };
    } else if len == 4 && to.addr().is_multiple_of(4) {
        // SAFETY: as above.
        unsafe {
            (*to.cast::<AtomicU32>()).store(from.cast::<u32>().read_unaligned(), Ordering::Relaxed)
        };
    } else if len >= 16 && HAS_COPY {
        // SAFETY: passed on.
        unsafe { copy(to, from, len) };
    } else {
        // SAFETY: passed on.
        unsafe { copy_in_words(to, from, len) };
    }
}

/// Copies shared memory into private bytes.
///
/// # Safety
///
/// `from` must be mapped shared memory and `to` writable private memory, both for `len` bytes.
#[inline]
pub unsafe fn copy_out(to: *mut u8, from: *const u8, len: usize) {
    if len == 8 && from.addr().is_multiple_of(8) {
        // SAFETY: aligned and inside, by the caller's promise.
        unsafe {
            to.cast::<u64>().write_unaligned((*from.cast::<AtomicU64>()).load(Ordering::Relaxed))
        };
    } else if len == 4 && from.addr().is_multiple_of(4) {
        // SAFETY: as above.
        unsafe {
            to.cast::<u32>().write_unaligned((*from.cast::<AtomicU32>()).load(Ordering::Relaxed))
        };
    } else if len >= 16 && HAS_COPY {
        // SAFETY: passed on.
        unsafe { copy(to, from, len) };
    } else {
        // SAFETY: passed on.
        unsafe { copy_out_words(to, from, len) };
    }
}

/// Whether there is a copy in assembly. What it does, compilers cannot reason about: for them it
/// may well be a loop of relaxed byte accesses, and so it may race.
const HAS_COPY: bool = cfg!(all(target_arch = "x86_64", not(miri)));

/// Copies at least 16 bytes.
///
/// # Safety
///
/// `from` must be readable and `to` writable for `len` bytes, at least 16, and they must not
/// overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    debug_assert!(len >= 16);
    if len >= LONG_COPY {
        // SAFETY: the instruction reads and writes exactly the promised bytes; the direction flag
        // is clear by the ABI.
        unsafe {
            std::arch::asm!(
                "rep movsb",
                inout("rcx") len => _,
                inout("rdi") to => _,
                inout("rsi") from => _,
                options(nostack, preserves_flags)
            );
        }
        return;
    }
    // Blocks of 64 bytes, then of 16, then the last 16 bytes once more, which overlap what was
    // copied already. SAFETY: every access is below `len`, which is at least 16.
    unsafe {
        std::arch::asm!(
            "sub {left}, 64",
            "jb 3f",
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "sub {left}, 64",
            "jae 2b",
            "3:",
            "add {left}, 64",
            "jz 6f",
            "4:",
            "sub {left}, 16",
            "jb 5f",
            "movups {a}, [{from}]",
            "movups [{to}], {a}",
            "lea {from}, [{from} + 16]",
            "lea {to}, [{to} + 16]",
            "jnz 4b",
            "jmp 6f",
            "5:",
            "movups {a}, [{from} + {left}]",
            "movups [{to} + {left}], {a}",
            "6:",
            left = inout(reg) len => _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// # Safety
///
/// Never called.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy(_to: *mut u8, _from: *const u8, _len: usize) {
    unreachable!("there is no copy in assembly here");
}

/// # Safety
///
/// As [`copy_in`].
unsafe fn copy_in_words(to: *mut u8, from: *const u8, len: usize) {
    let mut at = 0;
    while at < len {
        // SAFETY: every access is below `len`, and aligned by the choice of the unit.
        unsafe {
            let (to, from) = (to.add(at), from.add(at));
            let unit = unit(to.addr(), len - at);
            match unit {
                8 => (*to.cast::<AtomicU64>())
                    .store(from.cast::<u64>().read_unaligned(), Ordering::Relaxed),
                4 => (*to.cast::<AtomicU32>())
                    .store(from.cast::<u32>().read_unaligned(), Ordering::Relaxed),
                2 => (*to.cast::<AtomicU16>())
                    .store(from.cast::<u16>().read_unaligned(), Ordering::Relaxed),
                _ => (*to.cast::<AtomicU8>()).store(*from, Ordering::Relaxed),
            }
            at += unit;
        }
    }
}

/// The largest unit that is aligned at an address and fits into `left` bytes. An aligned number of
/// the program is moved in one piece, so that no reader sees half of it.
#[inline]
fn unit(address: usize, left: usize) -> usize {
    let aligned = 1 << address.trailing_zeros().min(3);
    let fits = 1 << left.ilog2().min(3);
    std::cmp::min(aligned, fits)
}

/// # Safety
///
/// As [`copy_out`].
unsafe fn copy_out_words(to: *mut u8, from: *const u8, len: usize) {
    let mut at = 0;
    while at < len {
        // SAFETY: every access is below `len`, and aligned by the choice of the unit.
        unsafe {
            let (to, from) = (to.add(at), from.add(at));
            let unit = unit(from.addr(), len - at);
            match unit {
                8 => to
                    .cast::<u64>()
                    .write_unaligned((*from.cast::<AtomicU64>()).load(Ordering::Relaxed)),
                4 => to
                    .cast::<u32>()
                    .write_unaligned((*from.cast::<AtomicU32>()).load(Ordering::Relaxed)),
                2 => to
                    .cast::<u16>()
                    .write_unaligned((*from.cast::<AtomicU16>()).load(Ordering::Relaxed)),
                _ => *to = (*from.cast::<AtomicU8>()).load(Ordering::Relaxed),
            }
            at += unit;
        }
    }
}
