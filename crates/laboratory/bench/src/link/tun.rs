//! The interface of a node whose frames a program carries: a TUN device.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd as _;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The longest name of an interface, with the zero at its end.
const NAME_BYTES: usize = 16;
/// `IFF_TUN | IFF_NO_PI`: packets of IP, with nothing before them.
const FLAGS: u16 = 0x1001;
/// `TUNSETIFF`.
const SET_INTERFACE: rustix::ioctl::Opcode = 0x4004_54ca;

/// `struct ifreq`, as far as a TUN device uses it.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    flags: u16,
    rest: [u8; 22],
}

/// Makes an interface in a network namespace. What is sent through it is read from the file, one
/// packet at a time, and what is written there arrives. It goes when the file is closed.
pub(super) fn open(namespace: &str, interface: &str) -> Result<File> {
    let path = Path::new("/run/netns").join(namespace);
    let entrance = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    // The interface appears in the namespace of the thread that opens the device.
    let thread = std::thread::scope(|scope| {
        let opening = scope.spawn(|| -> Result<File> {
            move_into_link_name_space(entrance.as_fd(), Some(LinkNameSpaceType::Network))
                .context("cannot enter a network namespace")?;
            create(interface)
        });
        opening.join()
    });
    thread.map_err(|_| anyhow!("a thread that makes an interface has panicked"))?
}

fn create(interface: &str) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let file = file.context("cannot open /dev/net/tun")?;
    let mut request = Request { name: [0; NAME_BYTES], flags: FLAGS, rest: [0; 22] };
    let name = request.name.iter_mut().take(NAME_BYTES - 1);
    name.zip(interface.bytes()).for_each(|(to, from)| *to = from);
    // SAFETY: the request has the layout and the length that this ioctl reads and writes.
    let set = unsafe {
        let update = rustix::ioctl::Updater::<SET_INTERFACE, Request>::new(&mut request);
        rustix::ioctl::ioctl(&file, update)
    };
    set.with_context(|| format!("cannot make the interface {interface}"))?;
    Ok(file)
}
