//! The store on etcd (3.4 and later), for several controllers of which one leads.
//!
//! [`Election`] names the leader: a key under a lease. [`Etcd`] is that leader's store. Taking it
//! over writes a new *owner*, and every transaction is made only while the owner is the same: what a
//! deposed leader still sends has no effect, whatever its clock says and however late it comes.
//!
//! All documents are in the leader's memory, for nobody else changes them; etcd is asked for writes
//! only. A transaction whose answer is lost is sent again until it is known, which is safe for the
//! same reason. One that is too large for etcd is staged in pieces first, and named by the one that
//! commits it. Nothing is watched in etcd, so its compactions matter to nobody.

mod access;
mod client;
mod election;
mod register;
mod store;

pub use access::{Access, Tls};
pub use client::{Client, EtcdError};
pub use election::{Election, Leadership};
pub use register::{Register, Registered};
pub use store::{Etcd, OpenError};

/// etcd's own messages, made from `proto/etcd.proto`.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    reason = "it is generated"
)]
mod proto {
    tonic::include_proto!("etcdserverpb");
}
