//! Joining: the right node, from the right address, once.

use crate::rig::{Agent, Metered, Rig, hub_of, name, options};
use futures_util::future::BoxFuture;
use osier_fleet::client::{Controllers, Credentials, JoinError, Rejoin, TlsTransport, join};
use osier_fleet::pki::{AgentTls, Authority, identity_of};
use osier_fleet::{
    Fingerprint, HistoryLimits, JoinRefused, NodeConfiguration, Proof, Redemption, Ticket, Token,
};
use osier_model::Object;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const HERE: &str = "127.0.0.1";

/// A token for n1, and its record at the controller.
fn token(rig: &Rig, address: &str, expires: SystemTime) -> Token {
    let address: IpAddr = address.parse().unwrap();
    let fingerprint = rig.authority.fingerprint();
    let (token, record) = Token::issue(name("n1"), address, fingerprint, expires).unwrap();
    *rig.heard.tokens.lock().unwrap() = vec![record];
    let node = rig.hub.get(&osier_model::Key::Node(name("n1"))).unwrap();
    let Object::Node(node) = node.object() else { unreachable!() };
    let view = rig.hub.view_of(&name("n1")).unwrap();
    let configuration = NodeConfiguration::of(node, &view.fabric, Some(1400));
    *rig.heard.configuration.lock().unwrap() = Some(configuration);
    token.reveal().parse().unwrap()
}

fn soon() -> SystemTime {
    SystemTime::now() + Duration::from_mins(10)
}

#[tokio::test]
async fn a_node_joins_gets_its_configuration_and_follows() {
    let rig = Rig::start(hub_of(1, 1, HistoryLimits::default())).await;
    let folder = tempfile::tempdir().unwrap();
    let credentials = Credentials::new(folder.path());
    let token = token(&rig, HERE, soon());
    let at = rig.address.to_string();
    let joined = join(&at, &token, &credentials).await.unwrap();
    assert_eq!(identity_of(&joined.tls.certificate), Some(name("n1")));
    let block = joined.configuration.blocks[0];
    assert_eq!(
        (block.cidr.to_string(), block.gateway.to_string()),
        ("10.1.1.0/24".to_owned(), "10.1.1.1".to_owned())
    );
    assert_eq!(joined.configuration.mtu, Some(1400));

    let kept = credentials.load().unwrap().unwrap();
    assert_eq!(kept.certificate, joined.tls.certificate);
    let transport = Metered::new(TlsTransport::new(vec![at.clone()], kept, None));
    let _agent = Agent::start(options("n1"), transport).await;
    rig.heard.converged("n1", 1).await;

    // Another key: somebody found the token.
    let elsewhere = tempfile::tempdir().unwrap();
    let again = join(&at, &token, &Credentials::new(elsewhere.path())).await;
    assert!(matches!(again, Err(JoinError::Refused(text)) if text.contains("may not join")));
}

#[tokio::test]
async fn whose_answer_was_lost_may_ask_again_with_the_same_key() {
    let rig = Rig::start(hub_of(1, 1, HistoryLimits::default())).await;
    let folder = tempfile::tempdir().unwrap();
    let credentials = Credentials::new(folder.path());
    let token = token(&rig, HERE, soon());
    // The answer cannot be kept: a folder is where the file should be.
    std::fs::create_dir_all(folder.path().join("agent.bundle/x")).unwrap();
    let lost = join(&rig.address.to_string(), &token, &credentials).await;
    assert!(matches!(lost, Err(JoinError::Credentials(_))), "{lost:?}");
    assert!(rig.heard.tokens.lock().unwrap()[0].used_for.is_some());
    std::fs::remove_dir_all(folder.path().join("agent.bundle")).unwrap();
    join(&rig.address.to_string(), &token, &credentials).await.unwrap();
}

#[tokio::test]
async fn wrong_tokens_are_refused_and_use_nothing_up() {
    let rig = Rig::start(hub_of(1, 1, HistoryLimits::default())).await;
    let at = rig.address.to_string();
    let folder = tempfile::tempdir().unwrap();
    let credentials = Credentials::new(folder.path());
    let refused = |joined: Result<_, JoinError>| {
        assert!(matches!(joined, Err(JoinError::Refused(text)) if text.contains("may not join")));
    };
    let elsewhere = token(&rig, "192.0.2.77", soon());
    refused(join(&at, &elsewhere, &credentials).await.map(drop));
    let expired = token(&rig, HERE, SystemTime::now());
    refused(join(&at, &expired, &credentials).await.map(drop));
    let old = token(&rig, HERE, soon());
    let right = token(&rig, HERE, soon());
    refused(join(&at, &old, &credentials).await.map(drop));
    let text = right.reveal().replace(".n1", ".n2");
    refused(join(&at, &text.parse().unwrap(), &credentials).await.map(drop));

    // Another authority's controller is not told the secret.
    let mut foreign = right.clone();
    foreign.authority = Authority::generate("other", SystemTime::now()).unwrap().fingerprint();
    let joined = join(&at, &foreign, &credentials).await;
    assert!(matches!(joined, Err(JoinError::Connect { .. })), "{joined:?}");

    assert!(rig.heard.tokens.lock().unwrap()[0].used_for.is_none());
    join(&at, &right, &credentials).await.unwrap();
}

struct ByAccount {
    at: String,
    ticket: Ticket,
    credentials: Credentials,
}

impl Rejoin for ByAccount {
    fn is_due(&self, current: &AgentTls) -> bool {
        Fingerprint::of(&current.authority) != self.ticket.authority
    }

    fn rejoin(&self) -> BoxFuture<'static, io::Result<AgentTls>> {
        let (at, ticket) = (self.at.clone(), self.ticket.clone());
        let credentials = self.credentials.clone();
        Box::pin(async move {
            let joined = join(&at, ticket, &credentials).await.map_err(io::Error::other)?;
            Ok(joined.tls)
        })
    }
}

#[tokio::test]
async fn an_agent_joins_by_its_service_account_and_again_under_another_authority() {
    let rig = Rig::start(hub_of(1, 1, HistoryLimits::default())).await;
    let folder = tempfile::tempdir().unwrap();
    let credentials = Credentials::new(folder.path());
    drop(token(&rig, HERE, soon()));
    let at = rig.address.to_string();
    let account = |text: &str| {
        Ticket::service_account(name("n1"), rig.authority.fingerprint(), text.to_owned())
    };
    assert!(!format!("{:?}", account("hush")).contains("hush"));
    for wrong in ["account of n2", "x", &"x".repeat(20_000)] {
        let refused = join(&at, account(wrong), &credentials).await;
        assert!(matches!(refused, Err(JoinError::Refused(text)) if text.contains("may not join")));
    }

    // What it has is of an authority that is no more.
    let other = Authority::generate("other", SystemTime::now()).unwrap();
    let old = crate::rig::credentials(&other, "n1", Duration::from_hours(1), SystemTime::now());
    let addresses = folder.path().join("addresses");
    let controllers = Controllers::File(addresses.clone());
    assert!(controllers.list().unwrap_err().to_string().contains("addresses cannot be read"));
    let rejoin = ByAccount { at: at.clone(), ticket: account("account of n1"), credentials };
    let transport = TlsTransport::new(controllers, old, None).rejoining(Arc::new(rejoin));
    let _agent = Agent::start(options("n1"), Metered::new(transport)).await;
    std::fs::write(&addresses, format!("\n{at}\n")).unwrap();
    rig.heard.converged("n1", 1).await;
}

#[test]
fn records_tell_why_not() {
    let now = SystemTime::now();
    let (token, record) =
        Token::issue(name("n1"), HERE.parse().unwrap(), Fingerprint([7; 32]), soon()).unwrap();
    assert_eq!(token.reveal().parse::<Token>().unwrap(), token);
    assert!(!format!("{token:?}").contains(&token.reveal()[7..20]));
    for text in ["", "osier1", "osier1.ab.cd.n1", "osier2.00.00.n1"] {
        assert!(text.parse::<Token>().is_err(), "{text:?}");
    }
    let by = Redemption {
        node: name("n1"),
        proof: Proof::Token(record.hash),
        address: "::ffff:127.0.0.1".parse().unwrap(),
        key: [1; 32],
        now,
    };
    let mut used = record.clone();
    used.redeem(&by).unwrap();
    used.redeem(&by).unwrap();
    let other_key = Redemption { key: [2; 32], ..by.clone() };
    assert_eq!(used.redeem(&other_key), Err(JoinRefused::Used(name("n1"))));
    for (by, why) in [
        (
            Redemption { proof: Proof::Token([0; 32]), ..by.clone() },
            "there is no such token for node n1",
        ),
        (Redemption { node: name("n2"), ..by.clone() }, "there is no such token for node n2"),
        (Redemption { now: record.expires, ..by.clone() }, "the token of node n1 has expired"),
        (
            Redemption { address: "192.0.2.1".parse().unwrap(), ..by.clone() },
            "node n1 joins from 127.0.0.1, not from 192.0.2.1",
        ),
    ] {
        let mut fresh = record.clone();
        assert_eq!(fresh.redeem(&by).unwrap_err().to_string(), why);
        assert_eq!(fresh, record);
    }
}
