//! libfabric as a transport of the nic fabric.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};

use farside_fabric::{Error, Result, Width};
use farside_nic::{Address, Transport, TransportEndpoint};

use crate::device::Device;
use crate::ffi::Library;
use crate::provider;
use crate::settings::{Atomics, Settings};
use crate::transport_endpoint::{OfiTransportEndpoint, PACKET_BYTES};
use farside_fabric::lock::lock;

/// Where a processor of the target executes everything anyway, shorter transfers are gathered in
/// messages: fewer of those, and fewer turns of the agent.
const RMA_FROM_SOFTWARE: u64 = 8 << 10;

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

#[cfg(test)]
mod tests;
