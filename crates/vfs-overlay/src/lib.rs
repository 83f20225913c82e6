//! Overlay file system: read-only lower layers under one writable upper, with copy-up and whiteouts.
