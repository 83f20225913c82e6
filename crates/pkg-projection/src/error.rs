//! What keeps packages from being projected, and what is worth telling about those that are.

use std::fmt;

/// Why packages can't be projected together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectionError {
    /// A package can't be read.
    #[error("package {package}: {source}")]
    Package {
        /// Its name; if that is what can't be read, its place in the configuration as `#1`.
        package: String,
        /// What is wrong.
        #[source]
        source: aospkg_format::Error,
    },
    /// A name or a version can't be the name of a directory.
    #[error("package {name:?} version {version:?}: {why}")]
    Name {
        /// Name of the package.
        name: String,
        /// Its version.
        version: String,
        /// What is wrong with one of them.
        why: String,
    },
    /// Two different packages have one name and one version.
    #[error("package {name} {version} is configured twice, with different contents")]
    Conflict {
        /// Name of both.
        name: String,
        /// Version of both.
        version: String,
    },
    /// [`Options::current`](crate::Options::current) names what is not configured.
    #[error("package {name} {version} is to be the current one but is not configured")]
    NoSuchVersion {
        /// Name of the package.
        name: String,
        /// The version asked for.
        version: String,
    },
    /// A package provides a file that can't be.
    #[error("package {package} provides {source_path:?} at {target:?}: {why}")]
    Provides {
        /// Name of the package.
        package: String,
        /// Path in the package.
        source_path: String,
        /// Path in the VM.
        target: String,
        /// What is wrong with one of them.
        why: String,
    },
    /// A limit is exceeded.
    #[error("{got} are more than the limit {name} allows ({limit})")]
    Limit {
        /// Name of the limit, as `docs/limits.md` lists it.
        name: &'static str,
        /// The limit.
        limit: u64,
        /// What was asked for.
        got: u64,
    },
}

/// Something that was decided between packages, or is about to be a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Commands of one package are hidden by those of an earlier one.
    Commands {
        /// The package whose commands are linked.
        winner: String,
        /// The package whose commands are not.
        loser: String,
        /// Names of the commands, the first few of them.
        commands: Vec<String>,
        /// How many there are.
        total: usize,
    },
    /// Something provided by one package is hidden by what an earlier one provides.
    Provides {
        /// The package whose file is shown.
        winner: String,
        /// The package whose file is not.
        loser: String,
        /// Where.
        target: String,
    },
    /// An environment variable of one package yields to that of an earlier one.
    Environment {
        /// The package whose value counts.
        winner: String,
        /// The package whose value does not.
        loser: String,
        /// Name of the variable.
        key: String,
    },
    /// An environment variable that can't be one: the name is empty or holds `=` or NUL, or the
    /// value holds NUL. It is left out.
    BadEnvironment {
        /// The package that sets it.
        package: String,
        /// Name of the variable.
        key: String,
    },
    /// A package is configured twice; the second is left out.
    Duplicate {
        /// Name of the package.
        name: String,
        /// Its version.
        version: String,
    },
    /// A limit is four fifths used up.
    NearLimit {
        /// Name of the limit, as `docs/limits.md` lists it.
        name: &'static str,
        /// The limit.
        limit: u64,
        /// What is used.
        used: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Commands {
                winner,
                loser,
                commands,
                total,
            } => {
                let list = commands.join(", ");
                let more = total - commands.len().min(*total);
                write!(
                    f,
                    "package {loser}: commands hidden by package {winner}: {list}"
                )?;
                if more == 0 {
                    Ok(())
                } else {
                    write!(f, " and {more} more")
                }
            }
            Warning::Provides {
                winner,
                loser,
                target,
            } => {
                write!(f, "package {loser}: {target} is hidden by package {winner}")
            }
            Warning::Environment { winner, loser, key } => {
                write!(
                    f,
                    "package {loser}: variable {key} is already set by package {winner}"
                )
            }
            Warning::BadEnvironment { package, key } => {
                write!(
                    f,
                    "package {package}: {key:?} can't be an environment variable"
                )
            }
            Warning::Duplicate { name, version } => {
                write!(f, "package {name} {version} is configured twice")
            }
            Warning::NearLimit { name, limit, used } => {
                write!(
                    f,
                    "{used} of the {limit} that the limit {name} allows are used"
                )
            }
        }
    }
}
