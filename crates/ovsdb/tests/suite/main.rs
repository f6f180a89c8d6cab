//! One suite, three kinds of server: the real `ovsdb-server` alone, three of them in a cluster, and
//! the in-memory one. What only one of them can show is in its own module.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is a test's report")]

mod cases;
mod cluster;
mod expect;
mod faults;
mod model;
mod peer;
mod real;
mod text;

/// Runs each case against each kind of server.
macro_rules! suite {
    ($($case:ident),* $(,)?) => {
        mod standalone {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::cases::$case(&crate::peer::Peer::standalone()).await;
            })*
        }
        mod clustered {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::cases::$case(&crate::peer::Peer::clustered()).await;
            })*
        }
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::cases::$case(&crate::peer::Peer::memory().await).await;
            })*
        }
    };
}

suite!(
    a_transaction_is_seen_before_it_returns,
    every_operation_has_its_outcome,
    errors_name_table_column_and_row,
    rows_nobody_refers_to_are_collected,
    weak_references_vanish_with_their_rows,
    conditions_choose_rows,
    locks_are_exclusive,
    a_wait_waits,
    a_broken_connection_is_mended,
    a_converted_database_is_followed,
    unknown_columns_are_reported,
    a_thousand_ports_in_one_transaction,
    a_slow_subscriber_gets_a_snapshot,
);
