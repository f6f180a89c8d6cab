//! Throughput, by `iperf3`.

use std::net::IpAddr;
use std::time::Duration;

use super::TrafficError;
use crate::netns::Netns;
use crate::process::Process;
use crate::wait::wait_until;

/// Each server is alone in its namespace, or the test runs one measurement after the other.
const PORT: u16 = 5201;
const READY: Duration = Duration::from_secs(5);

/// What one TCP stream got through.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TcpRate {
    /// Megabits a second, as the receiver saw it.
    pub mbit_per_second: f64,
}

/// What came of a stream of datagrams.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UdpRate {
    /// Megabits a second, as the receiver saw it.
    pub mbit_per_second: f64,
    /// Datagrams lost.
    pub lost: u64,
    /// Datagrams sent.
    pub sent: u64,
}

/// Sends TCP from `client` to the address `to` of `server`, for whole seconds.
pub fn iperf_tcp(
    client: &Netns,
    server: &Netns,
    to: IpAddr,
    seconds: u32,
) -> Result<TcpRate, TrafficError> {
    let line = measure(client, server, to, seconds, &[])?;
    Ok(TcpRate { mbit_per_second: rate(&line)? })
}

/// Sends datagrams of 1200 bytes at this rate.
pub fn iperf_udp(
    client: &Netns,
    server: &Netns,
    to: IpAddr,
    seconds: u32,
    mbit_per_second: u32,
) -> Result<UdpRate, TrafficError> {
    let bandwidth = format!("{mbit_per_second}M");
    let line = measure(client, server, to, seconds, &["-u", "-l", "1200", "-b", &bandwidth])?;
    let (lost, sent) = datagrams(&line).ok_or_else(|| unreadable("lost datagrams", &line))?;
    Ok(UdpRate { mbit_per_second: rate(&line)?, lost, sent })
}

/// Runs both sides and returns the receiver's line of the client's report.
fn measure(
    client: &Netns,
    server: &Netns,
    to: IpAddr,
    seconds: u32,
    options: &[&str],
) -> Result<String, TrafficError> {
    let port = PORT.to_string();
    let _server: Process = server.command("iperf3").args(["-s", "-1", "-p", &port]).spawn()?;
    // Not by connecting: the server takes one client only.
    wait_until("iperf3 to listen", READY, || match server.listens_on_tcp(PORT) {
        Ok(true) => Ok(()),
        Ok(false) => Err("not listening".to_owned()),
        Err(e) => Err(e.to_string()),
    })?;
    let text = client
        .command("iperf3")
        .args(["-f", "m", "-p", &port, "-c", &to.to_string(), "-t", &seconds.to_string()])
        .args(options)
        .deadline(Duration::from_secs(u64::from(seconds)) + Duration::from_secs(15))
        .run()?;
    let line = text.lines().rfind(|line| line.trim_end().ends_with("receiver"));
    line.map(str::to_owned).ok_or_else(|| unreadable("the receiver's line", &text))
}

/// `[  5]   0.00-1.00   sec   119 MBytes   994 Mbits/sec   receiver`
fn rate(line: &str) -> Result<f64, TrafficError> {
    line.split_once(" Mbits/sec")
        .and_then(|(before, _)| before.rsplit(' ').next()?.parse().ok())
        .ok_or_else(|| unreadable("a rate", line))
}

/// `… Mbits/sec  0.011 ms  0/1041 (0%)  receiver`
fn datagrams(line: &str) -> Option<(u64, u64)> {
    let (lost, sent) = line
        .split_whitespace()
        .find_map(|word| word.split_once('/').filter(|(n, _)| n.parse::<u64>().is_ok()))?;
    Some((lost.parse().ok()?, sent.parse().ok()?))
}

fn unreadable(what: &'static str, text: &str) -> TrafficError {
    TrafficError::Unreadable { tool: "iperf3", what, text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receivers_line_is_read() {
        let tcp = "[  5]   0.00-1.04   sec   119 MBytes   957 Mbits/sec                  receiver";
        assert!((rate(tcp).unwrap() - 957.0).abs() < 1e-9);
        let udp = "[  5]   0.00-1.04   sec  1.19 MBytes  9.61 Mbits/sec  0.011 ms  3/1041 (0.29%)  receiver";
        assert_eq!(datagrams(udp), Some((3, 1041)));
        assert!(rate("nothing").is_err());
    }
}
