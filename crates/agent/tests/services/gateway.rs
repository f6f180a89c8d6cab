//! The service gateway: machines lead to Services, by rules such as kube-proxy's, and pods get there and
//! are seen as who they are.

use crate::ask::{self, count};
use crate::changes::{Parrot, says};
use crate::lab::PATIENCE;
use crate::proxy::{proxy, unproxy};
use crate::stage::{Stage, TARGET, at, eventually, service, slice};
use osier_testbed::{Netns, Signal, wait_until};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, TcpStream};

const WEB: [&str; 2] = ["10.96.0.10", "fd96::10"];
const TIMES: usize = 20;

/// How many packets came to a machine by its service gateway.
fn by_gateway(machine: &Netns) -> u64 {
    let link = machine.run(&["ip", "-s", "-j", "link", "show", "osier-svc"]).unwrap();
    let (_, rx) = link.split_once("\"rx\":").unwrap();
    let (_, packets) = rx.split_once("\"packets\":").unwrap();
    packets.split(',').next().unwrap().trim().parse().unwrap()
}

/// Both endpoints, as the view says them and as rules do.
fn both(stage: &Stage) -> (Vec<(IpAddr, &'static str)>, Vec<IpAddr>) {
    let addresses = || stage.endpoints.iter().flat_map(|guest| guest.addresses.clone());
    (addresses().map(|address| (address, "")).collect(), addresses().collect())
}

#[test]
fn machines_lead_pods_to_services_by_their_gateway() {
    let stage = Stage::new();
    let (said, endpoints) = both(&stage);
    // Endpoints that are no pods: the client's own machine, another one, and who is outside.
    let outer = |n| stage.cluster.addressing.outer(n).into_iter().map(|(a, _)| a);
    let others: [(&str, Vec<IpAddr>); 3] = [
        ("n1", outer(1).collect()),
        ("n2", outer(2).collect()),
        ("outside", stage.outside.addresses.clone()),
    ];
    let address = |n: usize, ipv6: bool| match ipv6 {
        true => format!("fd96::2{n}"),
        false => format!("10.96.0.2{n}"),
    };
    let mut services = vec![service("web", &WEB, ""), slice("web", &said)];
    let mut rules: Vec<(String, Vec<IpAddr>)> =
        WEB.iter().map(|web| ((*web).to_owned(), endpoints.clone())).collect();
    for (n, (name, addresses)) in others.iter().enumerate() {
        let own = [address(n, false), address(n, true)];
        services.push(service(name, &[&own[0], &own[1]], ""));
        let said: Vec<(IpAddr, &str)> = addresses.iter().map(|a| (*a, "")).collect();
        services.push(slice(name, &said));
        rules.extend(own.map(|own| (own, addresses.clone())));
    }
    let rules: Vec<(&str, Vec<IpAddr>)> =
        rules.iter().map(|(own, to)| (own.as_str(), to.clone())).collect();
    (0..2).for_each(|n| proxy(stage.node(n), &rules, TARGET));
    stage.tell_by_gateway(&services);
    let ovs = stage.cluster.fabric.nodes()[0].ovs();
    wait_until("the service gateway", PATIENCE, || {
        let ids = ovs.vsctl(&["get", "interface", "osier-svc", "external_ids"]);
        match ids.as_deref() {
            Ok(ids) if ids.contains("is-service-gateway=\"true\"") => Ok(()),
            ids => Err(format!("{ids:?}")),
        }
    })
    .unwrap();
    for (ipv6, web) in [(false, WEB[0]), (true, WEB[1])] {
        let web = at(web, 80);
        let ready = |said: &io::Result<ask::Answer>| said.is_ok();
        eventually("the Service", &stage.client.netns, || ask::tcp(web), ready);
        eventually("the Service on n2", &stage.endpoint("e2").netns, || ask::tcp(web), ready);
        let seen = |who: &str, as_whom: IpAddr| format!("{who} {as_whom}");
        let answers = |from: &Netns, udp: bool| -> BTreeSet<String> {
            let ask = if udp { ask::udp } else { ask::tcp };
            count(from, TIMES, || ask(web)).into_keys().collect()
        };
        let (client, e1) = (&stage.client, stage.endpoint("e1"));
        let before = by_gateway(stage.node(0));
        for udp in [false, true] {
            let itself = client.address(ipv6);
            let expected = BTreeSet::from([seen("e1", itself), seen("e2", itself)]);
            assert_eq!(answers(&client.netns, udp), expected, "a pod is seen as itself");
            let service_address = if ipv6 { "fd01::1:ffff:ffff:ffff:ffff" } else { "10.1.1.254" };
            let to_itself = seen("e1", service_address.parse().unwrap());
            let expected = BTreeSet::from([to_itself, seen("e2", e1.address(ipv6))]);
            assert_eq!(answers(&e1.netns, udp), expected, "but by itself");
            for n in [1_u8, 2] {
                let gateways = stage.cluster.addressing.gateways(n);
                let gateway = *gateways.iter().find(|a| a.is_ipv6() == ipv6).unwrap();
                let expected = BTreeSet::from([seen("e1", gateway), seen("e2", gateway)]);
                assert_eq!(answers(stage.node(usize::from(n) - 1), udp), expected, "n{n}");
            }
        }
        let asked = u64::try_from(2 * 2 * TIMES).unwrap();
        assert!(by_gateway(stage.node(0)) >= before + 2 * asked, "each way at least once");
        for (n, (name, _)) in others.iter().enumerate() {
            let to = at(&address(n, ipv6), 80);
            for from in [&client.netns, stage.node(0)] {
                let answered = |said: &io::Result<ask::Answer>| {
                    said.as_ref().is_ok_and(|(who, _)| who == name)
                };
                eventually(name, from, || ask::tcp(to), answered);
                eventually(name, from, || ask::udp(to), answered);
            }
        }
    }
}

/// Connections stay with who led them, whoever leads others from now on, and whatever became of the
/// rules that led them.
#[test]
fn who_leads_changes_under_connections() {
    let stage = Stage::new();
    let parrots: Vec<Parrot> = stage
        .endpoints
        .iter()
        .flat_map(|guest| [false, true].map(|ipv6| (guest, ipv6)))
        .map(|(guest, ipv6)| Parrot::start(&guest.netns, guest.address(ipv6)))
        .collect();
    let endpoints: Vec<IpAddr> = parrots.iter().map(|parrot| parrot.0.ip()).collect();
    let said: Vec<(IpAddr, &str)> = endpoints.iter().map(|a| (*a, "")).collect();
    let slices = slice("web", &said).replace(&TARGET.to_string(), &Parrot::PORT.to_string());
    let services = [service("web", &WEB, ""), slices];
    // Several, so that some are to endpoints here and some to those elsewhere.
    let connect = || -> Vec<TcpStream> {
        let once = || WEB.map(|web| stage.client.netns.tcp_connect(at(web, 80)).unwrap());
        (0..6).flat_map(|_| once()).collect()
    };
    let go_on = |streams: &[TcpStream], when: &str| {
        for stream in streams {
            assert!(says(stream, b"still there").unwrap(), "{when}");
        }
    };
    let reached = |led: &str| {
        wait_until(led, PATIENCE, || {
            let connect = |web: &&str| stage.client.netns.tcp_connect(at(web, 80)).map(drop);
            WEB.iter().try_for_each(connect)
        })
        .unwrap();
    };
    let rules: Vec<(&str, Vec<IpAddr>)> = WEB.map(|web| (web, endpoints.clone())).into();
    let machine = stage.node(0);
    stage.tell(&services);
    reached("the Service, led by the switch");
    let by_switch = connect();
    go_on(&by_switch, "by the switch");
    (0..2).for_each(|n| proxy(stage.node(n), &rules, Parrot::PORT));
    stage.tell_by_gateway(&services);
    is_led_by(&stage, true);
    go_on(&by_switch, "the machine leads now");
    let before = by_gateway(machine);
    let by_machine = connect();
    go_on(&by_machine, "by the machine");
    assert!(by_gateway(machine) > before + 12, "new ones go by the gateway");
    go_on(&by_switch, "beside others");
    stage.tell(&services);
    is_led_by(&stage, false);
    go_on(&by_machine, "the switch leads again");
    (0..2).for_each(|n| unproxy(stage.node(n)));
    go_on(&by_machine, "without rules");
    let before = by_gateway(machine);
    let last = connect();
    go_on(&last, "by the switch again");
    assert_eq!(by_gateway(machine), before, "no new ones go by the gateway");
    go_on(&by_switch, "from the beginning");
    // Their ends arrive, too.
    drop((by_machine, by_switch));
    wait_until("the ends of connections", PATIENCE, || {
        let open = stage.endpoint("e1").netns.run(&["ss", "-Htn", "state", "established"]).unwrap();
        let of_last = last.iter().filter(|stream| {
            let port = stream.local_addr().unwrap().port();
            open.lines().any(|line| line.trim_end().ends_with(&format!(":{port}")))
        });
        if open.lines().count() == of_last.count() { Ok(()) } else { Err(open) }
    })
    .unwrap();
}

/// Agents and switches restart, one and both, again and again: machines lead on. Who is connected does not
/// notice that agents are away; here the tracker of connections goes with the switch.
#[test]
fn machines_lead_on_while_agents_and_switches_restart() {
    let mut stage = Stage::new();
    let parrots: Vec<Parrot> = (stage.endpoints.iter())
        .flat_map(|guest| [false, true].map(|ipv6| (guest, ipv6)))
        .map(|(guest, ipv6)| Parrot::start(&guest.netns, guest.address(ipv6)))
        .collect();
    let endpoints: Vec<IpAddr> = parrots.iter().map(|parrot| parrot.0.ip()).collect();
    let said: Vec<(IpAddr, &str)> = endpoints.iter().map(|a| (*a, "")).collect();
    let slices = slice("web", &said).replace(&TARGET.to_string(), &Parrot::PORT.to_string());
    let rules: Vec<(&str, Vec<IpAddr>)> = WEB.map(|web| (web, endpoints.clone())).into();
    (0..2).for_each(|n| proxy(stage.node(n), &rules, Parrot::PORT));
    stage.tell_by_gateway(&[service("web", &WEB, ""), slices]);
    is_led_by(&stage, true);
    let connect = |stage: &Stage| -> io::Result<Vec<TcpStream>> {
        let once = |n: usize| stage.client.netns.tcp_connect(at(WEB[n % 2], 80));
        (0..8).map(|n| once(n).map_err(io::Error::other)).collect()
    };
    let reached = |stage: &Stage| {
        wait_until("the Service", PATIENCE, || connect(stage).map_err(|e| e.to_string())).unwrap()
    };
    let kept = reached(&stage);
    let go_on = |when: &str| {
        for stream in &kept {
            let heard = || match says(stream, b"still there") {
                Ok(true) => Ok(()),
                other => Err(format!("{other:?}")),
            };
            wait_until(when, PATIENCE, heard).unwrap();
        }
    };
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        (0..2).for_each(|n| stage.cluster.agents[n].end(signal));
        let away = connect(&stage).expect("nobody notices that agents are away");
        assert!(away.iter().all(|stream| says(stream, b"hello").unwrap()));
        (0..2).for_each(|n| stage.cluster.start_agent(n));
        connect(&stage).expect("nobody notices that they are back");
        go_on("with agents anew");
    }
    for nodes in [&[0][..], &[0], &[1], &[0, 1]] {
        for n in nodes {
            stage.cluster.fabric.nodes_mut()[*n].kill_vswitchd();
        }
        for n in nodes {
            stage.cluster.fabric.nodes_mut()[*n].start_vswitchd().unwrap();
        }
        let before = by_gateway(stage.node(0));
        let anew = reached(&stage);
        assert!(anew.iter().all(|stream| says(stream, b"hello").unwrap()));
        assert!(by_gateway(stage.node(0)) > before, "by the gateway");
    }
}

/// Waits until all switches say so.
fn is_led_by(stage: &Stage, machine: bool) {
    for node in stage.cluster.fabric.nodes() {
        wait_until("who leads", PATIENCE, || {
            let flows = node.ovs().ofctl(&["-O", "OpenFlow15", "dump-flows", "br-int", "table=18"]);
            let flows = flows.map_err(|e| e.to_string())?;
            let found = flows.contains("priority=110");
            if found == machine { Ok(()) } else { Err(flows) }
        })
        .unwrap();
    }
}
