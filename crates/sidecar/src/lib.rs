//! Assembles a virtual machine and holds the aos command.
