//! The network of libfabric, as one node sees it, and the memory that it lets others reach.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use farside_fabric::{Error, Mapped, Rank, Result, SegmentId, Width};
use farside_nic::{Address, Line, Network, Registrar};
use rustc_hash::FxHashMap;

use crate::device::{Device, Registered};
use crate::ffi::Library;
use crate::provider::{self, Provider};
use crate::settings::{Atomics, Settings};
use crate::transport_endpoint::{OfiLine, PACKET_BYTES};

/// Where a processor of the target executes everything anyway, shorter transfers are gathered in
/// messages: fewer of those, and fewer turns of the agent.
const RMA_FROM_SOFTWARE: u64 = 8 << 10;

/// A provider, opened at an address of this host.
pub struct Ofi {
    device: Arc<Device>,
    ip: IpAddr,
    settings: Settings,
}

impl Ofi {
    /// Opens the provider that the settings name, or the best there is.
    pub fn open(settings: &Settings, ip: IpAddr) -> Result<Ofi> {
        let library = Arc::new(library()?);
        let provider = Provider::find(&library, settings.provider.as_deref(), ip)?;
        let is_software = provider.is_software();
        let mut settings = settings.clone();
        settings.provider = Some(provider.name());
        settings.rma_from.get_or_insert(if is_software { RMA_FROM_SOFTWARE } else { 0 });
        let device = Arc::new(Device::open(provider)?);
        let mut ofi = Ofi { device, ip, settings };
        if is_software {
            ofi.settings.atomics.get_or_insert(Atomics::Agent);
        }
        // Asked once; every rank is told by the name of the network.
        if ofi.settings.atomics != Some(Atomics::Agent) {
            let line = OfiLine::open(&ofi.device, ip)?;
            let has_them = line.queue.has_atomics(Width::W64) && line.queue.has_atomics(Width::W32);
            match ofi.settings.atomics {
                None => {
                    ofi.settings.atomics =
                        Some(if has_them { Atomics::Apart } else { Atomics::Agent })
                }
                Some(_) if has_them => {}
                Some(_) => {
                    let name = ofi.settings.provider.unwrap_or_default();
                    return Err(Error::Misuse(format!(
                        "libfabric's provider {name:?} has no atomics on words of 32 and 64 bits; \
                         use atomics=agent"
                    )));
                }
            }
        }
        Ok(ofi)
    }

    /// What was chosen: complete, and what [`Network::name`] writes down.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// The providers that a job could use here, the preferred one first, and the version of libfabric.
pub fn providers() -> Result<(String, Vec<String>)> {
    let library = library()?;
    Ok((library.version_text(), provider::names(&library)?))
}

fn library() -> Result<Library> {
    Library::open().map_err(|why| {
        Error::Misuse(format!(
            "the ofi fabric needs libfabric, which is not here ({why}); install libfabric1 \
             (Debian, Ubuntu) or libfabric (Fedora, Arch), or use --fabric nic"
        ))
    })
}

impl Network for Ofi {
    fn open(&self) -> Result<Arc<dyn Line>> {
        Ok(Arc::new(OfiLine::open(&self.device, self.ip)?))
    }

    fn packet_bytes(&self, _: &[Address]) -> usize {
        PACKET_BYTES
    }

    fn name(&self) -> String {
        self.settings.to_string()
    }

    fn introduces_itself(&self) -> bool {
        true
    }

    fn registrar(&self, line: &Arc<dyn Line>) -> Option<Box<dyn Registrar>> {
        Some(Box::new(Register {
            device: self.device.clone(),
            line: of(line)?,
            known: FxHashMap::default(),
        }))
    }
}

/// The line as what it is.
pub(crate) fn of(line: &Arc<dyn Line>) -> Option<Arc<OfiLine>> {
    let any: Arc<dyn Any + Send + Sync> = line.clone();
    any.downcast().ok()
}

/// The memory of a node that others can reach without its agent.
struct Register {
    device: Arc<Device>,
    line: Arc<OfiLine>,
    known: FxHashMap<(Rank, SegmentId), Registered>,
}

impl Registrar for Register {
    fn register(&mut self, rank: Rank, segment: SegmentId, memory: Mapped) -> Result<u128> {
        let place = match self.known.get(&(rank, segment)) {
            Some(registered) => registered.place(),
            None => {
                let registered = self.device.register(memory, &self.line.queue)?;
                let place = registered.place();
                self.known.insert((rank, segment), registered);
                place
            }
        };
        Ok((u128::from(place.key) << 64) | u128::from(place.base))
    }

    fn forget(&mut self, rank: Rank, segment: SegmentId) {
        self.known.remove(&(rank, segment));
    }
}
