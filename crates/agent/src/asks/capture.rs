//! Packets of a port, as a pcap file that is written as they come.
//!
//! They are read where the switch has them: at its end of the pod's wire. A slow reader loses
//! packets in the kernel's buffer, and delays nobody.

use crate::netlink::PacketSocket;
use crate::ports::Ports;
use bytes::{BufMut, Bytes, BytesMut};
use osier_fleet::ask::CaptureRequest;
use osier_fleet::client::Reply;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a capture may cost.
const MAX_SECONDS: u32 = 600;
const MAX_BYTES: usize = 256 << 20;
const MAX_SNAP: usize = 65535;
/// Packets go in portions: when there are so many bytes, or so long after the first.
const PORTION: usize = 16 << 10;
const DELAY: Duration = Duration::from_millis(100);

pub(super) async fn capture(
    ports: &Ports,
    request: &CaptureRequest,
    reply: &Reply,
) -> Result<(), String> {
    let living = ports.living().into_iter().find(|port| port.key == request.port);
    let port = living.ok_or_else(|| format!("port {} is not on this node", request.port))?;
    let socket = PacketSocket::open(&port.host)
        .map_err(|error| format!("{} cannot be listened to: {error}", port.host))?;
    let unwanted = |error: osier_fleet::client::Unwanted| error.to_string();
    let snap = usize::try_from(request.snap_length).unwrap_or(MAX_SNAP).clamp(64, MAX_SNAP);
    reply.send(header(snap)).await.map_err(unwanted)?;
    let seconds = request.seconds.clamp(1, MAX_SECONDS);
    let until = Instant::now() + Duration::from_secs(seconds.into());
    let (mut left, mut bytes) = (request.count, MAX_BYTES);
    let mut buffer = vec![0; MAX_SNAP + 1];
    let mut portion = BytesMut::new();
    let mut due = None;
    loop {
        let wait = due.unwrap_or(until).min(until);
        let received = tokio::time::timeout_at(wait.into(), socket.receive(&mut buffer)).await;
        match received {
            Ok(Ok(length)) => {
                let kept = length.min(snap).min(buffer.len());
                record(&mut portion, SystemTime::now(), &buffer[..kept], length);
                due.get_or_insert_with(|| Instant::now() + DELAY);
                left = left.saturating_sub(1);
                bytes = bytes.saturating_sub(kept + 16);
            }
            Ok(Err(error)) => return Err(format!("{}: {error}", port.host)),
            Err(_) => {}
        }
        let over = left == 0 || bytes == 0 || Instant::now() >= until;
        let ready = portion.len() >= PORTION || due.is_some_and(|due| Instant::now() >= due);
        if (over || ready) && !portion.is_empty() {
            reply.send(portion.split().freeze()).await.map_err(unwanted)?;
            due = None;
        }
        if over {
            return Ok(());
        }
    }
}

/// `struct pcap_file_header`, little-endian, microseconds, Ethernet.
fn header(snap: usize) -> Bytes {
    let mut header = BytesMut::new();
    header.put_u32_le(0xa1b2_c3d4);
    header.put_u16_le(2);
    header.put_u16_le(4);
    header.put_u64_le(0);
    header.put_u32_le(u32::try_from(snap).unwrap_or(u32::MAX));
    header.put_u32_le(1);
    header.freeze()
}

/// `struct pcap_pkthdr` as files have it, and the packet.
fn record(out: &mut BytesMut, at: SystemTime, packet: &[u8], length: usize) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    out.put_u32_le(u32::try_from(since.as_secs()).unwrap_or(u32::MAX));
    out.put_u32_le(since.subsec_micros());
    out.put_u32_le(size(packet.len()));
    out.put_u32_le(size(length));
    out.extend_from_slice(packet);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_form_that_others_read() {
        let mut file = BytesMut::from(&header(96)[..]);
        record(&mut file, UNIX_EPOCH + Duration::from_millis(1500), &[1, 2, 3], 90);
        assert_eq!(file.len(), 24 + 16 + 3);
        assert_eq!(file[..4], [0xd4, 0xc3, 0xb2, 0xa1]);
        assert_eq!(file[24..32], [1, 0, 0, 0, 0x20, 0xa1, 7, 0]);
        assert_eq!(file[32..40], [3, 0, 0, 0, 90, 0, 0, 0]);
    }
}
