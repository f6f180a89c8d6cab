//! Questions and ports: asked, answered, cut off, forged.

use crate::rig::{Agent, DEADLINE, Heard, Rig, hub_of, name, options};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use osier_fleet::ask::Ask;
use osier_fleet::client::{Answers, Reply};
use osier_fleet::server::{AskError, AskLimits};
use osier_fleet::{AttachError, AttachRequest, Attachments, HistoryLimits, MAX_ANSWER_PART};
use osier_model::{NodeName, Port, PortKey};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

const LIMITS: AskLimits = AskLimits { patience: DEADLINE, bytes: 64 << 20 };

/// Says what the question is for a trace's sake, and much for a capture's.
#[derive(Default)]
struct Parrot {
    /// How much of the endless answer has gone.
    sent: AtomicUsize,
    /// Whether it was dropped.
    ended: watch::Sender<bool>,
}

struct Ended<'a>(&'a watch::Sender<bool>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Shared with the agent's task.
struct Answering(Arc<Parrot>);

impl Answers for Answering {
    fn answer(&self, ask: Ask, reply: Reply) -> BoxFuture<'static, Result<(), String>> {
        let parrot = Arc::clone(&self.0);
        Box::pin(async move {
            match ask {
                Ask::Diagnostics => reply.send_json(&vec!["word"; 20_000]).await,
                Ask::Check => return Err("nobody looked".to_owned()),
                Ask::Pause => std::future::pending().await,
                _ => {
                    let _ended = Ended(&parrot.ended);
                    loop {
                        let part = Bytes::from(vec![7; MAX_ANSWER_PART]);
                        if reply.send(part).await.is_err() {
                            break Ok(());
                        }
                        parrot.sent.fetch_add(MAX_ANSWER_PART, Ordering::SeqCst);
                    }
                }
            }
            .map_err(|error| error.to_string())
        })
    }
}

async fn answering() -> (Rig, Agent, Arc<Parrot>) {
    let rig = Rig::start(hub_of(1, 1, HistoryLimits::default())).await;
    let parrot = Arc::new(Parrot::default());
    let answers = Arc::new(Answering(Arc::clone(&parrot)));
    let agent = Agent::answering(options("n1"), rig.transport("n1"), answers).await;
    rig.listens("n1").await;
    (rig, agent, parrot)
}

#[tokio::test]
async fn answers_come_whole_with_their_errors_and_in_time() {
    let (rig, _agent, _) = answering().await;
    let (agents, n1) = (rig.agents.clone(), name("n1"));
    let ask = |ask, limits| agents.ask(&n1, &ask, limits);
    let words: Vec<String> = ask(Ask::Diagnostics, LIMITS).unwrap().json().await.unwrap();
    assert_eq!((words.len(), words[0].as_str()), (20_000, "word"));
    let failed = ask(Ask::Check, LIMITS).unwrap().bytes().await.unwrap_err();
    assert_eq!(failed.to_string(), "node n1: nobody looked");
    let short = AskLimits { bytes: 1000, ..LIMITS };
    let long = ask(Ask::Diagnostics, short).unwrap().bytes().await.unwrap_err();
    assert_eq!(long, AskError::TooLarge(n1.clone()));
    let hasty = AskLimits { patience: Duration::from_millis(200), ..LIMITS };
    let late = ask(Ask::Pause, hasty).unwrap().bytes().await.unwrap_err();
    let in_words = |problem: &str| problem.contains("too long");
    assert!(
        matches!(&late, AskError::Late(_))
            || matches!(&late, AskError::Failed { problem, .. } if in_words(problem)),
        "{late}"
    );
    let nobody = agents.ask(&name("n2"), &Ask::Check, LIMITS).unwrap_err();
    assert_eq!(nobody, AskError::Away(name("n2")));
    let open: Vec<_> = (0..8).map(|_| ask(Ask::Pause, LIMITS).unwrap()).collect();
    assert_eq!(ask(Ask::Check, LIMITS).unwrap_err(), AskError::TooMany(n1.clone()));
    drop(open);
    assert!(ask(Ask::Check, LIMITS).is_ok(), "those that nobody wants count no more");
}

#[tokio::test]
async fn an_answer_that_nobody_reads_holds_up_neither_views_nor_memory() {
    let (rig, agent, parrot) = answering().await;
    let mut endless = (0..8)
        .map(|_| rig.agents.ask(&name("n1"), &Ask::Resume, LIMITS).unwrap())
        .collect::<Vec<_>>();
    for answer in &mut endless {
        answer.next().await.unwrap().unwrap();
    }
    // The view goes on, and the other way the word that it is real.
    for revision in 2..20 {
        rig.hub.apply(revision, vec![crate::rig::port("a1", "n1", "blue", "10.9.0.7")]).unwrap();
        rig.hub.apply(revision + 100, Vec::new()).unwrap();
    }
    rig.heard.converged("n1", 2).await;
    // Eight streams, each with its window and what tonic and the queues hold.
    assert!(parrot.sent.load(Ordering::SeqCst) < 16 << 20);
    drop(endless);
    let mut ended = parrot.ended.subscribe();
    tokio::time::timeout(DEADLINE, ended.wait_for(|ended| *ended)).await.unwrap().unwrap();
    drop(agent);
}

#[tokio::test]
async fn an_agent_that_goes_ends_its_answers() {
    let (rig, agent, _) = answering().await;
    let mut begun = rig.agents.ask(&name("n1"), &Ask::Resume, LIMITS).unwrap();
    begun.next().await.unwrap().unwrap();
    agent.transport.cut(true);
    let ended = tokio::time::timeout(DEADLINE, begun.bytes()).await.unwrap();
    assert_eq!(ended.unwrap_err(), AskError::Away(name("n1")));
    agent.transport.cut(false);
    rig.listens("n1").await;
    assert!(rig.agents.ask(&name("n1"), &Ask::Diagnostics, LIMITS).unwrap().bytes().await.is_ok());
}

/// Gives one address, and none to who asks for `gone`.
impl Attachments for Heard {
    fn attach<'a>(
        &'a self,
        node: &'a NodeName,
        request: &'a AttachRequest,
    ) -> BoxFuture<'a, Result<Port, AttachError>> {
        let port = serde_json::from_value::<Port>(json!({"device": request.key.device,
            "interface": request.key.interface, "network": request.network, "node": node,
            "mac": "0a:58:0a:09:00:07", "addresses": ["10.9.0.7"]}));
        Box::pin(std::future::ready(match request.network.as_str() {
            "blue" => Ok(port.unwrap()),
            "busy" => Err(AttachError::Later("the disk is full".to_owned())),
            other => Err(AttachError::Refused(format!("there is no network {other}"))),
        }))
    }

    fn detach<'a>(
        &'a self,
        _: &'a NodeName,
        _: &'a PortKey,
        generation: u64,
    ) -> BoxFuture<'a, Result<u64, AttachError>> {
        Box::pin(std::future::ready(Ok(generation)))
    }
}

#[tokio::test]
async fn ports_are_given_to_who_the_certificate_names() {
    let mut rig = Rig::start(hub_of(1, 1, HistoryLimits::default())).await;
    let agent = rig.agent("n2").await;
    let request = |network: &str| -> AttachRequest {
        serde_json::from_value(json!({"device": "a:b", "interface": "eth0", "network": network}))
            .unwrap()
    };
    let port = agent.client.attach(&request("blue")).await.unwrap();
    assert_eq!((port.node, port.addresses[0].to_string()), (name("n2"), "10.9.0.7".to_owned()));
    assert_eq!(agent.client.detach(&port.key, 7).await, Ok(7));
    let refused = AttachError::Refused("there is no network red".to_owned());
    assert_eq!(agent.client.attach(&request("red")).await, Err(refused));
    let later = AttachError::Later("the disk is full".to_owned());
    assert_eq!(agent.client.attach(&request("busy")).await, Err(later));
    rig.stop().await;
    let away = agent.client.attach(&request("blue")).await.unwrap_err();
    assert!(matches!(&away, AttachError::Later(why) if why.contains("away")), "{away}");
}
