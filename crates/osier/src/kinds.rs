//! Kinds as words of the command line: singular, plural and short, in any case, completed by shells,
//! and with a guess at what was meant.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use osier_resource::Kind;

/// Reads a kind; its argument ignores case. Shells complete plurals; the other words are taken as
/// well.
pub(crate) fn parser() -> impl TypedValueParser<Value = Kind> {
    let value = |kind: Kind| PossibleValue::new(kind.plural()).aliases([kind.name(), kind.short()]);
    PossibleValuesParser::new(Kind::ALL.map(value)).try_map(|word| word.parse::<Kind>())
}

/// What can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Resources of a kind.
    Kind(Kind),
    /// Pods, which are no resources of ours.
    Pods,
}

/// Reads what is to be shown: a kind, or pods.
pub(crate) fn parser_of_what() -> impl TypedValueParser<Value = What> {
    let value = |kind: Kind| PossibleValue::new(kind.plural()).aliases([kind.name(), kind.short()]);
    let pods = PossibleValue::new("pods").aliases(["pod"]);
    let all = Kind::ALL.into_iter().map(value).chain([pods]);
    PossibleValuesParser::new(all).try_map(|word| match word.to_ascii_lowercase().as_str() {
        "pods" | "pod" => Ok(What::Pods),
        _ => word.parse::<Kind>().map(What::Kind),
    })
}

/// A resource as programs and people call it: `network/blue`.
pub(crate) fn called(kind: Kind, name: &str) -> String {
    format!("{}/{name}", kind.name().to_ascii_lowercase())
}

/// What the words of a help text are: all names of all kinds.
pub(crate) const HELP: &str = "\
Kinds (plural, singular, short):
  fabrics   fabric   fab   what holds for the whole cluster; there is one, named default
  nodes     node     no    a machine with a switch
  pools     pool           addresses to give out
  routers   router   rt    joins networks
  networks  network  net   an L2 domain with subnets
  ports     port     po    an attachment of a pod: namespace:pod, or namespace:pod:interface
  services  service  svc   addresses behind which endpoints answer: namespace:service
  endpoints  endpoints  ep  some of a service's endpoints
  namespaces  namespace  ns  what workloads are in, with labels
  policies  networkpolicy  netpol  who may talk to whom: namespace:policy
  workloads  workload  wl  what has ports, with labels that policies select by: namespace:pod
  pods      pod            pods, as their nodes' agents know them; only to look at";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_all_kinds() {
        for kind in Kind::ALL {
            let line = HELP.lines().find(|line| line.trim_start().starts_with(kind.plural()));
            let words: Vec<&str> = line.unwrap().split_whitespace().collect();
            assert!(words.contains(&kind.name().to_ascii_lowercase().as_str()), "{line:?}");
            assert!(words.contains(&kind.short()), "{line:?}");
        }
    }
}
