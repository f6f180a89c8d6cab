//! Meters as text.

use super::token::{Items, ParseError};
use super::value::bounded;
use super::{TableNames, WriteText};
use crate::meter::{ALL_METERS, BandKind, Meter, MeterBand, MeterCommand, MeterFlags, MeterMod};
use std::fmt;

super::display_as_text!(Meter, MeterMod);

const FLAGS: [(MeterFlags, &str); 4] = [
    (MeterFlags::KBPS, "kbps"),
    (MeterFlags::PKTPS, "pktps"),
    (MeterFlags::BURST, "burst"),
    (MeterFlags::STATS, "stats"),
];

/// Numbers that have a name.
const NAMED: [(u32, &str); 3] =
    [(ALL_METERS, "all"), (0xffff_fffd, "slowpath"), (0xffff_fffe, "controller")];

/// As `ovs-ofctl dump-meters` prints it: one line, and one more for each band.
impl WriteText for Meter {
    fn write_text(&self, out: &mut dyn fmt::Write, _: &TableNames) -> fmt::Result {
        match NAMED.iter().find(|(id, _)| *id == self.id) {
            Some((_, name)) => write!(out, "meter={name} ")?,
            None => write!(out, "meter={} ", self.id)?,
        }
        for (flag, name) in FLAGS {
            if self.flags.contains(flag) {
                write!(out, "{name} ")?;
            }
        }
        out.write_str("bands=")?;
        for band in &self.bands {
            out.write_str("\ntype=")?;
            match &band.kind {
                BandKind::Drop => out.write_str("drop")?,
                BandKind::DscpRemark { .. } => out.write_str("dscp_remark")?,
                BandKind::Other { kind, .. } => write!(out, "{kind}")?,
            }
            write!(out, " rate={}", band.rate)?;
            if self.flags.contains(MeterFlags::BURST) {
                write!(out, " burst_size={}", band.burst)?;
            }
            if let BandKind::DscpRemark { level } = band.kind {
                write!(out, " prec_level={level}")?;
            }
        }
        Ok(())
    }
}

/// As `ovs-ofctl ofp-print` prints it, behind the header.
impl WriteText for MeterMod {
    fn write_text(&self, out: &mut dyn fmt::Write, names: &TableNames) -> fmt::Result {
        out.write_str(match self.command {
            MeterCommand::Add => "ADD ",
            MeterCommand::Modify => "MOD ",
            MeterCommand::Delete => "DEL ",
        })?;
        self.meter.write_text(out, names)
    }
}

// === reading ===

impl std::str::FromStr for Meter {
    type Err = ParseError;

    /// Reads a meter as `ovs-ofctl add-meter` does.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut meter = Self::default();
        let mut id = None;
        for item in Items::new(text).all()? {
            if let Some((flag, _)) = FLAGS.iter().find(|(_, name)| *name == item.key) {
                meter.flags |= *flag;
                continue;
            }
            match (item.key, meter.bands.last_mut()) {
                ("meter", _) => id = Some(parse_id(item.value)?),
                ("band" | "bands", _) => {
                    if let Some(kind) = item.value.strip_prefix("type=") {
                        meter.bands.push(parse_band(kind)?);
                    }
                }
                ("type", _) => meter.bands.push(parse_band(item.value)?),
                ("rate", Some(band)) => band.rate = bounded("rate", item.value)?,
                ("burst_size", Some(band)) => {
                    band.burst = bounded("burst_size", item.value)?;
                    meter.flags |= MeterFlags::BURST;
                }
                ("prec_level", Some(MeterBand { kind: BandKind::DscpRemark { level }, .. })) => {
                    *level = bounded("prec_level", item.value)?;
                }
                (key, _) => return Err(ParseError::new(format!("a meter has no {key:?} here"))),
            }
        }
        meter.id = id.ok_or_else(|| ParseError::new("a meter needs meter="))?;
        if !meter.flags.intersects(MeterFlags::KBPS | MeterFlags::PKTPS) {
            meter.flags |= MeterFlags::KBPS;
        }
        Ok(meter)
    }
}

fn parse_id(text: &str) -> Result<u32, ParseError> {
    match NAMED.iter().find(|(_, name)| *name == text) {
        Some((id, _)) => Ok(*id),
        None => bounded("meter", text),
    }
}

fn parse_band(kind: &str) -> Result<MeterBand, ParseError> {
    let kind = match kind {
        "drop" => BandKind::Drop,
        "dscp_remark" => BandKind::DscpRemark { level: 0 },
        other => {
            return Err(ParseError::new(format!("type={other}: a band is drop or dscp_remark")));
        }
    };
    Ok(MeterBand { rate: 0, burst: 0, kind })
}
