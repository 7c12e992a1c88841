//! The host-based server: a thread of a rank's own process serves that rank's memory.
//!
//! Paper:   \[NIC02 figure 1a\] and \[NIC02 section V-A\]: what the interface is compared with.
//! Differs: it executes the same requests by the same code as the agent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use farside_fabric::tracing::Server;
use farside_fabric::{Error, Rank, Result};
use farside_shm::Job;

use super::address_table::AddressTable;
use super::fence::NodeFence;
use super::server::REPLY_BYTES;
use crate::settings::ServerLocation;
use crate::target::listener::Listener;
use crate::target::memory::NodeMemory;
use crate::target::recorder::Recorder;
use crate::target::service::{Nodes, Service};
use crate::transport::{StreamSettings, TransportEndpoint as _, udp};
use crate::wire::{self, ServerId};

/// The thread that serves one rank, until this is dropped.
pub(crate) struct HostServer {
    stop: Arc<AtomicBool>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl HostServer {
    pub(crate) fn start(job: &Arc<Job>, rank: Rank, table: &AddressTable) -> Result<HostServer> {
        let (topology, node) = (job.topology().clone(), table.node());
        let settings = table.settings();
        debug_assert_eq!(settings.server.location, ServerLocation::Host);
        let endpoint = udp::open_server(table.address(node)?.ip())?;
        let (address, key) = (endpoint.socket_address()?, table.key());
        let datagram_bytes = table.packet_bytes();
        endpoint.enable_streams(StreamSettings { key: &key, datagram_bytes });
        let memory = memory_for(job, rank, table);
        let id = ServerId(topology.nodes() + rank.0);
        let nodes = Nodes { topology: (*topology).clone(), hosts: table.hosts()? };
        let recorder = Recorder::new(job, Server::Host(rank));
        let mut service = Service::new(id, key, REPLY_BYTES, nodes, memory).recorded(recorder);
        let mut listener = Listener::new(Arc::new(endpoint), settings.server.wait);
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let run = move || {
            while !told.load(Ordering::SeqCst) {
                let came = listener.read(&mut service, |_| Err(wire::Refused::Astray), |_| ());
                if !listener.spins(came) {
                    listener.sleep(service.sleep_limit().unwrap_or(Duration::from_secs(1)));
                }
            }
        };
        let thread = std::thread::Builder::new().name("farside-host".into()).spawn(run).map_err(
            |error| Error::System {
                call: "starting a rank's server thread",
                errno: error.raw_os_error().unwrap_or(0),
            },
        )?;
        table.set_host_port(rank, address.port());
        Ok(HostServer { stop, address, thread: Some(thread) })
    }
}

/// Returns the memory of a node as the thread of a rank serves it: the thread ends with that rank.
pub(super) fn memory_for(job: &Arc<Job>, rank: Rank, table: &AddressTable) -> NodeMemory {
    let mut memory = NodeMemory::new(job.clone(), table.node(), Some(rank), table.host_ports());
    let fence = NodeFence { job: job.clone(), table: table.clone(), server: Some(rank) };
    memory.fence = Some(Box::new(fence));
    memory
}

impl Drop for HostServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Ok(socket) = udp::open(SocketAddr::new(self.address.ip(), 0)) {
            let _ = socket.send_to(&[], self.address);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
