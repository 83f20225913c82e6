//! The package container read in place: reader, path index, writer, packer, verifier.
