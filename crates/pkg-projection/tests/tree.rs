//! The tree below `/opt/agentos`.

mod support;

use pkg_projection::{Options, PackageInfo};
use std::collections::BTreeMap;
use support::{MTIME, Recipe, Vm};
use vfs_core::{Errno, FileSystem, FileType, Lookup, OpenFlags};

/// The package the design documents show: a multicall program with two names, a helper, a page.
fn coreutils() -> Recipe {
    Recipe::new("coreutils", "9.4")
        .file("package.json", 0o644, "{}")
        .file("libexec/coreutils", 0o644, "\0asm")
        .file("share/man/man1/ls.1", 0o644, ".TH LS 1")
        .command("ls", "libexec/coreutils")
        .command("vdir", "libexec/coreutils")
}

#[test]
fn everything_is_there() {
    let vm = Vm::new(&[coreutils()]);
    assert_eq!(vm.warnings, [""; 0]);
    let version = "/opt/agentos/pkgs/coreutils/9.4";
    let mut expected = vec![
        "/opt/".to_owned(),
        "/opt/agentos/".into(),
        "/opt/agentos/bin/".into(),
        "/opt/agentos/bin/ls".into(),
        "/opt/agentos/bin/vdir".into(),
        "/opt/agentos/pkgs/".into(),
        "/opt/agentos/pkgs/coreutils/".into(),
        "/opt/agentos/pkgs/coreutils/current".into(),
        format!("{version}/"),
        format!("{version}/bin/"),
        format!("{version}/bin/ls"),
        format!("{version}/bin/vdir"),
        format!("{version}/libexec/"),
        format!("{version}/libexec/coreutils"),
        format!("{version}/package.json"),
        format!("{version}/share/"),
        format!("{version}/share/man/"),
        format!("{version}/share/man/man1/"),
        format!("{version}/share/man/man1/ls.1"),
    ];
    expected.sort();
    assert_eq!(vm.walk(""), expected);

    let farm = "../pkgs/coreutils/current/libexec/coreutils";
    assert_eq!(vm.readlink("/opt/agentos/bin/ls").as_deref(), Ok(farm));
    assert_eq!(
        vm.readlink(&format!("{version}/bin/vdir")).as_deref(),
        Ok("../libexec/coreutils")
    );
    for path in [
        "/opt/agentos/bin/ls",
        "/opt/agentos/pkgs/coreutils/current/bin/vdir",
    ] {
        assert_eq!(vm.cat(path).as_deref(), Ok("\0asm"));
    }
    assert_eq!(
        vm.lstat("/opt/agentos/bin/coreutils").err(),
        Some(Errno::ENOENT)
    );
    assert_eq!(vm.lstat("/opt/agentos/bin/l").err(), Some(Errno::ENOENT));
}

#[test]
fn current_is_an_ordinary_link() {
    let vm = Vm::new(&[coreutils()]);
    let dir = "/opt/agentos/pkgs/coreutils";
    assert_eq!(vm.ls(dir).unwrap(), ["9.4", "current"]);
    let link = vm.lstat(&format!("{dir}/current")).unwrap();
    assert_eq!(
        (link.file_type(), link.size, link.perm()),
        (FileType::Symlink, 3, 0o777)
    );
    assert_eq!(vm.readlink(&format!("{dir}/current")).as_deref(), Ok("9.4"));
    assert_eq!(
        vm.ls(&format!("{dir}/current/")),
        vm.ls(&format!("{dir}/9.4"))
    );
    assert!(vm.stat(&format!("{dir}/current/package.json")).is_ok());
}

#[test]
fn published_layout_has_its_own_bin() {
    let own = Recipe::new("tools", "1")
        .program("a", "\0asm a")
        .link("bin/b", "../lib/b.js")
        .file("lib/b.js", 0o644, "#!/usr/bin/env node\n")
        .command("b", "lib/b.js")
        .file("bin/data", 0o644, "no command")
        .command("c", "lib/c.js")
        .file("lib/c.js", 0o644, "#!/usr/bin/env node\n");
    let vm = Vm::new(&[own]);
    let version = "/opt/agentos/pkgs/tools/1";
    assert_eq!(vm.ls("/opt/agentos/bin").unwrap(), ["a", "b", "c"]);
    assert_eq!(
        vm.readlink("/opt/agentos/bin/a").as_deref(),
        Ok("../pkgs/tools/current/bin/a")
    );
    assert_eq!(
        vm.readlink("/opt/agentos/bin/b").as_deref(),
        Ok("../pkgs/tools/current/lib/b.js")
    );
    // What the package has in `bin` stays as it is; what it lacks there is added.
    assert_eq!(
        vm.ls(&format!("{version}/bin")).unwrap(),
        ["a", "b", "c", "data"]
    );
    assert_eq!(
        vm.lstat(&format!("{version}/bin/a")).unwrap().file_type(),
        FileType::Regular
    );
    assert_eq!(
        vm.readlink(&format!("{version}/bin/b")).as_deref(),
        Ok("../lib/b.js")
    );
    assert_eq!(
        vm.readlink(&format!("{version}/bin/c")).as_deref(),
        Ok("../lib/c.js")
    );
    vm.walk("");
}

#[test]
fn odd_bins() {
    let file = Recipe::new("file", "1")
        .file("bin", 0o755, "\0asm")
        .command("f", "bin");
    let none = Recipe::new("none", "1").file("bin/x", 0o644, "");
    let gone = Recipe::new("gone", "1")
        .file("a", 0o755, "")
        .command("a", "a")
        .command("b", "b");
    let vm = Vm::new(&[file, none, gone]);
    assert_eq!(
        vm.cat("/opt/agentos/pkgs/file/1/bin").as_deref(),
        Ok("\0asm")
    );
    assert_eq!(vm.cat("/opt/agentos/bin/f").as_deref(), Ok("\0asm"));
    assert_eq!(vm.ls("/opt/agentos/pkgs/none/1/bin").unwrap(), ["x"]);
    // A command without a file is not linked.
    assert_eq!(vm.ls("/opt/agentos/bin").unwrap(), ["a", "f"]);
    assert_eq!(vm.lstat("/opt/agentos/bin/b").err(), Some(Errno::ENOENT));
    assert_eq!(vm.ls("/opt/agentos/pkgs/gone/1/bin").unwrap(), ["a"]);
    vm.walk("");
}

#[test]
fn no_packages() {
    let vm = Vm::new(&[]);
    let all = [
        "/opt/",
        "/opt/agentos/",
        "/opt/agentos/bin/",
        "/opt/agentos/pkgs/",
    ];
    assert_eq!(vm.walk(""), all);
    assert!(vm.projection.env().is_empty());
    assert_eq!(vm.projection.packages().count(), 0);
}

#[test]
fn attributes() {
    let recipe = Recipe::new("p", "1")
        .file("cli.js", 0o644, "#!/usr/bin/env node\n")
        .command("cli", "cli.js")
        .file("helper", 0o755, "")
        .file("plain", 0o644, "12345")
        .file("private", 0o600, "")
        .file("set", 0o6755, "")
        .dir("shut", 0o700)
        .dir("sticky", 0o3777)
        .file("lib/unsearchable/x", 0o644, "")
        .dir("lib/unsearchable", 0o644)
        .link("link", "plain");
    let vm = Vm::new(&[recipe]);
    let dir = "/opt/agentos/pkgs/p/1";
    let mode = |name: &str| vm.lstat(&format!("{dir}/{name}")).map(|s| s.mode);
    assert_eq!(
        mode("cli.js"),
        Ok(0o100755),
        "npm makes the files of commands executable"
    );
    assert_eq!(mode("helper"), Ok(0o100755));
    assert_eq!(mode("plain"), Ok(0o100644));
    assert_eq!(mode("private"), Ok(0o100600));
    assert_eq!(mode("set"), Ok(0o100755), "a package can't give privileges");
    assert_eq!(mode("shut"), Ok(0o040700));
    assert_eq!(mode("sticky"), Ok(0o041777));
    assert_eq!(mode("link"), Ok(0o120777));
    assert_eq!(mode("lib/unsearchable/x"), Err(Errno::EACCES), "not ENOENT");

    let plain = vm.stat(&format!("{dir}/link")).unwrap();
    assert_eq!((plain.size, plain.blocks, plain.mtime.sec), (5, 1, MTIME));
    assert_eq!((plain.uid, plain.gid), (0, 0), "not whoever packed it");
    assert_eq!(vm.cat(&format!("{dir}/private")).err(), Some(Errno::EACCES));
    let root = vm.stat("/").unwrap();
    assert_eq!((root.mode, root.dev), (0o040755, plain.dev));
}

#[test]
fn nothing_can_be_changed() {
    let vm = Vm::new(&[coreutils()]);
    let at = vm.at();
    let write = |path: &[u8]| at.open(path, OpenFlags::WRONLY, 0).err();
    let file = b"/opt/agentos/pkgs/coreutils/9.4/package.json";
    assert_eq!(write(file), Some(Errno::EROFS));
    assert_eq!(
        at.open(b"/new", OpenFlags::CREAT | OpenFlags::WRONLY, 0o644)
            .err(),
        Some(Errno::EROFS)
    );
    assert_eq!(at.unlink(b"/opt/agentos/bin/ls"), Err(Errno::EROFS));
    assert_eq!(at.mkdir(b"/dir", 0o755), Err(Errno::EROFS));
    assert_eq!(at.chmod(file, 0o777, Lookup::FOLLOW), Err(Errno::EROFS));
    let statfs = vm.projection.statfs().unwrap();
    assert!(statfs.blocks > 0 && statfs.bfree == 0 && statfs.files > 0);
    assert!(vm.projection.read_only() && !vm.projection.volatile());
}

#[test]
fn content_can_be_lent() {
    let twin = Recipe::new("twin", "1").file("same", 0o644, ".TH LS 1");
    let vm = Vm::new(&[coreutils(), twin]);
    let resolve = |path: &str| vm.at().resolve(path.as_bytes(), Lookup::FOLLOW).unwrap();
    let page = resolve("/opt/agentos/pkgs/coreutils/current/share/man/man1/ls.1");
    let content = page.inode().content().expect("it can be lent");
    let mut seen = Vec::new();
    content
        .with(&mut |bytes| seen.extend_from_slice(bytes))
        .unwrap();
    assert_eq!(seen, b".TH LS 1");
    let id = page.inode().content_id().expect("it has an identity");
    let same = resolve("/opt/agentos/pkgs/twin/1/same");
    assert_eq!(
        same.inode().content_id(),
        Some(id),
        "one content, one identity"
    );
    let other = resolve("/opt/agentos/bin/ls");
    assert!(other.inode().content_id().is_some_and(|other| other != id));
    assert!(resolve("/opt").inode().content().is_none());

    let file = vm
        .at()
        .open(b"/opt/agentos/pkgs/twin/1/same", OpenFlags::empty(), 0)
        .unwrap();
    let mut buffer = [0; 16];
    assert_eq!(file.pread(&mut buffer, 4), Ok(4));
    assert_eq!(&buffer[..4], b"LS 1");
    assert_eq!(file.pread(&mut buffer, 8), Ok(0));
    assert_eq!(file.pread(&mut buffer, u64::MAX), Err(Errno::EINVAL));
    drop(vm);
    assert_eq!(
        file.pread(&mut buffer, 0),
        Ok(8),
        "an open file keeps its package"
    );
}

#[test]
fn several_versions() {
    let version = |v: &str| {
        Recipe::new("p", v)
            .program("run", v)
            .file(&format!("only-{v}"), 0o644, "")
    };
    let other = Recipe::new("q", "1")
        .program("run", "q")
        .program("walk", "q");
    let list = [version("2"), other.clone(), version("1"), version("10")];
    let vm = Vm::new(&list);
    assert_eq!(
        vm.ls("/opt/agentos/pkgs/p").unwrap(),
        ["1", "10", "2", "current"]
    );
    assert_eq!(
        vm.readlink("/opt/agentos/pkgs/p/current").as_deref(),
        Ok("10"),
        "the last one"
    );
    // The place of the first version decides between packages, not that of the current one.
    assert_eq!(vm.cat("/opt/agentos/bin/run").as_deref(), Ok("10"));
    assert_eq!(vm.cat("/opt/agentos/bin/walk").as_deref(), Ok("q"));
    assert_eq!(
        vm.warnings,
        ["package q: commands hidden by package p: run"]
    );
    assert!(vm.lstat("/opt/agentos/pkgs/p/2/only-2").is_ok());
    let info: Vec<PackageInfo<'_>> = vm.projection.packages().collect();
    let order: Vec<_> = info
        .iter()
        .map(|i| (i.name, i.version, i.current, i.commands))
        .collect();
    let expected = [
        ("p", "2", false, 1),
        ("p", "1", false, 1),
        ("p", "10", true, 1),
        ("q", "1", true, 2),
    ];
    assert_eq!(order, expected);

    let current = BTreeMap::from([("p".to_owned(), "1".to_owned())]);
    let vm = Vm::with(
        &list,
        &Options {
            current,
            ..Options::default()
        },
    );
    assert_eq!(
        vm.readlink("/opt/agentos/pkgs/p/current").as_deref(),
        Ok("1")
    );
    assert_eq!(vm.cat("/opt/agentos/bin/run").as_deref(), Ok("1"));
    vm.walk("");
}

#[test]
fn the_first_package_wins_a_command() {
    let list = [
        Recipe::new("a", "1")
            .program("x", "a")
            .file("y", 0o755, "a")
            .command("z", "missing"),
        Recipe::new("b", "1")
            .program("x", "b")
            .program("y", "b")
            .program("z", "b"),
        Recipe::new("c", "1")
            .program("x", "c")
            .program("y", "c")
            .program("w", "c"),
    ];
    let vm = Vm::new(&list);
    let runs = |name: &str| vm.cat(&format!("/opt/agentos/bin/{name}")).unwrap();
    assert_eq!(["w", "x", "y", "z"].map(runs), ["c", "a", "b", "b"]);
    assert_eq!(vm.ls("/opt/agentos/bin").unwrap(), ["w", "x", "y", "z"]);
    assert_eq!(
        vm.warnings,
        [
            "package b: commands hidden by package a: x",
            "package c: commands hidden by package a: x",
            "package c: commands hidden by package b: y",
        ]
    );
    vm.walk("");
}
