//! Connecting a rank by the fabric of its job.

use std::sync::Arc;

use farside_fabric::observed::Observed;
use farside_fabric::record::RingProbe;
use farside_fabric::{Connection, Rank, Result};

use crate::{Kind, ofi};

/// Connects as this rank. The companion is dropped when the rank has left.
pub(crate) fn enter(
    kind: Kind,
    job: Arc<farside_shm::Job>,
    rank: Rank,
    companion: Option<farside_shm::Companion>,
) -> Result<Box<dyn Connection>> {
    let ring = job.ring(rank);
    let connection: Box<dyn Connection> = match kind {
        Kind::Shm => {
            let endpoint = farside_shm::Endpoint::join(job, rank)?;
            companion.into_iter().for_each(|companion| endpoint.keep(companion));
            Box::new(endpoint)
        }
        Kind::Nic => {
            let endpoint = farside_nic::Endpoint::join(job, rank)?;
            companion.into_iter().for_each(|companion| endpoint.keep(companion));
            Box::new(endpoint)
        }
        Kind::Ofi => ofi::enter(job, rank, companion)?,
    };
    Ok(match ring {
        Some(ring) => {
            let probe = RingProbe { ring, now_ns: farside_shm::now_ns };
            Box::new(Observed::new(connection, Arc::new(probe)))
        }
        None => connection,
    })
}
