//! Header bytes to a handler, as the Linux kernel's binary-format handlers do it.
