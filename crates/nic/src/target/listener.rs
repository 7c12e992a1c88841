//! The loop of whoever serves: reads datagrams, lets the service answer them, and waits in the way
//! that was chosen.

use std::sync::Arc;
use std::time::Duration;

use farside_fabric::Node;

use crate::Style;
use crate::target::service::{Memory, Service};
use crate::transport::udp::now_ns;
use crate::transport::{Line, Route};
use crate::wire::{self, Refused};

/// How many datagrams are read before anything else is done.
const READ_AT_ONCE: u32 = 64;
/// The longest datagram there is.
const DATAGRAM_BYTES: usize = 1 << 16;
/// How long a server that spins before it sleeps does so after the last datagram.
const SPIN_NS: u64 = 50_000;

/// Who lets others run and gets the processor back only after so long shares it with somebody who
/// computes.
const CROWDED_NS: u64 = 200_000;
/// For how many looks that find something a server then sleeps at once: the system lets a sleeper
/// go first that is woken, but not one that yields.
const SHY: u32 = 256;

/// A line and how it is watched.
pub(crate) struct Listener {
    pub(crate) line: Arc<dyn Line>,
    style: Style,
    buffer: Box<[u8]>,
    last_ns: u64,
    /// When it let others run.
    yielded_ns: u64,
    /// How often it is still to sleep at once.
    shy: u32,
}

impl Listener {
    pub(crate) fn new(line: Arc<dyn Line>, style: Style) -> Listener {
        Listener {
            line,
            style,
            buffer: vec![0; DATAGRAM_BYTES].into_boxed_slice(),
            last_ns: 0,
            yielded_ns: 0,
            shy: 0,
        }
    }

    /// Reads what has arrived. Replies go to `reply`; `heard` is told from which node a new request
    /// came. Says whether anything came.
    pub(crate) fn read<M: Memory>(
        &mut self,
        service: &mut Service<M>,
        mut reply: impl FnMut(&[u8]) -> Result<(), Refused>,
        mut heard: impl FnMut(Node),
    ) -> bool {
        let line = &self.line;
        // A reply that cannot be sent is one that got lost: the origin asks again.
        let mut out = |to: Route, packet: &[u8]| line.send(to, packet, &[]);
        let mut came = false;
        for _ in 0..READ_AT_ONCE {
            match line.receive(&mut self.buffer) {
                // Somebody wants us to look: we do.
                Some(0) => came = true,
                Some(length) => {
                    came = true;
                    let packet = &self.buffer[..length];
                    if wire::is_reply(packet) {
                        reply(packet).unwrap_or_else(|refused| service.count(refused));
                    } else if let Some(node) = service.receive(packet, &mut out) {
                        heard(node);
                    }
                }
                None => break,
            }
        }
        service.rest(&mut out);
        came
    }

    /// Whether to look again at once. `came` says whether the last look found anything.
    #[inline]
    pub(crate) fn lingers(&mut self, came: bool) -> bool {
        let lingers = match self.style {
            Style::Poll => true,
            Style::Block => came,
            Style::SpinBlock => {
                let now = now_ns();
                if self.yielded_ns != 0 && now.saturating_sub(self.yielded_ns) > CROWDED_NS {
                    self.shy = SHY;
                }
                self.yielded_ns = if came { 0 } else { now };
                if came {
                    self.last_ns = now;
                    self.shy = self.shy.saturating_sub(1);
                }
                if self.shy > 0 { came } else { now.saturating_sub(self.last_ns) < SPIN_NS }
            }
        };
        if lingers && !came {
            // Whoever shares this processor goes first.
            std::thread::yield_now();
        }
        lingers
    }

    /// Sleeps until something comes, for no longer than `patience`.
    pub(crate) fn sleep(&mut self, patience: Duration) {
        self.yielded_ns = 0;
        self.line.sleep(patience);
    }
}
