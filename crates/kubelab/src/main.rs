//! `kubelab`: a Kubernetes cluster for developers, and runs of the end-to-end suite. See `make k8s`
//! and `make conformance`.

mod arguments;
mod keeper;
mod suite;

use anyhow::{Context, Result, bail};
use arguments::{Arguments, Verb};
use clap::Parser;
use osier_kubelab::{CONFORMANCE, Layout};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("kubelab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let name = &arguments.name;
    match &arguments.verb {
        Verb::Up(cluster) => {
            let layout = keeper::up(name, cluster)?;
            println!("{}", how_to_use(&layout));
        }
        Verb::Keep(cluster) => keeper::keep(name, cluster)?,
        Verb::Down => keeper::down(name)?,
        Verb::Status => status(&keeper::layout(name)?)?,
        Verb::Exec { machine, command } => {
            let layout = keeper::layout(name)?;
            let (program, args) = command.split_first().context("no command given")?;
            let Some(mut command) = layout.command(machine, program) else {
                let names: Vec<&str> = layout.machines.iter().map(|m| m.name.as_str()).collect();
                bail!("there is no machine {machine}; there are {}", names.join(", "));
            };
            return Err(command.args(args).exec()).context("cannot run nsenter");
        }
        Verb::Kubectl { args } => {
            let layout = keeper::layout(name)?;
            return Err(kubectl(&layout).args(args).exec()).context("cannot run kubectl");
        }
        Verb::E2e(run) => return suite::on_running(&keeper::layout(name)?, CONFORMANCE, run),
        Verb::Conformance { cluster, run } => return suite::on_new(cluster, run),
    }
    Ok(ExitCode::SUCCESS)
}

fn how_to_use(layout: &Layout) -> String {
    format!(
        "
The cluster is up. It runs until `make k8s-down`.

  export KUBECONFIG={}
  export PATH={}:$PATH
  kubectl get nodes -o wide

Its machines are {}; a shell in one:

  {} exec node-1 -- bash
",
        layout.kubeconfig.display(),
        layout.programs.display(),
        layout.machines.iter().map(|machine| machine.name.as_str()).collect::<Vec<_>>().join(", "),
        std::env::current_exe().unwrap_or_else(|_| "kubelab".into()).display(),
    )
}

fn status(layout: &Layout) -> Result<()> {
    println!("KUBECONFIG={}\nlogs: {}/*/log", layout.kubeconfig.display(), layout.dir.display());
    for what in ["nodes", "pods"] {
        let asked = kubectl(layout).args(["get", what, "-A", "-o", "wide"]).status();
        asked.context("cannot run kubectl")?;
    }
    Ok(())
}

fn kubectl(layout: &Layout) -> Command {
    let mut command = Command::new(layout.programs.join("kubectl"));
    command.env("KUBECONFIG", &layout.kubeconfig);
    command
}
