//! Terminal sessions as a person has them: the real program at a real terminal of the host.

mod host;
mod modes;
mod session;
