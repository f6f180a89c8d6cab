//! Tells what is done, and how long after the start.

use std::time::Instant;

/// A stopwatch that speaks on standard error, or not.
#[derive(Debug)]
pub(crate) struct Phases {
    verbose: bool,
    begun: Instant,
}

impl Phases {
    pub(crate) fn start(verbose: bool) -> Self {
        Self { verbose, begun: Instant::now() }
    }

    pub(crate) fn done(&self, what: &str) {
        if self.verbose {
            eprintln!("kubelab: {:5.1} s  {what}", self.begun.elapsed().as_secs_f64());
        }
    }
}
