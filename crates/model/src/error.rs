//! What is wrong with an object, and where.

use crate::name::NameError;
use std::net::IpAddr;
use thiserror::Error;

/// An object that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{object}: {field}: {problem}")]
pub struct Invalid {
    /// Which object, such as `network blue`.
    pub object: String,
    /// Which of its fields, such as `subnets[1].gateway`.
    pub field: String,
    /// What is wrong with it.
    #[source]
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// Not a name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A number outside of its range.
    #[error("{found} is not in {min} to {max}")]
    Range {
        /// The number.
        found: u64,
        /// The least that is allowed.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A prefix with bits set behind its length.
    #[error("{found} has bits behind its length: did you mean {meant}?")]
    HostBits {
        /// As it was given.
        found: String,
        /// As it would be right.
        meant: String,
    },
    /// An address outside of the prefix that it belongs to.
    #[error("{address} is not a usable address of {prefix}")]
    NotInside {
        /// The address.
        address: IpAddr,
        /// The prefix.
        prefix: String,
    },
    /// Two prefixes that share addresses.
    #[error("{one} overlaps {other}")]
    Overlap {
        /// The one.
        one: String,
        /// The other, with its owner.
        other: String,
    },
    /// A prefix outside of the one that it is to be taken from, or all of it.
    #[error("{part} is not a part of {whole}")]
    NotPart {
        /// The one.
        part: String,
        /// Of which it should be a part.
        whole: String,
    },
    /// A name that only Osier itself gives.
    #[error("names that begin with @ are Osier's own")]
    Reserved,
    /// The same value twice.
    #[error("{0} stands twice")]
    Twice(String),
    /// A number or address that another has.
    #[error("{value} is {owner}'s already")]
    Taken {
        /// The value.
        value: String,
        /// Who has it.
        owner: String,
    },
    /// Something that must be there and is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Something that means nothing there.
    #[error("{0} means nothing with {1}")]
    Idle(&'static str, &'static str),
    /// A name of something that does not exist.
    #[error("there is no {kind} {name}")]
    Unknown {
        /// What was looked for.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// An address of the other family than the prefix that it goes with.
    #[error("{address} is not of the family of {prefix}")]
    OtherFamily {
        /// The address.
        address: IpAddr,
        /// The prefix.
        prefix: String,
    },
    /// A text that is no domain's name.
    #[error("{0:?} is no domain")]
    NotDomain(String),
    /// An address that no device may have.
    #[error("{0} is not an address that a port can have")]
    NotUnicast(String),
}

impl Invalid {
    pub(crate) fn new(
        object: impl Into<String>,
        field: impl Into<String>,
        problem: impl Into<Problem>,
    ) -> Self {
        Self { object: object.into(), field: field.into(), problem: problem.into() }
    }
}
