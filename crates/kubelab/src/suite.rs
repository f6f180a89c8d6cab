//! Runs of the end-to-end suite, told to people and compared with a baseline.

use crate::arguments::{ClusterArguments, RunArguments};
use anyhow::{Context, Result};
use osier_kubelab::{CONFORMANCE, CONFORMANCE_DUAL, Layout, Outcome, Report, VERSION};
use std::fs;
use std::process::ExitCode;
use std::time::Instant;

/// On a cluster that others keep.
pub(crate) fn on_running(
    layout: &Layout,
    default_focus: &str,
    run: &RunArguments,
) -> Result<ExitCode> {
    let begun = Instant::now();
    eprintln!("kubelab: e2e.test runs, its output is in {}/e2e.log", run.out.display());
    let report = run.suite(default_focus).run(layout, &run.out)?;
    print!("{report}");
    println!("in {:.0} s", begun.elapsed().as_secs_f64());
    if let Some(path) = &run.record {
        fs::write(path, format!("# Kubernetes {VERSION}\n{}", report.to_table()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    judge(&report, run)
}

/// On one of its own.
pub(crate) fn on_new(cluster: &ClusterArguments, run: &RunArguments) -> Result<ExitCode> {
    let default_focus = if cluster.dual { CONFORMANCE_DUAL } else { CONFORMANCE };
    let cluster = cluster.up()?;
    let code = on_running(&cluster.layout()?, default_focus, run)?;
    if code != ExitCode::SUCCESS
        && let Some(logs) = cluster.keep_logs()
    {
        println!("the cluster's logs are in {}", logs.display());
    }
    Ok(code)
}

/// With a baseline it judges; without one every failure counts.
fn judge(report: &Report, run: &RunArguments) -> Result<ExitCode> {
    let Some(path) = &run.baseline else {
        let good = report.count(Outcome::Failed) == 0 && report.count(Outcome::Passed) > 0;
        return Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    };
    let table =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let differences = report.differences(&Report::from_table(&table)?);
    for difference in &differences {
        println!("{difference}");
    }
    let bad = differences.iter().filter(|difference| difference.is_bad()).count();
    println!("{bad} worse than {}", path.display());
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
