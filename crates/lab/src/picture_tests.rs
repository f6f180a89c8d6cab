use super::*;
use crate::health::{NodeHealth, PodHealth};
use crate::spec::{LabName, LabSpec, PodFamily, TunnelKind};

fn layout() -> Layout {
    let node = |n: u8| NodeLayout {
        name: format!("n{n}"),
        netns: format!("osier-abcdef-n{n}"),
        address: [198, 51, 100, n].into(),
        blocks: Vec::new(),
        dir: "/tmp/osier-abcdef".into(),
    };
    let pod = |i: u8, n: u8, host: u8| PodLayout {
        name: format!("pod{i}"),
        node: format!("n{n}"),
        netns: format!("osier-abcdef-pod{i}"),
        addresses: vec![
            [10, 1, n, host].into(),
            [0xfd01, 0, 0, n.into(), 0, 0, 0, host.into()].into(),
        ],
    };
    Layout {
        spec: LabSpec {
            name: "demo".parse::<LabName>().unwrap(),
            nodes: 2,
            pods: 3,
            family: PodFamily::Dual,
            tunnel: TunnelKind::Geneve,
            controller: false,
            apply: None,
        },
        id: "osier-abcdef".to_owned(),
        dir: "/tmp/osier-abcdef".into(),
        keeper: 1,
        controller: None,
        nodes: vec![node(1), node(2)],
        pods: vec![pod(1, 1, 2), pod(2, 2, 2), pod(3, 1, 3)],
    }
}

#[test]
fn nodes_hang_on_their_underlay() {
    let drawn = draw(&layout(), None, 80);
    let expected = "\
lab demo: 2 nodes, 3 pods, IPv4 and IPv6, Geneve between nodes
════════════╤════════════════════════╤═══════════
┌───────────┴──────────┐  ┌──────────┴───────────┐
";
    println!("{drawn}\n{expected}");
    let lines: Vec<&str> = drawn.lines().collect();
    // All lines but the title are equally long, and each box hangs under its branch of the cable.
    assert!(lines[1..].iter().all(|line| length(line) == length(lines[1])), "{drawn}");
    let places = |line: &str, wanted: char| -> Vec<usize> {
        line.chars().enumerate().filter(|(_, c)| *c == wanted).map(|(i, _)| i).collect()
    };
    assert_eq!(places(lines[1], '╤').len(), 2);
    assert_eq!(places(lines[1], '╤'), places(lines[2], '┴'), "{drawn}");
    for part in ["n1  198.51.100.1", "pod1  10.1.1.2", "fd01:0:0:1::2", "pod3  10.1.1.3"] {
        assert!(drawn.contains(part), "{part} in\n{drawn}");
    }
}

#[test]
fn a_narrow_screen_has_more_rows() {
    let drawn = draw(&layout(), None, 30);
    assert_eq!(drawn.matches('╤').count(), 2);
    assert!(drawn.lines().skip(1).all(|line| length(line) <= 30), "{drawn}");
}

#[test]
fn what_is_not_well_is_marked_and_told() {
    let node = |name: &str, agent| NodeHealth {
        name: name.to_owned(),
        database: Health::Ok,
        switch: Health::Ok,
        agent,
    };
    let pod = |name: &str| PodHealth { name: name.to_owned(), network: Health::Ok };
    let mut report = Report {
        nodes: vec![node("n1", Health::Ok), node("n2", Health::Bad("it ended".to_owned()))],
        pods: vec![pod("pod1"), pod("pod2"), pod("pod3")],
    };
    let drawn = draw(&layout(), Some(&report), 80);
    assert!(drawn.contains("switch ✓  agent ✗"), "{drawn}");
    assert!(drawn.ends_with("✗ agent of n2: it ended\n"), "{drawn}");
    report.nodes[1].agent = Health::Ok;
    assert!(draw(&layout(), Some(&report), 80).ends_with("all parts are well\n"));
}

#[test]
fn a_matrix_has_a_table_for_each_family() {
    let probe = |from: &str, to: &str, address: &str, milliseconds| Probe {
        from: from.to_owned(),
        to: to.to_owned(),
        address: address.parse().unwrap(),
        milliseconds,
    };
    let shown = matrix(&Matrix {
        pods: vec!["pod1".to_owned(), "pod2".to_owned()],
        probes: vec![
            probe("pod1", "pod2", "10.1.2.2", Some(0.314)),
            probe("pod1", "pod2", "fd01::2", None),
            probe("pod2", "pod1", "10.1.1.2", Some(1.0)),
        ],
    });
    assert_eq!(
        shown,
        "\
IPv4, round trips in ms
FROM \\ TO  pod1  pod2
pod1       -     0.31
pod2       1.00  -

IPv6, round trips in ms
FROM \\ TO  pod1  pod2
pod1       -     LOST
pod2       -     -

2 of 3 answered
✗ pod1 does not reach pod2 at fd01::2
"
    );
}

#[test]
fn hints_name_the_lab_and_another_nodes_pod() {
    let mut layout = layout();
    let shown = hints(&layout);
    assert!(shown.contains("osier lab exec --name demo pod1 -- ping -c3 10.1.2.2"), "{shown}");
    layout.spec.name = LabName::default_name();
    assert!(!hints(&layout).contains("--name"));
}
