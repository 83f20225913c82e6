//! Packages seen as a file system: the /opt/agentos tree, its link farm, current and provides.
