//! The pjdfstest suite (crate `pjdfstest`) on the memory file system and on the overlay, through
//! FUSE. What does not pass is listed with its reason in `tests/expect`; a listed case that passes
//! fails the test, so the lists can only shrink.

mod fuse;
mod host;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use vfs_core::memfs::{MemFs, MemFsOptions};
use vfs_core::{FileSystem, FileType, NewNode};
use vfs_overlay::{OverlayFs, OverlayOptions};

const VERSION: &str = "0.2.2";

const CONFIG: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utimensat = {}
utime_now = {}

[settings]
naptime = 0.01
allow_remount = false

[dummy_auth]
entries = [["judge1", "judge1"], ["judge2", "judge2"], ["judge3", "judge3"]]
"#;

/// Accounts for the suite, seen in the test's own mount namespace only.
const PASSWD: &str = "root:x:0:0::/root:/bin/sh\n\
    judge1:x:60001:60001::/:/bin/sh\n\
    judge2:x:60002:60002::/:/bin/sh\n\
    judge3:x:60003:60003::/:/bin/sh\n";
const GROUP: &str = "root:x:0:\njudge1:x:60001:\njudge2:x:60002:\njudge3:x:60003:\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Ok,
    Fail,
    Skip,
}

/// Fewest cases that must pass: as many as on ext4.
const BAR: usize = 383;

/// `case -> verdict` from the suite's output.
fn parse(output: &str) -> BTreeMap<String, Verdict> {
    let mut verdicts = BTreeMap::new();
    for line in output.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(verdict), None) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let verdict = match verdict {
            "ok" => Verdict::Ok,
            "FAILED" => Verdict::Fail,
            "skipped" => Verdict::Skip,
            _ => continue,
        };
        if name.contains("::") {
            verdicts.insert(name.to_owned(), verdict);
        }
    }
    verdicts
}

/// Expectations: `fail CASE reason` or `skip CASE reason`.
fn expectations(text: &str) -> BTreeMap<String, Verdict> {
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let verdict = match words.next() {
                Some("fail") => Verdict::Fail,
                Some("skip") => Verdict::Skip,
                other => panic!("bad expectation {other:?}: {line}"),
            };
            let name = words.next().expect("a case");
            assert!(
                words.next().is_some_and(|r| !r.trim().is_empty()),
                "no reason: {line}"
            );
            (name.to_owned(), verdict)
        })
        .collect()
}

/// Runs the suite in the directory `place` of `fs`.
fn judge(fs: Arc<dyn FileSystem>, place: &'static str, expected: &str) {
    let tool = host::tool("pjdfstest", VERSION);
    let Some(output) = host::in_private_mounts("pjdfstest", move |dir| {
        for (file, text) in [("passwd", PASSWD), ("group", GROUP)] {
            std::fs::write(dir.join(file), text).unwrap();
            host::bind(&dir.join(file), &Path::new("/etc").join(file));
        }
        std::fs::write(dir.join("config.toml"), CONFIG).unwrap();
        let mountpoint = dir.join("mnt");
        let elsewhere = dir.join("elsewhere");
        std::fs::create_dir(&mountpoint).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        host::mount_tmpfs(&elsewhere);
        let session = fuse::mount(fs, &mountpoint, fuse::Data::Direct).unwrap();
        let output = Command::new(tool)
            .arg("-c")
            .arg(dir.join("config.toml"))
            .arg("-p")
            .arg(mountpoint.join(place))
            .arg("-s")
            .arg(&elsewhere)
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        session.umount_and_join().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }) else {
        return;
    };
    let (got, want) = (parse(&output), expectations(expected));
    let mut wrong = Vec::new();
    for (name, verdict) in &got {
        let wanted = want.get(name).copied().unwrap_or(Verdict::Ok);
        if *verdict != wanted {
            wrong.push(format!("{name}: {verdict:?}, expected {wanted:?}"));
        }
    }
    for name in want.keys().filter(|name| !got.contains_key(*name)) {
        wrong.push(format!("{name}: listed but not in the suite"));
    }
    let count = |v| got.values().filter(|got| **got == v).count();
    let summary = format!(
        "{} of {} pass, {} skipped, {} failed",
        count(Verdict::Ok),
        got.len(),
        count(Verdict::Skip),
        count(Verdict::Fail)
    );
    host::say(&summary);
    assert!(
        wrong.is_empty(),
        "{summary}\n{}\n{output}",
        wrong.join("\n")
    );
    assert!(count(Verdict::Ok) >= BAR, "{summary}\n{output}");
}

fn writable() -> Arc<MemFs> {
    MemFs::new(MemFsOptions::default())
}

#[test]
fn memory_file_system() {
    judge(writable(), "", include_str!("expect/pjdfstest-memfs.txt"));
}

#[test]
fn overlay() {
    // In a directory that both lower layers have and the upper layer gets by copy-up.
    let lowers = [writable(), writable()].map(|lower| {
        let node = NewNode {
            kind: FileType::Directory,
            perm: 0o755,
            uid: 0,
            gid: 0,
            rdev: 0,
        };
        lower.root().create(b"work", &node).unwrap();
        lower as Arc<dyn FileSystem>
    });
    let fs = OverlayFs::new(Some(writable()), lowers.to_vec(), OverlayOptions::default());
    judge(
        fs.unwrap(),
        "work",
        include_str!("expect/pjdfstest-overlay.txt"),
    );
}
