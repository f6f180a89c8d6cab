//! What only a cluster can show: leaders that die, majorities that are lost.

use std::time::Duration;

use osier_ovsdb::Transaction;
use osier_ovsdb::rows::TypedRow;
use osier_ovsdb::rows::vswitch::OpenVSwitch;
use osier_ovsdb::session::{Config, Event, Session, TransactError};

use crate::expect::{
    monitor, next, next_snapshot, reconnected, rows, session_with_root, transact, within,
};
use crate::peer::{DATABASE, Peer};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_follows_the_leader() {
    let mut peer = Peer::clustered();
    let (session, root) = session_with_root(&peer).await;
    let mut events = session.subscribe(64).await.unwrap();
    next_snapshot(&mut events).await;
    for round in 1..=3 {
        let connection = session.status().connection;
        let Peer::Clustered(cluster) = &mut peer else { unreachable!("it is a cluster") };
        let leader = cluster.leader().unwrap();
        cluster.kill(leader);
        reconnected(&session, connection).await;
        assert!(session.status().leader);
        let mut transaction = Transaction::new("after the leader's death");
        transaction.update(OpenVSwitch::TABLE, root, vec![("cur_cfg".into(), round.into())]);
        transact(&session, &transaction).await;
        // The new leader knows the transactions of the old: nothing is fetched twice.
        let mut resumed = false;
        loop {
            match next(&mut events).await {
                Event::Resumed => resumed = true,
                Event::Changes(changes) => {
                    let row = changes.rows[0].new.clone().unwrap();
                    if OpenVSwitch::from_row(&row).unwrap().cur_cfg == round {
                        break;
                    }
                }
                Event::Disconnected => {}
                Event::Snapshot { reason, .. } => panic!("fetched anew: {reason:?}"),
            }
        }
        assert!(resumed);
        cluster.restart(leader).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_member_will_do_for_reading() {
    let peer = Peer::clustered();
    let (writer, root) = session_with_root(&peer).await;
    let Peer::Clustered(cluster) = &peer else { unreachable!("it is a cluster") };
    let leader = cluster.leader().unwrap();
    let follower = peer.remotes().into_iter().enumerate().find(|(i, _)| *i != leader).unwrap().1;
    let reader = Session::connect(vec![follower], Config::new(DATABASE, monitor()));
    within("the follower", reader.ready()).await.unwrap();
    assert!(!reader.status().leader);
    let mut events = reader.subscribe(16).await.unwrap();
    next_snapshot(&mut events).await;
    let mut transaction = Transaction::new("through the leader");
    transaction.update(OpenVSwitch::TABLE, root, vec![("cur_cfg".into(), 5.into())]);
    transact(&writer, &transaction).await;
    assert!(matches!(next(&mut events).await, Event::Changes(_)));
    assert_eq!(rows::<OpenVSwitch>(&reader).await[0].cur_cfg, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_nothing_is_promised() {
    let mut peer = Peer::clustered();
    let (session, root) = session_with_root(&peer).await;
    let Peer::Clustered(cluster) = &mut peer else { unreachable!("it is a cluster") };
    let leader = cluster.leader().unwrap();
    let others: Vec<usize> = (0..3).filter(|member| *member != leader).collect();
    for member in &others {
        cluster.kill(*member);
    }
    let mut transaction = Transaction::new("with nobody to agree");
    transaction.update(OpenVSwitch::TABLE, root, vec![("cur_cfg".into(), 1.into())]);
    let error = session.transact(&transaction, Duration::from_secs(2)).await.unwrap_err();
    assert!(error.is_in_doubt() || matches!(error, TransactError::NotConnected { .. }), "{error}");
    for member in others {
        cluster.restart(member).unwrap();
    }
    transact(&session, &transaction).await;
    assert_eq!(rows::<OpenVSwitch>(&session).await[0].cur_cfg, 1);
}
