//! Random clusters and policies, changed step by step: what two real switches do with a packet, what
//! the model says of it, and what a plain reading of the labels says, are the same.
//!
//! `OSIER_SEED` is another chance.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is the report")]
#![allow(unreachable_pub, reason = "modules of one test")]

mod dice;
mod reference;
mod resolve;
mod site;
mod world;

use dice::Dice;
use osier_model::{Identity, Law, Object, Party, Talk, Transport};
use osier_testbed::{Fabric, Family, Lab};
use reference::{Probe, Who, passes};
use resolve::{Numbers, Told};
use site::{Site, arrives};
use world::{NODES, PORTS, World};

const CASES: usize = 200;
const MANY_CASES: usize = 2000;
/// Probes of a case, between which nothing changes.
const PROBES: usize = 5;
/// Cases after which all is another: namespaces, pods, policies.
const WORLD: usize = 20;

fn seed() -> Option<u64> {
    std::env::var("OSIER_SEED").ok()?.parse().ok()
}

/// What is the same all the time.
fn fixed() -> Vec<Object> {
    let text = "
- { kind: node, name: n1, tunnel: 198.51.100.1, addresses: [198.51.100.1, '2001:db8:51::1'], blocks: [10.1.1.0/24, 'fd01:0:0:1::/64'] }
- { kind: node, name: n2, tunnel: 198.51.100.2, addresses: [198.51.100.2], blocks: [10.1.2.0/24, 'fd01:0:0:2::/64'] }
- { kind: router, name: default, vrf: 0 }
- { kind: network, name: pods, vni: 1, router: default, reach: routed }
";
    serde_saphyr::from_str(text).unwrap()
}

fn probe(dice: &mut Dice, world: &World) -> Probe {
    let here = world.here();
    let pod = |dice: &mut Dice| Who::Pod(*dice.pick(&here));
    let ipv6 = dice.once_in(3);
    let outside = |dice: &mut Dice| {
        let last = *dice.pick(&[9_u8, 200]);
        Who::Outside(match ipv6 {
            false => [192, 0, 2, last].into(),
            true => [0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into()].into(),
        })
    };
    let (from, to) = match dice.roll(12) {
        0 => (outside(dice), pod(dice)),
        1 => (pod(dice), outside(dice)),
        2 | 3 => (Who::Node(dice.roll(NODES)), pod(dice)),
        4 => (pod(dice), Who::Node(dice.roll(NODES))),
        _ => {
            let one = dice.roll(here.len());
            let other = 1 + dice.roll(here.len() - 1);
            (Who::Pod(here[one]), Who::Pod(here[(one + other) % here.len()]))
        }
    };
    let transport = *dice.pick(&[Transport::Tcp, Transport::Tcp, Transport::Udp, Transport::Sctp]);
    let port = (!dice.once_in(8)).then(|| (transport, *dice.pick(&PORTS)));
    Probe { from, to, ipv6, port }
}

/// What the model says.
fn judged(told: &Told, world: &World, numbers: &Numbers, probe: &Probe) -> bool {
    let (mut policies, mut selections) =
        (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
    for object in &told.law {
        match object.clone() {
            Object::Policy(policy) => drop(policies.insert(policy.name.clone(), policy)),
            Object::Selection(selection) => drop(selections.insert(selection.id, selection)),
            _ => {}
        }
    }
    if let (Who::Node(node), Who::Pod(pod)) = (probe.from, probe.to)
        && world.pods[pod].node == node
    {
        return true;
    }
    let party = |who: Who, address| Party {
        identity: match who {
            Who::Pod(pod) => numbers.identity(world, pod),
            Who::Node(_) => Identity::HOST,
            Who::Outside(_) => Identity::ANY,
        },
        address,
    };
    let talk = Talk {
        from: party(probe.from, probe.from.sends(world, probe.ipv6)),
        to: party(probe.to, probe.to.receives(world, probe.ipv6)),
        port: probe.port,
    };
    Law { policies: &policies, selections: &selections }.judge(&talk).passes()
}

/// Flows of policies, as the switches have them.
fn flows(fabric: &Fabric) -> String {
    let dump = |node: &osier_testbed::Node| {
        let all =
            ["-O", "OpenFlow15", "--no-stats", "dump-flows", osier_testbed::Node::INTEGRATION];
        let all = node.ovs().ofctl(&all).unwrap();
        let policies = all.lines().filter(|l| l.contains("table=215") || l.contains("table=244"));
        policies.collect::<Vec<_>>().join("\n")
    };
    fabric.nodes().iter().map(dump).collect::<Vec<_>>().join("\n====\n")
}

#[tokio::test]
async fn switches_do_what_policies_mean() {
    compare(CASES, seed().unwrap_or(9)).await;
}

#[tokio::test]
#[ignore = "long: run by make soak"]
async fn soak_switches_do_what_policies_mean() {
    compare(MANY_CASES, seed().unwrap_or(77)).await;
}

async fn compare(cases: usize, seed: u64) {
    let mut dice = Dice(seed);
    let lab = Lab::new().unwrap();
    let fabric = Fabric::new(&lab, Family::Ipv4, u8::try_from(NODES).unwrap()).unwrap();
    let fixed = fixed();
    let (mut world, mut numbers) = (World::new(&mut dice), Numbers::new(&fixed));
    let mut sites = Vec::new();
    for node in fabric.nodes() {
        sites.push(Site::new(node, &world).await);
    }
    let (mut passed, mut all) = (0, 0);
    for case in 0..cases {
        match case % WORLD {
            0 => world = World::new(&mut dice),
            _ => world.change(&mut dice),
        }
        let told = numbers.resolve(&world);
        for (node, site) in sites.iter_mut().enumerate() {
            site.follow(&fixed, &told, node).await;
        }
        for _ in 0..PROBES {
            let probe = probe(&mut dice, &world);
            let expected = passes(&world, &probe);
            let said = judged(&told, &world, &numbers, &probe);
            let (found, trace) = arrives(&fabric, &world, &probe);
            assert!(
                found == expected && said == expected,
                "seed {seed}, case {case}: {probe:?}: labels say {expected}, the model {said}, \
                 switches {found}\n{world:#?}\n{trace}{}",
                flows(&fabric)
            );
            (passed, all) = (passed + usize::from(found), all + 1);
        }
    }
    println!("{all} probes in {cases} cases, {passed} arrived");
    assert!(passed * 5 > all && passed * 5 < all * 4, "{passed} of {all} prove little");
}
