//! The base tree: what a VM has before packages, mounts and what its guests write.
//!
//! One read-only tree serves every VM of the host process; it is the lowest layer of the root.

use std::sync::{Arc, OnceLock};
use vfs_core::inode::FileSystem;
use vfs_core::statictree::StaticFs;
use vfs_core::types::Cred;

/// User and group of the ordinary user.
pub const USER_ID: u32 = 1000;
/// Home directory of the ordinary user.
pub const USER_HOME: &str = "/home/agentos";

const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
agentos:x:1000:1000:agentos:/home/agentos:/bin/sh
";

const GROUP: &str = "\
root:x:0:
daemon:x:1:
tty:x:5:
staff:x:50:
users:x:100:
nogroup:x:65534:
agentos:x:1000:
";

const OS_RELEASE: &str = "\
NAME=\"agentOS\"
ID=agentos
PRETTY_NAME=\"agentOS\"
";

const PROFILE: &str = "\
export PATH=\"${PATH:-/usr/local/sbin:/usr/local/bin:/opt/agentos/bin:/usr/sbin:/usr/bin:/sbin:/bin}\"
export HOME=\"${HOME:-/root}\"
";

const SHELLS: &str = "/bin/sh\n/bin/bash\n";

const SERVICES: &str = "\
domain\t53/tcp
domain\t53/udp
ftp\t21/tcp
git\t9418/tcp
http\t80/tcp\twww
https\t443/tcp
smtp\t25/tcp
ssh\t22/tcp
";

const HOSTS: &str =
    "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\tagentos\n";

const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files\nservices: files\n";

/// Credentials of the ordinary user, in the group of the same number.
pub fn default_cred() -> Cred {
    Cred {
        groups: vec![USER_ID],
        ..Cred::user(USER_ID, USER_ID)
    }
}

/// The tree.
pub fn base() -> Arc<dyn FileSystem> {
    static BASE: OnceLock<Arc<StaticFs>> = OnceLock::new();
    BASE.get_or_init(build).clone()
}

fn build() -> Arc<StaticFs> {
    let mut tree = StaticFs::builder();
    for dir in [
        "/bin",
        "/sbin",
        "/lib",
        "/usr",
        "/usr/bin",
        "/usr/sbin",
        "/usr/lib",
        "/usr/share",
        "/usr/local",
        "/usr/local/bin",
        "/usr/local/sbin",
        "/usr/local/lib",
        "/usr/local/share",
        "/etc",
        "/home",
        "/opt",
        "/run",
        "/mnt",
        "/dev",
        "/proc",
        "/var",
        "/var/cache",
        "/var/lib",
        "/var/log",
        "/srv",
    ] {
        tree = tree.dir(dir, 0o755);
    }
    tree = tree
        .dir("/root", 0o700)
        .dir("/tmp", 0o1777)
        .dir("/var/tmp", 0o1777)
        .dir(USER_HOME, 0o755)
        .owner(USER_HOME, USER_ID, USER_ID)
        .dir("/workspace", 0o755)
        .owner("/workspace", USER_ID, USER_ID);
    for (path, text) in [
        ("/etc/passwd", PASSWD),
        ("/etc/group", GROUP),
        ("/etc/hostname", "agentos\n"),
        ("/etc/os-release", OS_RELEASE),
        ("/etc/profile", PROFILE),
        ("/etc/shells", SHELLS),
        ("/etc/services", SERVICES),
        ("/etc/hosts", HOSTS),
        ("/etc/nsswitch.conf", NSSWITCH),
    ] {
        tree = tree.file(path, 0o644, text);
    }
    for (path, target) in [
        ("/bin/sh", "/opt/agentos/bin/sh"),
        ("/bin/bash", "/opt/agentos/bin/bash"),
        ("/usr/bin/env", "/opt/agentos/bin/env"),
        ("/etc/mtab", "/proc/self/mounts"),
        ("/var/run", "/run"),
    ] {
        tree = tree.symlink(path, target);
    }
    match tree.build() {
        Ok(tree) => tree,
        // The paths are the constants above, and a test builds them.
        Err(error) => unreachable!("the base tree: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs_core::types::FileType;

    #[test]
    fn the_base_tree_builds_and_is_shared() {
        assert!(Arc::ptr_eq(&base(), &base()));
        let root = base().root();
        assert_eq!(
            root.lookup(b"bin").unwrap().lookup(b"sh").unwrap().kind(),
            FileType::Symlink
        );
        let home = root
            .lookup(b"home")
            .unwrap()
            .lookup(b"agentos")
            .unwrap()
            .stat()
            .unwrap();
        assert_eq!((home.uid, home.gid), (USER_ID, USER_ID));
        assert_eq!(root.lookup(b"tmp").unwrap().stat().unwrap().perm(), 0o1777);
    }
}
