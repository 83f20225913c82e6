//! Packages seen as a file system.
//!
//! Configuring packages for a VM writes nothing: the [`Projection`] *is* the tree that an installer
//! would have made, read from the package files where they lie.
//!
//! ```text
//! /opt/agentos/bin/ls                  -> ../pkgs/coreutils/current/bin/ls
//! /opt/agentos/pkgs/coreutils/0.3.4/   the package's own tree
//! /opt/agentos/pkgs/coreutils/current  -> 0.3.4
//! /usr/share/…                         whatever packages provide elsewhere
//! ```
//!
//! It is meant as a lower layer of an overlay: its directories hold nothing but what packages
//! bring, and nothing in it can be changed. A VM that installs, removes or switches something does
//! so in the layer above, by ordinary file system calls.
//!
//! # Rules
//!
//! - **Order.** Packages have the order in which they are configured; a package of several versions
//!   has the place of the first of them, so that switching versions moves nothing else.
//! - **`current`** leads to the version that was configured last, or to the one that
//!   [`Options::current`] names. Only current versions are linked and provide anything; the others
//!   are there to be switched to.
//! - **Commands.** Where two packages have a command of one name the first wins, and a
//!   [`Warning`] names both. A command whose file the package lacks is not linked.
//! - **`bin` of a version** holds what the package has there and, for each command that it has not,
//!   a link to the command's file.
//! - **Provided files** appear at their targets. Directories that several packages provide at one
//!   target are merged; of two files the first wins, with a warning. Nothing can be provided below
//!   `/opt/agentos`.
//! - **Attributes.** Files belong to root, whoever packed them; set-ID bits are not shown, because
//!   a package can't give itself privileges; the file of a command can be executed, whatever the
//!   package says, as if npm had installed it.
//!
//! # Costs
//!
//! Making a projection reads the manifest of each package and nothing else: there is no table of
//! commands or files. A lookup in `/opt/agentos/bin` asks each package's own command index, and a
//! listing goes through them one after the other. Looking for commands of one name goes through the
//! commands of all packages but the one that has most.

mod collisions;
mod content;
mod dir;
mod error;
mod leaf;
mod members;
mod plan;
mod provides;
mod table;

pub use error::{ProjectionError, Warning};
pub use plan::{Options, PackageInfo, Projection};
