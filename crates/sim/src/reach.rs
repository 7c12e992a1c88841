//! What a handler can reach.

use std::cell::RefCell;

use farside_fabric::{Agent, Atomic, Error, Node, Region, Result, Word};

use crate::machine::{Machine, atomic, packed};

/// What a handler can reach. What it posts lands at once: a handler is one event.
pub(crate) struct Reach<'a> {
    machine: RefCell<&'a mut Machine>,
    node: Node,
}

impl<'a> Reach<'a> {
    pub(crate) fn new(machine: &'a mut Machine, node: Node) -> Reach<'a> {
        Reach { machine: RefCell::new(machine), node }
    }
}

impl Agent for Reach<'_> {
    fn node(&self) -> Node {
        self.node
    }

    fn atomic(&self, at: Word, op: Atomic) -> Result<u128> {
        let machine = self.machine.borrow();
        machine.check_word(at, op)?;
        atomic(&machine.memory(at.rank, at.segment)?.mapped(), at, op)
    }

    fn post(&self, at: Word, op: Atomic) -> Result<()> {
        self.atomic(at, op).map(|_| ())
    }

    fn put(&self, to: &Region<'_>, bytes: &[u8]) -> Result<()> {
        let machine = self.machine.borrow();
        let pieces = machine.pieces(to)?;
        to.check_length(bytes.len())?;
        let mapped = machine.memory(to.rank, to.segment)?.mapped();
        packed(&pieces, bytes, |piece, part| mapped.put(piece.offset, part));
        Ok(())
    }

    fn put_signal(&self, to: &Region<'_>, bytes: &[u8], at: Word, op: Atomic) -> Result<()> {
        self.put(to, bytes)?;
        self.post(at, op)
    }

    fn get(&self, from: &Region<'_>, into: &mut [u8]) -> Result<()> {
        let machine = self.machine.borrow();
        let pieces = machine.pieces(from)?;
        from.check_length(into.len())?;
        let mapped = machine.memory(from.rank, from.segment)?.mapped();
        let mut rest = into;
        for piece in &pieces {
            let (part, after) = std::mem::take(&mut rest).split_at_mut(piece.bytes as usize);
            rest = after;
            if !mapped.get(piece.offset, part) {
                return Err(Error::Misuse("an operation was refused".into()));
            }
        }
        Ok(())
    }
}
