//! An option of TCP sockets that rustix does not have.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

/// `TCP_RTO_MIN_US`, which recent kernels have.
const RTO_MIN_US: libc::c_int = 45;

/// Sets the shortest time after which the kernel repeats what is not acknowledged. It also bounds
/// how long the kernel delays its own acknowledgements.
pub(super) fn set_rto_min(socket: &TcpStream, least: Duration) -> io::Result<()> {
    let least_us = libc::c_int::try_from(least.as_micros()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the option takes an int, which is read during the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            RTO_MIN_US,
            std::ptr::from_ref(&least_us).cast(),
            size_of_val(&least_us) as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_socket_takes_the_option_or_says_that_there_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        match set_rto_min(&socket, Duration::from_millis(5)) {
            Ok(()) => {
                // The kernel has read the time: it refuses those that it cannot wait.
                assert!(set_rto_min(&socket, Duration::ZERO).is_err());
                assert!(set_rto_min(&socket, Duration::from_secs(3600)).is_err());
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT)),
        }
    }
}
