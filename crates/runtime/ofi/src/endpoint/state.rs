//! The state of the job, as a rank over libfabric sees it.

use farside_fabric::record::Records;
use farside_fabric::{Connection as _, Departure, Effort, JobState, Loss, PeerState, Rank};

use super::Endpoint;

impl JobState for Endpoint {
    fn peer_state(&self, peer: Rank) -> PeerState {
        self.inner.job().peer_state(peer)
    }

    fn departure(&self, peer: Rank) -> Departure {
        self.inner.job().state.departure(peer)
    }

    fn note_cause(&self, cause: Option<Loss>) {
        self.inner.job().state.note_cause(cause);
    }

    fn leave(&self) {
        self.inner.job().state.leave();
    }

    fn records(&self) -> Option<Records> {
        self.inner.job().state.records()
    }

    fn effort(&self) -> Effort {
        let inner = self.inner.job().state.effort();
        Effort { naps: inner.naps + self.naps.get(), ..inner }
    }
}
