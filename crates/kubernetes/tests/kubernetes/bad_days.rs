//! The API server is busy, forgets, or is late: it is not asked more for that, nothing is deleted, and
//! it is told.

use crate::agent::Agent;
use crate::controller::Controller;
use crate::election::holder;
use crate::faulty::{Fault, Faulty};
use crate::nodes::events;
use crate::server::{Server, turn, until};
use serde_json::json;
use std::time::{Duration, Instant};

/// A controller that comes to the API server by a proxy, and leads on through the longest test.
async fn controller(server: &Server, proxy: &Faulty) -> Controller {
    let kubeconfig = proxy.kubeconfig();
    Controller::with(server, 0, |config| {
        config.kubeconfig = Some(kubeconfig);
        config.lease.duration_seconds = 60;
        config.lease.renew_seconds = 50;
    })
    .await
}

/// Who reads the metrics of a controller; it is known for a minute, whoever cannot be asked.
struct Metrics {
    header: String,
    url: String,
}

impl Metrics {
    fn new(server: &Server, controller: &Controller) -> Self {
        let token = server.token("osier-viewer", &json!({"audiences": ["osier-controller"]}));
        let port = controller.config.api.listen.port();
        let url = format!("https://192.0.2.100:{port}/metrics");
        Self { header: format!("Authorization: Bearer {token}"), url }
    }

    /// A metric's value: none, if nobody has counted yet.
    fn get(&self, server: &Server, name: &str) -> Option<u64> {
        let text = server.netns.run(&["curl", "-sk", "-H", &self.header, &self.url]).ok()?;
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        match lines.find(|(found, _)| *found == name) {
            Some((_, value)) => value.parse().ok(),
            None => text.contains("# EOF").then_some(0),
        }
    }

    fn until(&self, server: &Server, name: &str, is: impl Fn(u64) -> bool) {
        let name = format!("osier_controller_kubernetes_{name}");
        until(&format!("a change of {name}"), || match self.get(server, &name) {
            Some(value) if is(value) => Ok(()),
            found => Err(format!("{found:?}")),
        });
    }
}

/// Nothing was asked for more than a few times, and all of it a few times a second. Tokens are reviewed
/// as often as agents come.
fn assert_calm(proxy: &Faulty, since: Instant, is: impl Fn(&str, u16) -> bool) {
    let seconds = usize::try_from(since.elapsed().as_secs()).unwrap();
    let mut seen = proxy.seen(is);
    seen.retain(|what, _| !what.ends_with("/tokenreviews"));
    let most = seen.values().max().copied().unwrap_or(0);
    assert!(most <= 4 + 2 * seconds, "{seconds} s: {seen:?}");
    assert!(seen.values().sum::<usize>() <= 60 + 6 * seconds, "{seconds} s: {seen:?}");
}

/// Nothing was asked of a cache that may be behind.
fn assert_current(proxy: &Faulty) {
    let stale = proxy.seen(|query, _| query.split('&').any(|part| part == "resourceVersion=0"));
    assert!(stale.is_empty(), "{stale:?}");
}

#[test]
fn a_busy_api_server_is_left_alone_and_nothing_is_lost() {
    let turn = turn();
    let server = turn.server;
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24"]);
    turn.run(async || {
        let proxy = Faulty::start(server).await;
        let controller = controller(server, &proxy).await;
        let agent = Agent::join(server, &[&controller], "a", "192.0.2.1").await;
        agent.following(1).await;
        let (_, term) = until("a leader", || holder(server));
        let metrics = Metrics::new(server, &controller);
        metrics.until(server, "problems{kind=\"WatchBroken\"}", |count| count == 0);
        let received = agent.received();

        proxy.set(Fault { busy: Some(2), ..Fault::default() });
        let (since, before) = (Instant::now(), server.audited(":osier-controller").len());
        proxy.forget();
        proxy.cut();
        // Somebody comes whom nobody hears of yet.
        server.node("b", Some("192.0.2.2"), &["10.244.2.0/24"]);
        metrics.until(server, "problems{kind=\"APIServerBusy\"}", |count| count == 1);
        metrics.until(server, "problems{kind=\"WatchBroken\"}", |count| count == 1);
        metrics.until(server, "refusals_total{code=\"429\"}", |count| count >= 12);
        metrics.until(server, "watch_errors_total{resource=\"nodes\"}", |count| count >= 2);
        assert_calm(&proxy, since, |_, code| code == 429);
        assert!(agent.client.state().borrow().connected, "it is led on");
        assert_eq!(agent.received(), received, "the agent was sent something");

        let since = Instant::now();
        proxy.forget();
        proxy.set(Fault::default());
        Agent::join(server, &[&controller], "b", "192.0.2.2").await.following(1).await;
        for kind in ["APIServerBusy", "WatchBroken"] {
            metrics.until(server, &format!("problems{{kind=\"{kind}\"}}"), |count| count == 0);
            until(&format!("an event {kind}"), || {
                let events = events(server, "osier-controller");
                let found = events.iter().any(|(reason, _)| reason == kind);
                if found { Ok(()) } else { Err(format!("{events:?}")) }
            });
        }
        assert_calm(&proxy, since, |_, _| true);
        assert_eq!(until("a leader", || holder(server)).1, term, "it led on");
        let requests = server.audited(":osier-controller").split_off(before);
        assert!(!requests.iter().any(|(verb, _)| verb.starts_with("delete")), "{requests:?}");
        controller.stop().await;
    });
}

#[test]
fn watches_that_are_late_cut_short_or_forgotten_miss_nothing() {
    let turn = turn();
    let server = turn.server;
    server.node("a", Some("192.0.2.1"), &["10.244.1.0/24"]);
    server.node("b", Some("192.0.2.2"), &["10.244.2.0/24"]);
    turn.run(async || {
        let proxy = Faulty::start(server).await;
        let controller = controller(server, &proxy).await;
        let a = Agent::join(server, &[&controller], "a", "192.0.2.1").await;
        let b = Agent::join(server, &[&controller], "b", "192.0.2.2").await;
        a.following(1).await;
        b.following(1).await;
        let (_, term) = until("a leader", || holder(server));
        let metrics = Metrics::new(server, &controller);
        assert_current(&proxy);

        // Late: what is told later is heard later.
        proxy.set(Fault { late: true, ..Fault::default() });
        server.kubectl(&["delete", "node", "b"]).unwrap();
        server.node("c", Some("192.0.2.3"), &["10.244.3.0/24"]);
        let received = a.received();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(b.client.state().borrow().connected, "what is not heard of is not so");
        assert_eq!(a.received(), received);
        proxy.set(Fault::default());
        let mut state = b.client.state();
        let refused = state.wait_for(|state| !state.connected);
        tokio::time::timeout(crate::server::PATIENCE, refused).await.expect("b is gone").unwrap();
        Agent::join(server, &[&controller], "c", "192.0.2.3").await.following(1).await;

        // Short: they are begun again, but not at once.
        let since = Instant::now();
        proxy.forget();
        proxy.set(Fault { short: true, ..Fault::default() });
        until("watches that began again", || {
            let seen = proxy.seen(|query, code| code == 200 && query.contains("watch=true"));
            let again = seen.get("GET /api/v1/nodes").copied().unwrap_or(0);
            if again >= 4 { Ok(()) } else { Err(format!("{seen:?}")) }
        });
        let seconds = usize::try_from(since.elapsed().as_secs()).unwrap();
        let seen = proxy.seen(|query, _| query.contains("watch=true"));
        assert!(seen.values().all(|count| *count <= 2 + seconds), "{seconds} s: {seen:?}");

        // Cut, and what was is forgotten: all is heard anew.
        proxy.set(Fault { forgets: true, ..Fault::default() });
        let since = Instant::now();
        proxy.forget();
        proxy.cut();
        server.node("d", Some("192.0.2.4"), &["10.244.4.0/24"]);
        Agent::join(server, &[&controller], "d", "192.0.2.4").await.following(1).await;
        metrics.until(server, "watch_errors_total{resource=\"nodes\"}", |count| count >= 1);
        assert_calm(&proxy, since, |_, _| true);
        proxy.set(Fault::default());
        metrics.until(server, "problems{kind=\"WatchBroken\"}", |count| count == 0);

        assert_current(&proxy);
        assert!(a.client.state().borrow().connected);
        assert_eq!(until("a leader", || holder(server)).1, term, "it led on");
        controller.stop().await;
    });
}
