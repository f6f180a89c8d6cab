//! How often somebody may do something.

use std::time::Instant;

/// So many in a second, and so many at once.
#[derive(Debug)]
pub(crate) struct Allowance {
    per_second: f64,
    most: f64,
    left: f64,
    at: Instant,
}

// === impl Allowance ===

impl Allowance {
    pub(crate) fn new((per_second, most): (u32, u32)) -> Self {
        let most = f64::from(most);
        Self { per_second: f64::from(per_second), most, left: most, at: Instant::now() }
    }

    /// Whether it may be done now.
    pub(crate) fn take(&mut self) -> bool {
        let now = Instant::now();
        let gained = now.duration_since(self.at).as_secs_f64() * self.per_second;
        self.at = now;
        self.left = (self.left + gained).min(self.most);
        let may = self.left >= 1.0;
        if may {
            self.left -= 1.0;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_comes_back_slowly() {
        let mut allowance = Allowance::new((0, 3));
        assert_eq!([allowance.take(), allowance.take(), allowance.take()], [true; 3]);
        assert!(!allowance.take());
    }
}
