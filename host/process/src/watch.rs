//! Seeing a child end without reaping it.
//!
//! While the leader of a group is not reaped, the group's number belongs to it, and a signal to
//! the group can't reach strangers. That is why neither tokio's nor std's `wait` serves here.

use std::io;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// A way to wait for the end of a child.
pub(crate) enum Watch {
    /// The kernel says it by a descriptor.
    #[cfg(target_os = "linux")]
    Descriptor(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>),
    /// A thread waits: macOS, a Linux before 5.3, or a sandbox that knows no `pidfd_open`.
    Thread(Pid),
}

impl Watch {
    pub(crate) fn new(leader: Pid) -> io::Result<Watch> {
        #[cfg(target_os = "linux")]
        if let Ok(descriptor) = rustix::process::pidfd_open(leader, rustix::process::PidfdFlags::empty()) {
            return registered(descriptor).map(Watch::Descriptor);
        }
        Ok(Watch::Thread(leader))
    }

    /// Returns when the child has ended. It is still to be reaped then.
    pub(crate) async fn ended(&self) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Watch::Descriptor(descriptor) => descriptor.readable().await.map(drop),
            Watch::Thread(leader) => {
                let leader = *leader;
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                let wait = move || loop {
                    match waitid(WaitId::Pid(leader), options) {
                        Err(rustix::io::Errno::INTR) => {}
                        other => return other.map(drop).map_err(io::Error::from),
                    }
                };
                tokio::task::spawn_blocking(wait).await.map_err(io::Error::other)?
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[expect(
    deprecated,
    reason = "the successor is unsafe, against descriptors that change; an `OwnedFd` does not"
)]
fn registered(
    descriptor: std::os::fd::OwnedFd,
) -> io::Result<tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>> {
    tokio::io::unix::AsyncFd::with_interest(descriptor, tokio::io::Interest::READABLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitOptions, waitpid};

    #[tokio::test]
    async fn a_thread_sees_the_end_where_there_is_no_descriptor() {
        let child = std::process::Command::new("/bin/sh").args(["-c", "exit 3"]).spawn();
        let leader = Pid::from_child(&child.expect("starts"));
        Watch::Thread(leader).ended().await.expect("waits");
        let (_, status) = waitpid(Some(leader), WaitOptions::NOHANG).expect("ours").expect("ended");
        assert_eq!(status.exit_status(), Some(3), "it was left to be reaped");
    }
}
