//! The ofi fabric, where this crate was built with the feature `ofi`; otherwise errors that say so.

#[cfg(feature = "ofi")]
pub use built::{check_provider, libfabric};
#[cfg(feature = "ofi")]
pub(crate) use built::{enter, transport};
#[cfg(not(feature = "ofi"))]
pub use left_out::{check_provider, libfabric};
#[cfg(not(feature = "ofi"))]
pub(crate) use left_out::{enter, transport};

#[cfg(feature = "ofi")]
mod built {
    use std::net::IpAddr;
    use std::sync::Arc;

    use farside_fabric::{Connection, Rank, Result};
    use farside_nic::Transport;

    /// Refuses a name that no provider of libfabric can have. Whether the provider is installed is
    /// found out when the job starts.
    pub fn check_provider(name: &str) -> Result<()> {
        name.parse::<farside_ofi::Settings>().map(drop)
    }

    /// Returns the version of libfabric that is installed, and the providers that a job could use,
    /// the preferred one first.
    pub fn libfabric() -> Result<(String, Vec<String>)> {
        farside_ofi::providers()
    }

    pub(crate) fn transport(provider: &str, bind: IpAddr) -> Result<Arc<dyn Transport>> {
        Ok(Arc::new(farside_ofi::Ofi::open(&provider.parse()?, bind)?))
    }

    pub(crate) fn enter(
        job: Arc<farside_shm::Job>,
        rank: Rank,
        companion: Option<farside_shm::Companion>,
    ) -> Result<Box<dyn Connection>> {
        let endpoint = farside_ofi::Endpoint::join(job, rank)?;
        companion.into_iter().for_each(|companion| endpoint.keep(companion));
        Ok(Box::new(endpoint))
    }
}

#[cfg(not(feature = "ofi"))]
mod left_out {
    use std::net::IpAddr;
    use std::sync::Arc;

    use farside_fabric::{Connection, Error, Rank, Result};
    use farside_nic::Transport;

    /// Refuses every provider: this crate was built without the feature `ofi`.
    pub fn check_provider(_: &str) -> Result<()> {
        missing()
    }

    /// Returns an error: this crate was built without the feature `ofi`.
    pub fn libfabric() -> Result<(String, Vec<String>)> {
        missing()
    }

    pub(crate) fn transport(_: &str, _: IpAddr) -> Result<Arc<dyn Transport>> {
        missing()
    }

    pub(crate) fn enter(
        _: Arc<farside_shm::Job>,
        _: Rank,
        _: Option<farside_shm::Companion>,
    ) -> Result<Box<dyn Connection>> {
        missing()
    }

    fn missing<T>() -> Result<T> {
        Err(Error::InvalidSetting(
            "this program was built without the ofi fabric: build it with the feature `ofi` of \
             farside, or use nic between nodes"
                .into(),
        ))
    }
}
