//! Calls of handlers, whose answers come later than the request is executed.

use farside_fabric::Rank;

use super::{CallState, Memory, Out, Service};
use crate::link::variant::Variant;
use crate::wire::PortId;
use crate::wire::answer::{self, Answer};

impl<M: Memory, V: Variant> Service<M, V> {
    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn expect_answer(&mut self, port: PortId, caller: Rank, slot: u32) {
        if !self.calls.contains(&(port, caller, slot)) {
            self.calls.push((port, caller, slot));
        }
    }

    /// Drops the calls of a rank whose slots are used for later ones: their answers are not
    /// awaited.
    pub(super) fn forget_calls(&mut self, caller: Rank) {
        let memory = &mut self.memory;
        self.calls.retain(|&(_, rank, slot)| {
            rank != caller || !matches!(memory.answer(rank, slot), CallState::Forgotten)
        });
    }

    /// Sends the answers of handlers.
    pub(super) fn send_calls(&mut self, out: Out<'_>) {
        let mut at = 0;
        while let Some(&(port, caller, slot)) = self.calls.get(at) {
            let answer = self.memory.answer(caller, slot);
            if matches!(answer, CallState::Pending) {
                at += 1;
                continue;
            }
            self.calls.swap_remove(at);
            let CallState::Answered(state, bytes) = answer else { continue };
            self.reply.begin();
            answer::encode(&Answer::Called { slot, state, bytes: &bytes }, &mut self.reply);
            self.send(port, 0, out);
        }
    }
}
