//! The verbs, one module each: its options as a `clap` type, and a `run` that calls a library.
//!
//! A new verb is a module here, a variant of [`Verb`] and a line of [`run`]. What it shows, it shows
//! through [`crate::output`] and [`crate::render`]; whom it asks, [`crate::client`] knows.

mod agent;
mod apply;
mod capture;
mod check;
mod completions;
mod context;
mod controller;
mod credential;
mod delete;
mod describe;
mod flows;
mod get;
mod hits;
mod install_cni;
mod lab;
mod lean;
#[cfg(test)]
mod line;
mod man;
mod node;
mod pods;
mod policy;
mod prepare_ovs;
mod status;
mod support_bundle;
mod top;
mod trace;
mod uninstall_node;
mod watch;

use crate::client::{Client, Connection};
use anyhow::Context;
use clap::Subcommand;
use std::io::Write;
use std::process::ExitCode;

/// What is asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show resources
    Get(get::Arguments),
    /// Tell all about a resource, and what belongs to it
    Describe(describe::Arguments),
    /// Make the cluster have what files say
    Apply(apply::Arguments),
    /// Delete resources
    Delete(delete::Arguments),
    /// Show changes of resources as they happen
    Watch(watch::Arguments),
    /// Is every node as it should be? Since when, and what differs?
    Status(status::Arguments),
    /// Look for what commonly goes wrong: connectivity, MTU, clocks, versions, firewalls
    Check(check::Arguments),
    /// Follow a packet from one pod to another, table by table
    Trace(trace::Arguments),
    /// Ask what policies say of a connection, without sending one
    Policy(policy::Arguments),
    /// Follow connections with names, verdicts and rules, as the switches track them
    Flows(flows::Arguments),
    /// Which Services are used most
    Top(top::Arguments),
    /// Record a pod's packets, as pcap
    Capture(capture::Arguments),
    /// Let nodes join, pause and resume them
    Node(node::Arguments),
    /// Collect what helps to find a fault, without secrets
    SupportBundle(support_bundle::Arguments),
    /// Remember a controller, and what to be known by there
    Login(context::Login),
    /// Show and choose remembered controllers
    Context(context::Arguments),
    /// Make and use a playground on this machine: real switches, agents and pods
    Lab(lab::Arguments),
    /// Run the controller, or look after it
    Controller(controller::Arguments),
    /// Run this node's agent
    Agent(agent::Arguments),
    /// Put the CNI plugin where the container runtime looks
    InstallCni(install_cni::Arguments),
    /// Make the database of the switch that Osier brings along
    PrepareOvs(prepare_ovs::Arguments),
    /// Take away what Osier made on this node
    UninstallNode(uninstall_node::Arguments),
    /// Print a script that completes osier's words in a shell
    Completions(completions::Arguments),
    /// Write the manual's pages
    Man(man::Arguments),
    /// Print the version
    Version,
}

/// Does it: the exit code.
pub(crate) fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Get(arguments) => get::run(&arguments),
        Verb::Describe(arguments) => describe::run(&arguments),
        Verb::Apply(arguments) => apply::run(&arguments),
        Verb::Delete(arguments) => delete::run(&arguments),
        Verb::Watch(arguments) => watch::run(&arguments),
        Verb::Status(arguments) => status::run(&arguments),
        Verb::Check(arguments) => check::run(&arguments),
        Verb::Trace(arguments) => trace::run(&arguments),
        Verb::Policy(arguments) => policy::run(&arguments),
        Verb::Flows(arguments) => flows::run(&arguments),
        Verb::Top(arguments) => top::run(&arguments),
        Verb::Capture(arguments) => capture::run(&arguments),
        Verb::Node(arguments) => node::run(&arguments),
        Verb::SupportBundle(arguments) => support_bundle::run(&arguments),
        Verb::Login(arguments) => context::login(&arguments),
        Verb::Context(arguments) => context::run(arguments),
        Verb::Lab(arguments) => lab::run(arguments),
        Verb::Controller(arguments) => controller::run(&arguments),
        Verb::Agent(arguments) => lean::run(&arguments),
        Verb::InstallCni(arguments) => install_cni::run(&arguments),
        Verb::PrepareOvs(arguments) => prepare_ovs::run(&arguments),
        Verb::UninstallNode(arguments) => uninstall_node::run(&arguments),
        Verb::Completions(arguments) => completions::run(&arguments),
        Verb::Man(arguments) => man::run(&arguments),
        Verb::Version => {
            writeln!(std::io::stdout(), "osier {}", env!("CARGO_PKG_VERSION"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Runs something that asks a controller.
fn asking<T>(
    connection: &Connection,
    work: impl AsyncFnOnce(&Client) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let client = connection.client()?;
    runtime()?.block_on(work(&client))
}

/// One thread: a question waits for its answer.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("there is no runtime")
}

/// The exit code of a verb that judges.
fn verdict(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
