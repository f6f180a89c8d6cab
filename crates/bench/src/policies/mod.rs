//! Policies: against OVN with the same as ACLs, and against pods that no policy is about.
//!
//! Both sides know one cluster: 50 namespaces of ten applications, each of ten pods that are alike, and
//! two policies for each application. The node that is measured has one pod of each namespace; all
//! others are elsewhere, and only known of.

mod ours;
mod rival;
mod scale;
mod traffic;

pub(crate) use scale::SCALE;
pub(crate) use traffic::TRAFFIC;

const NAMESPACES: usize = 50;
const APPS: usize = 10;
const REPLICAS: usize = 10;
/// Namespaces are of one of so many teams, by a label.
const TEAMS: usize = 10;
const NODES: usize = 100;
/// Where all pods are asked by other teams.
const SHARED_PORTS: [u16; 2] = [9090, 9100];
/// What is outside, and where that is asked.
const OUTSIDE: &str = "192.0.2.0/24";
const OUTSIDE_PORTS: [u16; 2] = [53, 443];

/// An application of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct App {
    namespace: usize,
    app: usize,
}

/// A pod: one of the replicas of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    of: App,
    replica: usize,
}

/// What the two policies of an application say: who asks it, at which port; whom it asks, at which
/// port; and beside them, a team at the shared ports, and what is outside but for one address.
#[derive(Debug, Clone)]
struct Law {
    subjects: App,
    client: App,
    port: u16,
    team: usize,
    server: App,
    server_port: u16,
    except: String,
}

// === impl App ===

impl App {
    fn all() -> impl Iterator<Item = Self> {
        (0..NAMESPACES).flat_map(|namespace| (0..APPS).map(move |app| Self { namespace, app }))
    }

    fn beside(self, by: usize) -> Self {
        Self { app: (self.app + by) % APPS, ..self }
    }

    fn team(self) -> usize {
        self.namespace % TEAMS
    }

    fn port(self) -> u16 {
        8000 + u16::try_from(self.app).unwrap_or_default()
    }

    fn members(self) -> impl Iterator<Item = Member> {
        (0..REPLICAS).map(move |replica| Member { of: self, replica })
    }

    fn law(self) -> Law {
        let server = self.beside(APPS - 1);
        Law {
            subjects: self,
            client: self.beside(1),
            port: self.port(),
            team: (self.namespace + self.app) % TEAMS,
            server,
            server_port: server.port(),
            except: format!("192.0.2.{}/32", self.namespace),
        }
    }
}

// === impl Member ===

impl Member {
    fn all() -> impl Iterator<Item = Self> {
        App::all().flat_map(App::members)
    }

    /// Of each namespace one, each time of another application.
    fn is_local(self) -> bool {
        self.replica == 0 && self.of.app == self.of.namespace % APPS
    }

    fn local() -> impl Iterator<Item = Self> {
        Self::all().filter(|member| member.is_local())
    }

    /// The node that it is on: the first is the one that is measured.
    fn node(self) -> usize {
        if self.is_local() { 1 } else { 2 + self.number() % (NODES - 1) }
    }

    /// One for each, also for replicas beyond those that there are.
    fn number(self) -> usize {
        let App { namespace, app } = self.of;
        (self.replica * NAMESPACES + namespace) * APPS + app
    }

    fn name(self) -> String {
        let App { namespace, app } = self.of;
        format!("p{namespace}-{app}-{}", self.replica)
    }
}

fn namespace(number: usize) -> String {
    format!("ns{number}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_five_thousand_pods_and_fifty_are_here() {
        let numbers: BTreeSet<usize> = Member::all().map(Member::number).collect();
        assert_eq!((numbers.len(), App::all().count() * 2), (5000, 1000));
        assert_eq!(Member::local().count(), 50);
        assert!(Member::all().all(|member| (1..=NODES).contains(&member.node())));
    }
}
