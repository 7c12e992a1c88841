//! A decorator over any connection that leaves a step of a protocol out: how known-wrong variants
//! are made from the lines of the right one.

use std::sync::Arc;

use crate::connection::Connection;
use crate::error::Result;
use crate::forward;
use crate::probe::{Probe, ProbeEvent, Step};

/// A connection over which one [`Step`] is left out.
pub struct Omitting {
    inner: Box<dyn Connection>,
    step: Step,
}

impl Omitting {
    /// Leaves `step` out over `inner`.
    pub fn over(inner: Box<dyn Connection>, step: Step) -> Box<dyn Connection> {
        Box::new(Omitting { inner, step })
    }
}

impl Connection for Omitting {
    forward! {
        to .inner: job register deregister map put put_nb put_signal get accumulate atomic fence
        flush call serve poll cancel block relax wake landings clock
    }

    fn context(&self) -> Result<Box<dyn Connection>> {
        Ok(Omitting::over(self.inner.context()?, self.step))
    }

    fn probe(&self) -> Option<Arc<dyn Probe>> {
        Some(Arc::new(Omits { inner: self.inner.probe(), step: self.step }))
    }
}

/// The probe of such a connection, on top of the one that was there.
struct Omits {
    inner: Option<Arc<dyn Probe>>,
    step: Step,
}

impl Probe for Omits {
    fn event(&self, event: ProbeEvent<'_>) -> Option<u64> {
        match event {
            ProbeEvent::Omits(step) if step == self.step => Some(1),
            event => self.inner.as_ref()?.event(event),
        }
    }
}
