//! The values of the CNI specification, versions 0.1.0 to 1.1.0.
//!
//! One type per notion, in its newest form; what older versions say otherwise is a matter of
//! reading and printing only. Plugin-specific configuration is not here: see [`crate::config`].

mod address;
mod args;
mod env;
mod error;
mod result;
mod version;

pub use address::{Cidr, CidrError, Mac, MacError};
pub use args::{CniArgs, Pod};
pub use env::{Command, Environment};
pub use error::{Code, Error};
pub use result::{AddResult, Dns, Interface, Ip, Route};
pub use version::{Version, version_document};

pub(crate) use env::{check_identifier, check_interface_name, is_identifier};
