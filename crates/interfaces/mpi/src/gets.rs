//! Gets that are under way: their buffers are the caller's again when they are over.

use std::cell::RefCell;

use farside::raw::Request;
use farside::{Context, Rank, Result};

const GETS_MAX: usize = 64;

/// The gets of a window from far ranks that are under way.
#[derive(Default)]
pub(crate) struct Gets {
    under_way: RefCell<Vec<(Rank, Request)>>,
}

impl Gets {
    #[inline(always)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.under_way.borrow().is_empty()
    }

    /// Keeps a get that is under way; if those are too many, waits for all of them.
    pub(crate) fn keep(&self, context: &Context, from: Rank, get: Request) -> Result<()> {
        // It is kept first: also if another one fails, its buffer is the caller's only when it is
        // over.
        self.under_way.borrow_mut().push((from, get));
        if self.under_way.borrow().len() > GETS_MAX {
            self.complete(context, None)?;
        }
        Ok(())
    }

    /// Waits for the gets from a rank, or from all.
    #[inline(always)]
    pub(crate) fn complete(&self, context: &Context, from: Option<Rank>) -> Result<()> {
        if self.is_quiet() { Ok(()) } else { self.wait(context, from) }
    }

    #[cold]
    fn wait(&self, context: &Context, from: Option<Rank>) -> Result<()> {
        let all = self.under_way.take();
        let is_meant = |get: &(Rank, Request)| from.is_none_or(|rank| rank == get.0);
        let (meant, others) = all.into_iter().partition(is_meant);
        self.under_way.replace(others);
        let meant: Vec<(Rank, Request)> = meant;
        // Whatever becomes of one, the others are the caller's again only when they are over.
        let wait = |result: Result<()>, (_, get): (Rank, Request)| {
            let over = get.wait(context);
            result.and(over)
        };
        meant.into_iter().fold(Ok(()), wait)
    }
}

#[cfg(test)]
mod tests {
    use farside::Local;
    use farside::raw::Memory;

    use super::*;

    const BYTES: usize = 1 << 20;

    #[test]
    fn a_get_that_is_kept_is_over_whatever_becomes_of_those_before_it() {
        let ran = Local::new(2).unwrap().nodes(2).run(|world| {
            let (gone, there) = (world.window::<u8>(8)?, world.window::<u8>(BYTES)?);
            there.own().write(0, &[7; BYTES])?;
            let (gone, there) = (Memory::from(gone), Memory::from(there));
            let outlived = gone.clone();
            gone.free(world)?;
            // Each member gives its part back after they have met.
            world.barrier()?;
            if world.rank() == Rank(0) {
                let gets = Gets::default();
                let (mut lost, mut whole) = ([[0; 8]; GETS_MAX], vec![0; BYTES]);
                for buffer in &mut lost {
                    let place = outlived.at(Rank(1), 0);
                    // SAFETY: the buffer outlives `gets`, which waits for all of them below.
                    let get = unsafe { Request::get(world, place, buffer.as_mut_ptr(), 8)? };
                    gets.keep(world, Rank(1), get)?;
                }
                let place = there.at(Rank(1), 0);
                // SAFETY: as above.
                let get = unsafe { Request::get(world, place, whole.as_mut_ptr(), BYTES)? };
                assert!(gets.keep(world, Rank(1), get).is_err(), "there is no such memory");
                assert!(gets.is_quiet() && whole.iter().all(|&byte| byte == 7));
            }
            world.barrier()?;
            there.free(world)
        });
        assert_eq!(ran, Ok(vec![(); 2]));
    }
}
