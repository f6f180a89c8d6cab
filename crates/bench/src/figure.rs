//! A figure: two measured amounts, their ratio, and the goal for it. How they are measured is not
//! known here.

use std::fmt;
use std::time::Duration;

/// A figure's name, and what is wanted of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Goal {
    pub(crate) name: &'static str,
    /// What is compared, in a line.
    pub(crate) about: &'static str,
    pub(crate) wanted: Wanted,
}

/// Which ratios of ours to the rival's are good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wanted {
    /// So much, or less: of what costs.
    AtMost(f64),
    /// So much, or more: of what is gained.
    AtLeast(f64),
    /// Whatever it is: it says how other figures are to be read.
    Nothing,
}

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Amount {
    Time(Duration),
    /// In megabits a second.
    Rate(f64),
    /// In bytes.
    Memory(u64),
    /// How many.
    Count(f64),
}

/// Both sides, in the same kind of amount.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) goal: &'static Goal,
    pub(crate) ours: Amount,
    pub(crate) rival: Amount,
}

impl Figure {
    pub(crate) fn times(goal: &'static Goal, ours: Duration, rival: Duration) -> Self {
        Self { goal, ours: Amount::Time(ours), rival: Amount::Time(rival) }
    }

    fn ratio(&self) -> f64 {
        self.ours.value() / self.rival.value()
    }

    /// Whether it is as good as wanted; judged before it is rounded.
    pub(crate) fn is_met(&self) -> bool {
        match self.goal.wanted {
            Wanted::AtMost(most) => self.ratio() <= most,
            Wanted::AtLeast(least) => self.ratio() >= least,
            Wanted::Nothing => true,
        }
    }
}

impl Amount {
    /// In the unit of its kind.
    fn value(self) -> f64 {
        match self {
            Self::Time(time) => time.as_secs_f64(),
            Self::Rate(amount) | Self::Count(amount) => amount,
            #[allow(clippy::cast_precision_loss, reason = "memories are far below 2^52 bytes")]
            Self::Memory(bytes) => bytes as f64 / 1e6,
        }
    }
}

/// `<=0.5`
impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "<={most:?}"),
            Self::AtLeast(least) => write!(f, ">={least:?}"),
            Self::Nothing => f.write_str("=none"),
        }
    }
}

/// `of-decode ratio=0.42 goal<=0.5 ours=1.234s rival=2.938s`
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { goal, ours, rival } = self;
        let larger = ours.value().max(rival.value());
        // One unit for both, so that they can be compared at a glance.
        let (unit, per_one) = match ours {
            Amount::Time(_) if larger >= 0.1 => ("s", 1.0),
            Amount::Time(_) if larger >= 1e-4 => ("ms", 1e3),
            Amount::Time(_) => ("us", 1e6),
            Amount::Rate(_) => ("Mbit/s", 1.0),
            Amount::Memory(_) => ("MB", 1.0),
            Amount::Count(_) => ("", 1.0),
        };
        let [ours, rival] = [ours, rival].map(|amount| amount.value() * per_one);
        let (name, wanted) = (goal.name, goal.wanted);
        write!(
            f,
            "{name} ratio={:.2} goal{wanted} ours={ours:.3}{unit} rival={rival:.3}{unit}",
            self.ratio(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static GOAL: Goal = Goal { name: "of-decode", about: "", wanted: Wanted::AtMost(0.5) };

    #[test]
    fn a_figure_is_one_line_in_a_fitting_unit() {
        let (ours, rival) = (Duration::from_millis(1234), Duration::from_micros(2_938_400));
        let figure = Figure::times(&GOAL, ours, rival);
        let line = "of-decode ratio=0.42 goal<=0.5 ours=1.234s rival=2.938s";
        assert_eq!(figure.to_string(), line);
        let figure = Figure::times(&GOAL, ours / 100, rival / 100);
        let line = "of-decode ratio=0.42 goal<=0.5 ours=12.340ms rival=29.384ms";
        assert_eq!(figure.to_string(), line);
    }

    #[test]
    fn a_goal_is_judged_before_rounding() {
        let rival = Duration::from_secs(1);
        let figure = |millis| Figure::times(&GOAL, Duration::from_millis(millis), rival);
        assert!(figure(500).is_met());
        assert!(figure(501).to_string().contains("ratio=0.50") && !figure(501).is_met());
    }

    #[test]
    fn what_is_gained_must_not_be_less() {
        static RATE: Goal = Goal { name: "path", about: "", wanted: Wanted::AtLeast(0.95) };
        let figure =
            |ours| Figure { goal: &RATE, ours: Amount::Rate(ours), rival: Amount::Rate(1000.0) };
        assert!(figure(950.0).is_met() && !figure(949.0).is_met());
        let line = "path ratio=0.95 goal>=0.95 ours=950.000Mbit/s rival=1000.000Mbit/s";
        assert_eq!(figure(950.0).to_string(), line);
    }
}
