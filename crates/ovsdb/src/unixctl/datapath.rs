//! The datapaths of `ovs-vswitchd`: their bridges and ports (`dpif/show`), and the slow path's work
//! (`upcall/show`).

use super::TextError;

/// A datapath of `dpif/show`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datapath {
    /// Such as `netdev@ovs-netdev`.
    pub name: String,
    /// Packets that found a datapath flow.
    pub hit: u64,
    /// Packets that went to the slow path.
    pub missed: u64,
    /// Its bridges.
    pub bridges: Vec<Bridge>,
}

/// A bridge of a [`Datapath`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bridge {
    /// Its name.
    pub name: String,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// A port of a [`Bridge`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its OpenFlow number.
    pub ofport: u32,
    /// Its number in the datapath; `None` if it is not there.
    pub number: Option<u32>,
    /// Its type, such as `tap` or `geneve`.
    pub kind: String,
}

/// A datapath of `upcall/show`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upcalls {
    /// Such as `netdev@ovs-netdev`.
    pub datapath: String,
    /// Datapath flows now.
    pub flows: u64,
    /// On average.
    pub average: u64,
    /// At most so far.
    pub most: u64,
    /// How many there may be now; the revalidators lower it when they are late.
    pub limit: u64,
}

/// Reads `dpif/show`.
pub fn parse_datapaths(text: &str) -> Result<Vec<Datapath>, TextError> {
    let mut datapaths: Vec<Datapath> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |expected| TextError::new("dpif/show", number + 1, expected, line);
        let depth = line.len() - line.trim_start().len();
        let line = line.trim();
        if depth == 0 {
            datapaths.push(datapath(line).ok_or_else(|| wrong("a datapath"))?);
            continue;
        }
        let last = datapaths.last_mut().ok_or_else(|| wrong("a datapath"))?;
        if depth == 2 {
            let name = line.strip_suffix(':').ok_or_else(|| wrong("a bridge"))?.to_owned();
            last.bridges.push(Bridge { name, ports: Vec::new() });
        } else {
            let bridge = last.bridges.last_mut().ok_or_else(|| wrong("a bridge"))?;
            bridge.ports.push(port(line).ok_or_else(|| wrong("a port"))?);
        }
    }
    Ok(datapaths)
}

/// `netdev@ovs-netdev: hit:0 missed:0`
fn datapath(line: &str) -> Option<Datapath> {
    let (name, counts) = line.split_once(": ")?;
    let (hit, missed) = counts.split_once(' ')?;
    Some(Datapath {
        name: name.to_owned(),
        hit: hit.strip_prefix("hit:")?.parse().ok()?,
        missed: missed.strip_prefix("missed:")?.parse().ok()?,
        bridges: Vec::new(),
    })
}

/// `br0 65534/1: (tap)`, `tun0 5/none: (geneve: remote_ip=flow)`
fn port(line: &str) -> Option<Port> {
    let (head, kind) = line.split_once(": (")?;
    let (name, numbers) = head.rsplit_once(' ')?;
    let (ofport, number) = numbers.split_once('/')?;
    let kind = kind.split([':', ')']).next()?;
    Some(Port {
        name: name.to_owned(),
        ofport: ofport.parse().ok()?,
        number: if number == "none" { None } else { Some(number.parse().ok()?) },
        kind: kind.to_owned(),
    })
}

/// Reads `upcall/show`.
pub fn parse_upcalls(text: &str) -> Result<Vec<Upcalls>, TextError> {
    let mut found: Vec<Upcalls> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |expected| TextError::new("upcall/show", number + 1, expected, line);
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with(' ')) {
            found.push(Upcalls { datapath: name.to_owned(), ..Upcalls::default() });
        } else if let Some(flows) = line.trim().strip_prefix("flows") {
            let last = found.last_mut().ok_or_else(|| wrong("a datapath"))?;
            // `: (current 0) (avg 0) (max 0) (limit 200000)`
            let amount = |key: &str| {
                let (_, rest) = flows.split_once(&format!("({key} "))?;
                rest.split_once(')')?.0.parse().ok()
            };
            let get = |key| amount(key).ok_or_else(|| wrong("current, avg, max and limit"));
            (last.flows, last.average) = (get("current")?, get("avg")?);
            (last.most, last.limit) = (get("max")?, get("limit")?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_ovs_vswitchd() {
        let text = "netdev@ovs-netdev: hit:3 missed:1\n  br0:\n    br0 65534/1: (tap)\n    tun0 5/none: (geneve: key=flow, remote_ip=flow)\n";
        let found = parse_datapaths(text).unwrap();
        assert_eq!((found[0].hit, found[0].missed), (3, 1));
        let ports = &found[0].bridges[0].ports;
        assert_eq!((&*ports[0].name, ports[0].ofport, ports[0].number), ("br0", 65534, Some(1)));
        assert_eq!((&*ports[1].kind, ports[1].number), ("geneve", None));
        for bad in ["  br0:", "x", "a: hit:0 missed:0\n    p 1/2: (x)", "a: hit:0 missed:x"] {
            assert!(parse_datapaths(bad).is_err(), "{bad}");
        }
        let text = "netdev@ovs-netdev:\n  flows         : (current 4) (avg 2) (max 9) (limit 200000)\n  dump duration : 1ms\n\n  5: (keys 4)\n";
        let upcalls = Upcalls {
            datapath: "netdev@ovs-netdev".to_owned(),
            flows: 4,
            average: 2,
            most: 9,
            limit: 200_000,
        };
        assert_eq!(parse_upcalls(text).unwrap(), [upcalls]);
        assert!(parse_upcalls("  flows : (current 4)").is_err());
    }
}
