//! Services: against kube-proxy, whose API server has the same, and against pods that are reached without
//! one.

mod full;
mod kube_proxy;
mod ours;
mod probe;
mod traffic;

pub(crate) use full::{GROWTH, IPTABLES, NFTABLES};
pub(crate) use traffic::{GATEWAY, TRAFFIC};

/// Endpoints of each Service.
const ENDPOINTS: usize = 10;
/// Where a Service listens.
const PORT: u16 = 80;
/// Where its endpoints do.
const TARGET: u16 = 7007;
/// Addresses of the machine itself that answer: the endpoints that are asked.
const ANSWERING: [&str; 2] = ["10.255.0.1", "10.255.0.2"];

/// The address of a Service.
fn address(number: usize) -> String {
    format!("10.{}.{}.{}", 96 + number / 62_500, number / 250 % 250 + 1, number % 250 + 1)
}

/// The endpoints of a Service, and which of them is ready: of who is asked, one address of the machine; of
/// all others addresses that nobody has.
fn endpoints(number: usize, asked: Option<usize>) -> Vec<(String, bool)> {
    let nobody = |n: usize| {
        let id = number * ENDPOINTS + n;
        format!("10.{}.{}.{}", 200 + id / 62_500, id / 250 % 250 + 1, id % 250 + 1)
    };
    let Some(ready) = asked else { return (0..ENDPOINTS).map(|n| (nobody(n), true)).collect() };
    let own = ANSWERING.iter().enumerate().map(|(n, a)| ((*a).to_owned(), n == ready));
    own.chain((ANSWERING.len()..ENDPOINTS).map(|n| (nobody(n), false))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn nobody_shares_an_address() {
        let services: BTreeSet<String> = (0..10_000).map(address).collect();
        assert_eq!(services.len(), 10_000);
        let all = (0..10_000).flat_map(|n| endpoints(n, None)).map(|(address, _)| address);
        assert_eq!(all.collect::<BTreeSet<_>>().len(), 100_000);
        assert_eq!(endpoints(3, Some(1)).iter().filter(|(_, ready)| *ready).count(), 1);
    }
}
