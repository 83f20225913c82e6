//! The virtual file system: errno, inodes, dentries, mounts, path walk, memory and host-directory file systems, open files.
