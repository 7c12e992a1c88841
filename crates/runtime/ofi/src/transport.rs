//! libfabric as a transport of the nic fabric, and the registration of memory that goes with it.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, Weak};

use farside_fabric::{Error, Mapped, Rank, Result, SegmentId, Width};
use farside_nic::{Address, MemoryRegistration, Registration, Transport, TransportEndpoint};
use rustc_hash::FxHashMap;

use crate::device::{Device, Registered};
use crate::ffi::Library;
use crate::lock::lock;
use crate::provider;
use crate::settings::{Atomics, Settings};
use crate::transport_endpoint::{OfiTransportEndpoint, PACKET_BYTES};

/// Where a processor of the target executes everything anyway, shorter transfers are gathered in
/// messages: fewer of those, and fewer turns of the agent.
const RMA_FROM_SOFTWARE: u64 = 8 << 10;

/// Segments of so many bytes are registered by the agent itself, in milliseconds.
const AT_ONCE_BYTES: u64 = 4_194_304;

/// A provider, opened at an address of this host.
pub struct Ofi {
    device: Arc<Device>,
    ip: IpAddr,
    settings: Settings,
    opened: Mutex<Vec<Weak<OfiTransportEndpoint>>>,
}

impl Ofi {
    /// Opens the provider that the settings name, or the best there is.
    pub fn open(settings: &Settings, ip: IpAddr) -> Result<Ofi> {
        let library = Arc::new(library()?);
        let info = provider::find(&library, settings.provider.as_deref(), ip)?;
        let is_software = provider::is_software(&info.name());
        let mut settings = settings.clone();
        settings.provider = Some(info.name());
        settings.rma_from.get_or_insert(if is_software { RMA_FROM_SOFTWARE } else { 0 });
        if is_software {
            settings.atomics.get_or_insert(Atomics::Agent);
        }
        let device = Arc::new(Device::open(info)?);
        // Asked once; the name of the transport tells every rank.
        if settings.atomics != Some(Atomics::Agent) {
            let queue = OfiTransportEndpoint::open(&device, ip)?.queue;
            let has_them = queue.has_atomics(Width::W64) && queue.has_atomics(Width::W32);
            let default = if has_them { Atomics::Apart } else { Atomics::Agent };
            if *settings.atomics.get_or_insert(default) != Atomics::Agent && !has_them {
                return Err(Error::InvalidSetting(format!(
                    "libfabric's provider {:?} has no atomics on words of 32 and 64 bits; use \
                     atomics=agent",
                    settings.provider.unwrap_or_default()
                )));
            }
        }
        Ok(Ofi { device, ip, settings, opened: Mutex::default() })
    }

    /// Returns the settings that are in force: complete, and what [`Transport::name`] writes.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns an endpoint of this transport as what it is; `None` if it is another's.
    pub(crate) fn own(
        &self,
        endpoint: &Arc<dyn TransportEndpoint>,
    ) -> Option<Arc<OfiTransportEndpoint>> {
        let wanted = Arc::as_ptr(endpoint).cast::<()>();
        let opened = lock(&self.opened);
        opened.iter().filter_map(Weak::upgrade).find(|own| Arc::as_ptr(own).cast() == wanted)
    }
}

/// Returns the version of libfabric and the providers that a job could use here, the preferred one
/// first.
pub fn providers() -> Result<(String, Vec<String>)> {
    let library = Arc::new(library()?);
    Ok((library.version_text(), provider::names(&library)?))
}

fn library() -> Result<Library> {
    Library::open().map_err(|why| {
        Error::Network(format!(
            "the ofi fabric needs libfabric, which is not here ({why}); install libfabric1 \
             (Debian, Ubuntu) or libfabric (Fedora, Arch), or use --fabric nic"
        ))
    })
}

impl Transport for Ofi {
    fn open(&self) -> Result<Arc<dyn TransportEndpoint>> {
        let endpoint = Arc::new(OfiTransportEndpoint::open(&self.device, self.ip)?);
        let mut opened = lock(&self.opened);
        opened.retain(|endpoint| endpoint.strong_count() > 0);
        opened.push(Arc::downgrade(&endpoint));
        Ok(endpoint)
    }

    fn packet_bytes(&self, _: &[Address]) -> usize {
        PACKET_BYTES
    }

    fn name(&self) -> String {
        self.settings.to_string()
    }

    fn needs_reply_address(&self) -> bool {
        true
    }
}

/// The segments of a node that peers reach without its agent, or that the provider has refused.
pub(crate) struct Registrations {
    /// They are closed before the endpoint that they may be bound to.
    known: FxHashMap<(Rank, SegmentId), Known>,
    endpoint: Arc<OfiTransportEndpoint>,
}

/// How far a segment's registration has come.
enum Known {
    UnderWay(Receiver<Result<Registered>>),
    Registered(Registered),
    Refused,
}

impl Known {
    /// Takes in the outcome of a registration that was under way. A thread that has ended without
    /// one has not registered anything.
    fn look(&mut self) {
        let Known::UnderWay(outcome) = self else { return };
        *self = match outcome.try_recv() {
            Ok(Ok(registered)) => Known::Registered(registered),
            Ok(Err(_)) | Err(TryRecvError::Disconnected) => Known::Refused,
            Err(TryRecvError::Empty) => return,
        };
    }
}

impl Registrations {
    pub(crate) fn new(endpoint: Arc<OfiTransportEndpoint>) -> Registrations {
        Registrations { endpoint, known: FxHashMap::default() }
    }

    /// Begins a registration: where there is much memory, which the provider may pin, in a thread
    /// of its own.
    fn begin(&self, memory: Mapped) -> Known {
        let (send, outcome) = std::sync::mpsc::channel();
        let (endpoint, bytes) = (self.endpoint.clone(), memory.bytes());
        let register = move || {
            let queue = &endpoint.queue;
            // Nobody listens any more if the agent has ended.
            let _ = send.send(queue.device().register(memory, queue.endpoint()));
        };
        if bytes <= AT_ONCE_BYTES {
            register();
        } else {
            // A thread that cannot be started sends nothing.
            let _ = std::thread::Builder::new().name("farside-register".into()).spawn(register);
        }
        let mut begun = Known::UnderWay(outcome);
        begun.look();
        begun
    }
}

impl MemoryRegistration for Registrations {
    fn register(&mut self, rank: Rank, segment: SegmentId, memory: Mapped) -> Option<Registration> {
        if !self.known.contains_key(&(rank, segment)) {
            let begun = self.begin(memory);
            self.known.insert((rank, segment), begun);
        }
        let known = self.known.get_mut(&(rank, segment))?;
        known.look();
        match known {
            Known::UnderWay(_) => None,
            Known::Registered(registered) => Some(Registration::Key(registered.remote_key())),
            Known::Refused => Some(Registration::Refused),
        }
    }

    fn is_registering(&mut self, rank: Rank, segment: SegmentId) -> bool {
        let Some(known) = self.known.get_mut(&(rank, segment)) else { return false };
        known.look();
        matches!(known, Known::UnderWay(_))
    }

    fn deregister(&mut self, rank: Rank, segment: SegmentId) {
        self.known.remove(&(rank, segment));
    }
}

#[cfg(test)]
mod tests;
