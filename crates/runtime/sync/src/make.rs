//! Locks as methods of a world.

use farside_fabric::{Rank, Result};
use farside_rma::World;

use crate::lock::Lock;
use crate::rw::RwLock;

/// Makes the default locks: methods for [`World`].
///
/// ```
/// use farside::{Locks, Rank};
///
/// farside::local(3, |world| {
///     let (lock, rw_lock) = (world.lock(Rank(0))?, world.rw_lock(Rank(0))?);
///     lock.lock(world)?.unlock()?;
///     rw_lock.read(world)?.unlock()?;
///     rw_lock.write(world)?.unlock()?;
///     rw_lock.free(world)?;
///     lock.free(world)
/// })
/// .unwrap();
/// ```
pub trait Locks {
    /// An exclusive lock of the default kind, whose shared words are in the memory of `home`.
    /// Collective.
    fn lock(&self, home: Rank) -> Result<Lock>;
    /// A reader-writer lock of the default kind, whose shared words are in the memory of `home`.
    /// Collective.
    fn rw_lock(&self, home: Rank) -> Result<RwLock>;
}

impl Locks for World {
    fn lock(&self, home: Rank) -> Result<Lock> {
        Lock::new(self, home)
    }

    fn rw_lock(&self, home: Rank) -> Result<RwLock> {
        RwLock::new(self, home)
    }
}
