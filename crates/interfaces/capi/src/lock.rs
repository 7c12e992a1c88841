//! Locks, reader-writer locks and semaphores.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_char, c_int};

use farside::{Context, Error, Guard, Lock, Rank, ReadGuard, Result, RwLock, WriteGuard, lock, rw};

use crate::job::{ContextEntry, context, farside_context_t};
use crate::status::{Out, bad, guarded, text};
use crate::team::{Found, farside_team_t, team};
use crate::wait::limit;
use farside_interop::handles::Table;

/// An exclusive lock, or a semaphore, that the members of a team made together. Each rank uses its
/// handle with one thread at a time.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct farside_lock_t {
    /// The number of the lock; 0 is none.
    pub id: u64,
}

/// A reader-writer lock that the members of a team made together. Each rank uses its handle with
/// one thread at a time.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct farside_rwlock_t {
    /// The number of the lock; 0 is none.
    pub id: u64,
}

/// What the handle of a lock stands for: the lock, and its guard while this rank has it.
struct Entry<L, G> {
    lock: UnsafeCell<L>,
    /// It borrows the lock and the context; the latter counts it as a user.
    held: Cell<Option<(G, &'static ContextEntry)>>,
}

/// How a rank has a reader-writer lock.
enum RwGuard {
    Read(ReadGuard<'static>),
    Write(WriteGuard<'static>),
}

// SAFETY: programs in C free nothing that they still use, and use each thing as its thread may.
static LOCKS: Table<Entry<Lock, Guard<'static>>> = unsafe { Table::new("lock") };
// SAFETY: programs in C free nothing that they still use, and use each thing as its thread may.
static RW_LOCKS: Table<Entry<RwLock, RwGuard>> = unsafe { Table::new("reader-writer lock") };

impl<L, G> Entry<L, G> {
    fn new(lock: L) -> Entry<L, G> {
        Entry { lock: UnsafeCell::new(lock), held: Cell::new(None) }
    }

    fn lock(&'static self) -> &'static L {
        // SAFETY: entries do not move while they are in their table, and the one mutable borrow, in
        // `recover`, is over when its call is: one thread uses the handle at a time.
        unsafe { &*self.lock.get() }
    }

    /// Keeps the guard of a lock that was taken.
    fn keep(&self, guard: G, context: &'static ContextEntry) {
        context.users.set(context.users.get() + 1);
        self.held.set(Some((guard, context)));
    }

    /// Takes the guard of the lock.
    fn take(&self) -> Option<G> {
        let (guard, context) = self.held.take()?;
        context.users.set(context.users.get() - 1);
        Some(guard)
    }

    fn take_held(&self) -> Result<G> {
        self.take().ok_or_else(|| {
            Error::InvalidState("this rank releases a lock that it does not hold".into())
        })
    }

    /// Makes the lock usable again.
    fn recover(&self, recover: impl FnOnce(&mut L) -> Result<()>) -> Result<()> {
        // What was held before the loss is not held any more: there is nothing to release.
        if let Some(guard) = self.take() {
            std::mem::forget(guard);
        }
        // SAFETY: no guard borrows the lock, and one thread uses the handle at a time.
        recover(unsafe { &mut *self.lock.get() })
    }
}

/// Takes a lock out of its table to free it; not while this rank has it.
fn remove<L: 'static, G: 'static>(table: &'static Table<Entry<L, G>>, id: u64) -> Result<L> {
    let entry = table.get(id)?;
    let held = entry.held.take();
    let is_held = held.is_some();
    entry.held.set(held);
    if is_held {
        return Err(Error::InvalidState(
            "a lock cannot be freed while this rank holds it: release it first".into(),
        ));
    }
    Ok(table.remove(id)?.lock.into_inner())
}

fn make(found: &Found, home: u32, kind: &lock::Kind) -> Result<u64> {
    // Kinds that need agents are for all ranks.
    let lock = match found.is_world() {
        true => Lock::of_kind(found.context.world()?, Rank(home), kind)?,
        false => Lock::for_team(&found.team, Rank(home), kind)?,
    };
    LOCKS.insert(Entry::new(lock))
}

/// Makes an exclusive lock for the members of a team. What they share of it lies in the memory of
/// the member `home`, a rank of the job. `kind` names the algorithm, such as "rma-mcs" or "ticket";
/// null is the fastest that is known for these members. Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_lock_create(
    team: farside_team_t,
    home: u32,
    kind: *const c_char,
    lock: *mut farside_lock_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let (out, name) = unsafe { (Out::new(lock, "lock")?, text(kind, "kind")?) };
        let kind = match name {
            None => lock::Kind::Default,
            Some(name) => lock::Kind::named(name).ok_or_else(|| {
                let names: Vec<&str> = lock::Kind::all().iter().map(lock::Kind::name).collect();
                bad(format!("{name:?} is not a kind of lock: there are {}", names.join(", ")))
            })?,
        };
        out.set(farside_lock_t { id: make(&self::team(team)?, home, &kind)? });
        Ok(())
    })
}

/// Makes a semaphore for the members of a team: a lock that as many ranks have at a time as it has
/// permits, in the order in which they came. It is used like any lock. Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_semaphore_create(
    team: farside_team_t,
    home: u32,
    permits: u32,
    semaphore: *mut farside_lock_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let out = unsafe { Out::new(semaphore, "semaphore")? };
        let kind = lock::Kind::Semaphore { permits };
        out.set(farside_lock_t { id: make(&self::team(team)?, home, &kind)? });
        Ok(())
    })
}

/// Waits until this rank has a lock, for at most `timeout_ns` nanoseconds or FARSIDE_FOREVER; with
/// 0 it takes the lock only if it is free. Then FARSIDE_ERROR_TIMED_OUT. What was put under the
/// lock by the context that releases it has landed when the next rank has the lock. The loss of a
/// member poisons the lock: FARSIDE_ERROR_POISONED until farside_lock_recover.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_lock_acquire(
    context: farside_context_t,
    lock: farside_lock_t,
    timeout_ns: u64,
) -> c_int {
    guarded(|| {
        let (entry, context) = (LOCKS.get(lock.id)?, self::context(context)?);
        let (lock, access) = (entry.lock(), static_context(context));
        let guard = match limit(timeout_ns) {
            None => lock.lock(access)?,
            Some(limit) if limit.is_zero() => lock.try_lock(access)?.ok_or(TOO_LATE)?,
            Some(limit) => lock.lock_timeout(access, limit)?,
        };
        entry.keep(guard, context);
        Ok(())
    })
}

/// A lock was not free.
const TOO_LATE: Error = Error::TimedOut { after_ms: 0 };

fn static_context(entry: &'static ContextEntry) -> &'static Context {
    entry.context()
}

/// Releases a lock that this rank has. Whatever it returns, the rank does not have it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_lock_release(lock: farside_lock_t) -> c_int {
    guarded(|| LOCKS.get(lock.id)?.take_held()?.unlock())
}

/// Makes a poisoned lock free and usable again. Collective over `survivors`, a team of members that
/// are all alive and that was made before the loss; they are its members from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_lock_recover(
    lock: farside_lock_t,
    survivors: farside_team_t,
) -> c_int {
    guarded(|| {
        let found = team(survivors)?;
        LOCKS.get(lock.id)?.recover(|lock| lock.recover(&found.team))
    })
}

/// Frees a lock. Collective over the team that made it. Whatever it returns, except
/// FARSIDE_ERROR_STATE because this rank has it, the handle is not valid any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_lock_free(team: farside_team_t, lock: farside_lock_t) -> c_int {
    guarded(|| {
        let found = self::team(team)?;
        remove(&LOCKS, lock.id)?.free(&found.team)
    })
}

/// Makes a reader-writer lock for the members of a team. `kind` names the algorithm, such as
/// "rma-rw"; null is the fastest that is known for these members. See farside_lock_create.
/// Collective.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_rwlock_create(
    team: farside_team_t,
    home: u32,
    kind: *const c_char,
    lock: *mut farside_rwlock_t,
) -> c_int {
    guarded(|| {
        // SAFETY: by the caller's promise.
        let (out, name) = unsafe { (Out::new(lock, "lock")?, text(kind, "kind")?) };
        let kind = match name {
            None => rw::Kind::Default,
            Some(name) => rw::Kind::named(name).ok_or_else(|| {
                let names: Vec<&str> = rw::Kind::all().iter().map(rw::Kind::name).collect();
                let names = names.join(", ");
                bad(format!("{name:?} is not a kind of reader-writer lock: there are {names}"))
            })?,
        };
        let made = RwLock::for_team(&self::team(team)?.team, Rank(home), &kind)?;
        out.set(farside_rwlock_t { id: RW_LOCKS.insert(Entry::new(made))? });
        Ok(())
    })
}

/// Waits until this rank may read: others may read at the same time, and no rank writes. See
/// farside_lock_acquire for the time limit and for losses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_rwlock_read(
    context: farside_context_t,
    lock: farside_rwlock_t,
    timeout_ns: u64,
) -> c_int {
    guarded(|| {
        let (entry, context) = (RW_LOCKS.get(lock.id)?, self::context(context)?);
        let (lock, access) = (entry.lock(), static_context(context));
        let guard = match limit(timeout_ns) {
            None => lock.read(access)?,
            Some(limit) if limit.is_zero() => lock.try_read(access)?.ok_or(TOO_LATE)?,
            Some(limit) => lock.read_timeout(access, limit)?,
        };
        entry.keep(RwGuard::Read(guard), context);
        Ok(())
    })
}

/// Waits until this rank may write: no other rank reads or writes. See farside_lock_acquire for the
/// time limit and for losses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_rwlock_write(
    context: farside_context_t,
    lock: farside_rwlock_t,
    timeout_ns: u64,
) -> c_int {
    guarded(|| {
        let (entry, context) = (RW_LOCKS.get(lock.id)?, self::context(context)?);
        let (lock, access) = (entry.lock(), static_context(context));
        let guard = match limit(timeout_ns) {
            None => lock.write(access)?,
            Some(limit) if limit.is_zero() => lock.try_write(access)?.ok_or(TOO_LATE)?,
            Some(limit) => lock.write_timeout(access, limit)?,
        };
        entry.keep(RwGuard::Write(guard), context);
        Ok(())
    })
}

/// Ends the reading or writing of this rank. Whatever it returns, the rank does not have the lock
/// any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_rwlock_release(lock: farside_rwlock_t) -> c_int {
    guarded(|| match RW_LOCKS.get(lock.id)?.take_held()? {
        RwGuard::Read(guard) => guard.unlock(),
        RwGuard::Write(guard) => guard.unlock(),
    })
}

/// Makes a poisoned lock free and usable again. See farside_lock_recover.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_rwlock_recover(
    lock: farside_rwlock_t,
    survivors: farside_team_t,
) -> c_int {
    guarded(|| {
        let found = team(survivors)?;
        RW_LOCKS.get(lock.id)?.recover(|lock| lock.recover(&found.team))
    })
}

/// Frees a lock. See farside_lock_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farside_rwlock_free(
    team: farside_team_t,
    lock: farside_rwlock_t,
) -> c_int {
    guarded(|| {
        let found = self::team(team)?;
        remove(&RW_LOCKS, lock.id)?.free(&found.team)
    })
}
