//! Tells what is done, and how long it took.

use std::time::Instant;

/// A stopwatch that speaks on standard error, or not.
#[derive(Debug)]
pub(crate) struct Phases {
    verbose: bool,
    begun: Instant,
    last: Instant,
}

impl Phases {
    pub(crate) fn start(verbose: bool) -> Self {
        Self { verbose, begun: Instant::now(), last: Instant::now() }
    }

    /// A phase has ended; it began when the last one did.
    pub(crate) fn done(&mut self, what: &str) {
        if self.verbose {
            let (phase, all) = (self.last.elapsed(), self.begun.elapsed());
            eprintln!(
                "kubelab: {:6.1} s  {what} ({:.1} s)",
                all.as_secs_f64(),
                phase.as_secs_f64()
            );
        }
        self.last = Instant::now();
    }

    /// Something has happened within a phase.
    pub(crate) fn tell(&self, what: &str) {
        if self.verbose {
            eprintln!("kubelab: {:6.1} s    {what}", self.begun.elapsed().as_secs_f64());
        }
    }
}
