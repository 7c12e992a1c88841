//! The loop of a server: reads datagrams, lets the service answer them, and waits for more.
//!
//! Paper:   \[NIC02 section V-A\]: a server on the host polls, spins and then blocks, or blocks.
//! Differs: the agent waits in the same three ways, since it runs on the host, too; on a shared
//!          processor a spinning one sleeps at once.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{CROWDED_NS, TURN_BYTES, Turns, now_ns};
use crate::settings::WaitStyle;
use crate::target::service::{Arrival, Memory, Service};
use crate::transport::{PeerAddress, TransportEndpoint};
use crate::wire::{self, Refused};

/// The number of datagrams that are read before anything else is done.
const READ_AT_ONCE: u32 = 64;
/// The length of the longest datagram there is.
const DATAGRAM_BYTES: usize = 1 << 16;
/// The time after the last datagram for which a server spins before it sleeps.
const SPIN_NS: u64 = 50_000;

/// The number of successful looks for which a server beside a thread that computes sleeps at once:
/// the scheduler prefers a thread that is woken to one that has yielded.
const SLEEPS_FIRST: u32 = 256;

/// The transport endpoint of a server, and how it waits there.
pub(crate) struct Listener {
    pub(crate) endpoint: Arc<dyn TransportEndpoint>,
    wait: WaitStyle,
    buffer: Box<[u8]>,
    last_ns: u64,
    yielded_ns: u64,
    /// The number of successful looks for which it still sleeps at once.
    sleeps_first: u32,
    turns: Turns,
}

impl Listener {
    pub(crate) fn new(endpoint: Arc<dyn TransportEndpoint>, wait: WaitStyle) -> Listener {
        Listener {
            endpoint,
            wait,
            buffer: vec![0; DATAGRAM_BYTES].into_boxed_slice(),
            last_ns: 0,
            yielded_ns: 0,
            sleeps_first: 0,
            turns: Turns::default(),
        }
    }

    /// Reads what has arrived. Replies go to `reply`; `arrived` gets each authentic request.
    /// Returns whether anything has arrived.
    pub(crate) fn read<M: Memory>(
        &mut self,
        service: &mut Service<M>,
        mut reply: impl FnMut(&[u8]) -> Result<(), Refused>,
        mut arrived: impl FnMut(Arrival),
    ) -> bool {
        let (endpoint, is_long) = (&self.endpoint, Cell::new(false));
        let mut out = |to: PeerAddress, packet: &[u8], by_stream: bool| {
            is_long.set(is_long.get() || packet.len() >= TURN_BYTES);
            if by_stream {
                endpoint.send_by_stream(to, packet, &[], false);
            } else {
                endpoint.send(to, packet, &[]);
            }
        };
        let mut came = false;
        for _ in 0..READ_AT_ONCE {
            let is_one = endpoint.deliver(&mut self.buffer, &mut |packet, carrier| {
                is_long.set(packet.len() >= TURN_BYTES);
                if packet.is_empty() {
                    // A wakeup.
                } else if wire::is_reply(packet) {
                    reply(packet).unwrap_or_else(|refused| service.count(refused));
                } else if let Some(arrival) = service.receive(packet, carrier, &mut out) {
                    arrived(arrival);
                }
            });
            if !is_one {
                break;
            }
            came = true;
            if is_long.get() {
                self.turns.pass();
            }
        }
        service.rest(&mut out);
        came
    }

    /// Returns whether to look again at once, after a look that has found something (`came`) or
    /// not.
    #[inline]
    pub(crate) fn spins(&mut self, came: bool) -> bool {
        let spins = match self.wait {
            WaitStyle::Poll => true,
            WaitStyle::Block => came,
            WaitStyle::SpinBlock => {
                let now = now_ns();
                if self.yielded_ns != 0 && now.saturating_sub(self.yielded_ns) > CROWDED_NS {
                    self.sleeps_first = SLEEPS_FIRST;
                }
                self.yielded_ns = if came { 0 } else { now };
                if came {
                    self.last_ns = now;
                    self.sleeps_first = self.sleeps_first.saturating_sub(1);
                }
                if self.sleeps_first > 0 {
                    came
                } else {
                    now.saturating_sub(self.last_ns) < SPIN_NS
                }
            }
        };
        if spins && !came {
            // Other threads on this processor go first.
            std::thread::yield_now();
        }
        spins
    }

    /// Sleeps until something arrives, or the time is up.
    pub(crate) fn sleep(&mut self, limit: Duration) {
        self.yielded_ns = 0;
        self.endpoint.sleep(limit);
    }
}
