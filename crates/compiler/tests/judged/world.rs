//! Random clusters, in users' terms: namespaces and pods with labels, policies with selectors.

use crate::dice::Dice;
use ipnet::IpNet;
use osier_model::Transport;
use std::collections::BTreeMap;
use std::net::IpAddr;

pub type Labels = BTreeMap<&'static str, u8>;

pub const NODES: usize = 2;
const PODS: usize = 4;
const NAMESPACES: usize = 3;
pub const PORTS: [u16; 6] = [80, 81, 443, 5353, 8080, 8099];

/// A requirement of labels.
#[derive(Debug, Clone)]
pub enum Requirement {
    Is(&'static str, u8),
    In(&'static str, Vec<u8>),
    NotIn(&'static str, Vec<u8>),
    Exists(&'static str),
    Lacks(&'static str),
}

/// All must hold.
pub type Selector = Vec<Requirement>;

#[derive(Debug, Clone)]
pub enum Peer {
    /// Pods of namespaces, or of the policy's own.
    Pods {
        namespaces: Option<Selector>,
        pods: Selector,
    },
    Block {
        cidr: IpNet,
        except: Vec<IpNet>,
    },
}

#[derive(Debug, Clone)]
pub enum Port {
    All(Transport),
    Range(Transport, u16, u16),
    /// The one called `web`, of TCP.
    Web,
}

#[derive(Debug, Clone)]
pub struct Rule {
    pub peers: Option<Vec<Peer>>,
    pub ports: Option<Vec<Port>>,
}

#[derive(Debug, Clone)]
pub struct Policy {
    pub namespace: usize,
    pub pods: Selector,
    pub ingress: Option<Vec<Rule>>,
    pub egress: Option<Vec<Rule>>,
}

#[derive(Debug, Clone)]
pub struct Pod {
    pub node: usize,
    pub namespace: usize,
    pub labels: Labels,
    /// Where it has the port called `web`.
    pub web: Option<u16>,
    pub addresses: [IpAddr; 2],
    /// Others have gone, and may come again as somebody else.
    pub is_here: bool,
}

#[derive(Debug, Clone)]
pub struct World {
    pub namespaces: Vec<Labels>,
    pub pods: Vec<Pod>,
    pub policies: BTreeMap<usize, Policy>,
}

impl World {
    pub fn new(dice: &mut Dice) -> Self {
        let namespaces = (0..NAMESPACES).map(|_| labels(dice, &["team", "env"])).collect();
        let mut pods = Vec::new();
        for node in 0..NODES {
            for n in 0..PODS {
                let (third, last) =
                    (u8::try_from(node + 1).unwrap(), u8::try_from(n + 10).unwrap());
                let v6 = [0xfd01, 0, 0, third.into(), 0, 0, 0, last.into()];
                let addresses = [IpAddr::from([10, 1, third, last]), IpAddr::from(v6)];
                let (namespace, labels, web) = (0, Labels::new(), None);
                // So that there are always some who can talk.
                let is_here = n == 0 || !dice.once_in(3);
                let mut pod = Pod { node, namespace, labels, web, addresses, is_here };
                pod.become_another(dice);
                pods.push(pod);
            }
        }
        let policies = (0..dice.roll(4)).map(|n| (n, policy(dice))).collect();
        Self { namespaces, pods, policies }
    }

    /// Who is there.
    pub fn here(&self) -> Vec<usize> {
        (0..self.pods.len()).filter(|pod| self.pods[*pod].is_here).collect()
    }

    /// Something changes.
    pub fn change(&mut self, dice: &mut Dice) {
        match dice.roll(10) {
            0 => {
                let pod = dice.roll(self.pods.len());
                self.pods[pod].become_another(dice);
            }
            8 | 9 => {
                let pod = dice.roll(self.pods.len());
                let here = self.here();
                let is_last = here.iter().filter(|n| self.pods[**n].node == self.pods[pod].node);
                if !self.pods[pod].is_here {
                    self.pods[pod].become_another(dice);
                    self.pods[pod].is_here = true;
                } else if is_last.count() > 1 {
                    self.pods[pod].is_here = false;
                }
            }
            1 => {
                let namespace = dice.roll(NAMESPACES);
                self.namespaces[namespace] = labels(dice, &["team", "env"]);
            }
            2 => drop(self.policies.remove(&dice.roll(6))),
            _ => drop(self.policies.insert(dice.roll(6), policy(dice))),
        }
    }
}

impl Pod {
    fn become_another(&mut self, dice: &mut Dice) {
        self.namespace = dice.roll(NAMESPACES);
        self.labels = labels(dice, &["app", "tier"]);
        self.web = [None, Some(80), Some(8080)][dice.roll(3)];
    }
}

fn labels(dice: &mut Dice, keys: &[&'static str]) -> Labels {
    let mut labels = Labels::new();
    for key in keys {
        if !dice.once_in(4) {
            labels.insert(key, u8::try_from(dice.roll(3)).unwrap());
        }
    }
    labels
}

fn selector(dice: &mut Dice, keys: &[&'static str]) -> Selector {
    dice.some(0, 2, |dice| {
        let key = *dice.pick(keys);
        let value = |dice: &mut Dice| u8::try_from(dice.roll(3)).unwrap();
        match dice.roll(6) {
            0 => Requirement::In(key, dice.some(1, 2, value)),
            1 => Requirement::NotIn(key, dice.some(1, 2, value)),
            2 => Requirement::Exists(key),
            3 => Requirement::Lacks(key),
            _ => Requirement::Is(key, value(dice)),
        }
    })
}

fn peer(dice: &mut Dice) -> Peer {
    const BLOCKS: [(&str, &[&str]); 9] = [
        ("0.0.0.0/0", &["10.1.2.0/24", "198.51.100.1/32"]),
        // Nodes, by their own addresses.
        ("198.51.100.0/24", &["198.51.100.2/32"]),
        ("198.51.100.1/32", &[]),
        ("2001:db8:51::/64", &[]),
        ("10.1.1.0/24", &["10.1.1.12/32", "10.1.1.13/32"]),
        ("10.1.0.0/16", &[]),
        ("192.0.2.0/24", &["192.0.2.128/25"]),
        ("::/0", &["fd01::/48"]),
        ("fd01:0:0:2::/64", &[]),
    ];
    if dice.once_in(3) {
        let (cidr, except) = dice.pick(&BLOCKS);
        let except =
            except.iter().filter(|_| !dice.once_in(3)).map(|e| e.parse().unwrap()).collect();
        return Peer::Block { cidr: cidr.parse().unwrap(), except };
    }
    let namespaces = (!dice.once_in(2)).then(|| selector(dice, &["team", "env"]));
    Peer::Pods { namespaces, pods: selector(dice, &["app", "tier"]) }
}

fn port(dice: &mut Dice) -> Port {
    let transport = *dice.pick(&[Transport::Tcp, Transport::Tcp, Transport::Udp, Transport::Sctp]);
    match dice.roll(5) {
        0 => Port::All(transport),
        1 => Port::Web,
        2 => {
            let first = *dice.pick(&PORTS);
            Port::Range(transport, first, first + u16::try_from(dice.roll(30)).unwrap())
        }
        _ => {
            let port = *dice.pick(&PORTS);
            Port::Range(transport, port, port)
        }
    }
}

fn rules(dice: &mut Dice) -> Option<Vec<Rule>> {
    (!dice.once_in(3)).then(|| {
        dice.some(0, 3, |dice| Rule {
            peers: (!dice.once_in(4)).then(|| dice.some(1, 3, peer)),
            ports: (!dice.once_in(3)).then(|| dice.some(1, 3, port)),
        })
    })
}

fn policy(dice: &mut Dice) -> Policy {
    let (namespace, pods) = (dice.roll(NAMESPACES), selector(dice, &["app", "tier"]));
    Policy { namespace, pods, ingress: rules(dice), egress: rules(dice) }
}
