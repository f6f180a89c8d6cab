//! The plugin under the name `loopback`: older container runtimes call one of that name for each
//! pod, before any other, and a node without it starts none.
//!
//! It only sets `lo` of the container up: the kernel adds the addresses. No agent is asked.

use crate::config::version_of;
use crate::relay::{self, Outcome};
use crate::spec::{AddResult, Cidr, Code, Command, Environment, Error, Interface, Ip, Version};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send};
use nix::sys::socket::{NetlinkAddr, connect, socket};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

/// The interface.
const NAME: &str = "lo";
/// It is the first of every namespace.
const INDEX: i32 = 1;

/// Serves one call of a runtime.
pub fn serve(variable: impl Fn(&str) -> Option<OsString>, stdin: &mut impl Read) -> Outcome {
    relay::answering(variable, stdin, |environment, config| answer(&environment, config))
}

fn answer(environment: &Environment, config: &[u8]) -> Result<String, Error> {
    match environment.command {
        Command::Add => {
            set_up(environment).map_err(|error| failed(environment, &error))?;
            Ok(result(environment).render(version_of(config).unwrap_or(Version::NEWEST)))
        }
        Command::Check => {
            set_up(environment).map_err(|error| failed(environment, &error))?;
            Ok(String::new())
        }
        // It goes with its namespace; there is nothing else to say or to collect.
        Command::Del | Command::Status | Command::Gc | Command::Version => Ok(String::new()),
    }
}

fn failed(environment: &Environment, error: &io::Error) -> Error {
    let msg = format!("lo cannot be set up in {:?}: the container may be gone", environment.netns);
    Error::new(Code::IO_FAILURE, msg).with_details(error)
}

fn result(environment: &Environment) -> AddResult {
    let lo = Interface {
        name: NAME.to_owned(),
        mac: Some("00:00:00:00:00:00".to_owned()),
        sandbox: Some(environment.netns.clone()),
        ..Interface::default()
    };
    let ip = |address: IpAddr, prefix| Ip {
        address: Cidr { address, prefix },
        gateway: None,
        interface: Some(0),
    };
    AddResult {
        interfaces: vec![lo],
        ips: vec![ip(Ipv4Addr::LOCALHOST.into(), 8), ip(Ipv6Addr::LOCALHOST.into(), 128)],
        ..AddResult::default()
    }
}

/// Sets `lo` up. The process has one thread, and ends after this call: it stays in the namespace.
fn set_up(environment: &Environment) -> io::Result<()> {
    let namespace = File::open(&environment.netns)?;
    setns(&namespace, CloneFlags::CLONE_NEWNET)?;
    let flags = SockFlag::SOCK_CLOEXEC;
    let route = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    connect(route.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    send(route.as_raw_fd(), &up_request(), MsgFlags::empty())?;
    let mut answer = [0; 512];
    let length = recv(route.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    match acknowledged(&answer[..length]) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(io::Error::other("the kernel's answer cannot be read")),
    }
}

/// RTM_NEWLINK with only IFF_UP changed (rtnetlink(7)).
fn up_request() -> [u8; 32] {
    const RTM_NEWLINK: u16 = 16;
    /// NLM_F_REQUEST and NLM_F_ACK.
    const FLAGS: u16 = 1 | 4;
    const IFF_UP: u32 = 1;
    let mut request = [0; 32];
    request[0..4].copy_from_slice(&32_u32.to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&FLAGS.to_ne_bytes());
    request[20..24].copy_from_slice(&INDEX.to_ne_bytes());
    request[24..28].copy_from_slice(&IFF_UP.to_ne_bytes());
    request[28..32].copy_from_slice(&IFF_UP.to_ne_bytes());
    request
}

/// The number of an NLMSG_ERROR: 0 is success.
fn acknowledged(answer: &[u8]) -> Option<i32> {
    const NLMSG_ERROR: u16 = 2;
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let number = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (kind == NLMSG_ERROR).then_some(number.checked_neg()?)
}

/// Whether a program's name asks for this.
pub fn is_asked_for(program: Option<&std::ffi::OsStr>) -> bool {
    let name = program.map(std::path::Path::new).and_then(std::path::Path::file_name);
    name.is_some_and(|name| name == "loopback")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_kernel_are_numbers() {
        let mut answer = [0; 36];
        answer[4] = 2;
        assert_eq!(acknowledged(&answer), Some(0));
        answer[16..20].copy_from_slice(&(-19_i32).to_ne_bytes());
        assert_eq!(acknowledged(&answer), Some(19));
        assert_eq!(acknowledged(&answer[..10]), None);
        answer[4] = 3;
        assert_eq!(acknowledged(&answer), None);
    }

    #[test]
    fn what_is_said_is_what_the_reference_says() {
        let variable = |name: &str| {
            let value = match name {
                "CNI_COMMAND" => "ADD",
                "CNI_CONTAINERID" => "c",
                "CNI_NETNS" => "/run/netns/x",
                "CNI_IFNAME" => "lo",
                _ => return None,
            };
            Some(OsString::from(value))
        };
        let environment = Environment::read(variable).unwrap();
        let said = result(&environment).render(Version::V1_0_0);
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["interfaces"][0]["name"], "lo");
        assert_eq!(said["ips"][0]["address"], "127.0.0.1/8");
        assert_eq!(said["ips"][1]["address"], "::1/128");
    }
}
