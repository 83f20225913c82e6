//! A command name and $PATH to an executable file.
