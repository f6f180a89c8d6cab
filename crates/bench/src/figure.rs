//! A figure: two measured times, their ratio, and the goal for it. How they are measured is not
//! known here.

use std::fmt;
use std::time::Duration;

/// A figure's name, and what is wanted of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Goal {
    pub(crate) name: &'static str,
    /// What is compared, in a line.
    pub(crate) about: &'static str,
    /// The largest ratio of ours to the rival's that is good.
    pub(crate) at_most: f64,
}

/// What was measured.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) goal: &'static Goal,
    pub(crate) ours: Duration,
    pub(crate) rival: Duration,
}

impl Figure {
    fn ratio(&self) -> f64 {
        self.ours.as_secs_f64() / self.rival.as_secs_f64()
    }

    /// Whether it is as good as wanted; judged before it is rounded.
    pub(crate) fn is_met(&self) -> bool {
        self.ratio() <= self.goal.at_most
    }
}

/// `of-decode ratio=0.42 goal<=0.5 ours=1.234s rival=2.938s`
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { goal, ours, rival } = self;
        // One unit for both, so that they can be compared at a glance.
        let (unit, per_second) = match (*ours).max(*rival) {
            long if long >= Duration::from_millis(100) => ("s", 1.0),
            short if short >= Duration::from_micros(100) => ("ms", 1e3),
            _ => ("us", 1e6),
        };
        let [ours, rival] = [ours, rival].map(|time| time.as_secs_f64() * per_second);
        write!(
            f,
            "{} ratio={:.2} goal<={:?} ours={ours:.3}{unit} rival={rival:.3}{unit}",
            goal.name,
            self.ratio(),
            goal.at_most,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static GOAL: Goal = Goal { name: "of-decode", about: "", at_most: 0.5 };

    #[test]
    fn a_figure_is_one_line_in_a_fitting_unit() {
        let (ours, rival) = (Duration::from_millis(1234), Duration::from_micros(2_938_400));
        let figure = Figure { goal: &GOAL, ours, rival };
        let line = "of-decode ratio=0.42 goal<=0.5 ours=1.234s rival=2.938s";
        assert_eq!(figure.to_string(), line);
        let figure = Figure { goal: &GOAL, ours: ours / 100, rival: rival / 100 };
        let line = "of-decode ratio=0.42 goal<=0.5 ours=12.340ms rival=29.384ms";
        assert_eq!(figure.to_string(), line);
    }

    #[test]
    fn a_goal_is_judged_before_rounding() {
        let rival = Duration::from_secs(1);
        let figure = |millis| Figure { goal: &GOAL, ours: Duration::from_millis(millis), rival };
        assert!(figure(500).is_met());
        assert!(figure(501).to_string().contains("ratio=0.50") && !figure(501).is_met());
    }
}
