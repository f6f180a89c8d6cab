//! A client that knows all controllers: curl, with the watcher's credential.

use crate::seat::Seat;
use osier_testbed::Netns;
use std::path::PathBuf;

/// Whose the credential is.
pub(crate) const WATCHER: &str = "watcher";
/// Where RESTCONF is served, and the API.
pub(crate) const RESTCONF: u16 = 8443;
pub(crate) const API: u16 = 6645;

#[derive(Clone)]
pub(crate) struct Client {
    seats: Vec<(Netns, String)>,
    pub(crate) credential: String,
    pub(crate) authority: PathBuf,
}

impl Client {
    pub(crate) fn new(seats: &[Seat], authority: PathBuf) -> Self {
        let seats = seats.iter().map(|seat| (seat.netns.clone(), seat.address.clone())).collect();
        Self { seats, credential: String::new(), authority }
    }

    /// How many controllers it knows.
    pub(crate) fn seats(&self) -> usize {
        self.seats.len()
    }

    /// A request to one controller, at one of its ports; nothing if it does not answer within so many
    /// seconds.
    pub(crate) fn ask(
        &self,
        seat: usize,
        port: u16,
        (method, path, body): (&str, &str, Option<&str>),
        seconds: u32,
    ) -> Option<(u16, String)> {
        let (netns, address) = &self.seats[seat];
        let mut command = netns.command("curl").args(["--silent", "-w", "\n%{http_code}"]);
        command = command.args(["--max-time", &seconds.to_string(), "-X", method]);
        command = match port {
            RESTCONF => command.args(["--user", &format!("{WATCHER}:{}", self.credential)]),
            _ => command.args(["-H", &format!("Authorization: Bearer {}", self.credential)]),
        };
        command = command.args(["-H", "Content-Type: application/json"]);
        command = command.args(["-A", "Go-http-client/1.1", "--cacert"]).arg(&self.authority);
        if let Some(body) = body {
            command = command.args(["--data-binary", body]);
        }
        let text = command.arg(format!("https://{address}:{port}{path}")).run().ok()?;
        let (body, status) = text.rsplit_once('\n').unwrap();
        Some((status.parse().unwrap(), body.to_owned()))
    }
}
