//! The packer: what it makes of directories, npm tarballs and tars, and what it refuses.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use aospkg_format::{
    EntryKind, PackError, PackOptions, PackWarning, Package, Packed, Schema, WriteOptions, pack,
    verify,
};
use tempfile::TempDir;

const JSON: &str = r#"{"name": "@scope/hi", "version": "1.2.3", "bin": {"hi": "cli.js"}}"#;

/// A directory with files: path, mode, content.
fn directory(files: &[(&str, u32, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, mode, content) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
    }
    dir
}

fn hello() -> TempDir {
    directory(&[
        ("package.json", 0o644, JSON),
        ("cli.js", 0o644, "#!/usr/bin/env node\nconsole.log(1)\n"),
        ("other.js", 0o644, "x"),
        ("libexec/helper", 0o750, "#!/bin/sh\n"),
    ])
}

fn try_pack(input: &Path, options: &PackOptions) -> Result<(Packed, Package), PackError> {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("out.aospkg");
    let packed = pack(input, &path, options);
    if packed.is_err() {
        assert_eq!(
            fs::read_dir(out.path()).unwrap().count(),
            0,
            "nothing is left"
        );
    }
    let packed = packed?;
    let verified = verify(&path).unwrap();
    assert!(verified.is_whole(), "{:?}", verified.problems);
    let package = Package::open(&path, None).unwrap();
    assert_eq!(package.identity().unwrap(), packed.digest);
    assert_eq!(fs::metadata(&path).unwrap().len(), packed.len);
    Ok((packed, package))
}

fn packed(input: &Path) -> (Packed, Package) {
    try_pack(input, &PackOptions::default()).unwrap()
}

fn refused(input: &Path) -> PackError {
    try_pack(input, &PackOptions::default()).unwrap_err()
}

fn mode(package: &Package, path: &str) -> u32 {
    let id = package.lookup_path(path.as_bytes()).unwrap().expect(path);
    package.entry(id).unwrap().mode & 0o7777
}

/// A tar of the files of a directory, made by GNU tar.
fn gnu_tar(dir: &Path, args: &[&str]) -> PathBuf {
    let path = dir.with_extension("tar");
    let status = Command::new("tar")
        .arg("-cf")
        .arg(&path)
        .args(args)
        .current_dir(dir)
        .status()
        .unwrap();
    assert!(status.success());
    path
}

/// A tar made member by member.
fn raw_tar(members: &[(&str, tar::EntryType, &str)]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut add = |name: &str, kind: tar::EntryType, content: &str| {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_entry_type(kind);
        let data = match kind {
            tar::EntryType::Symlink | tar::EntryType::Link => {
                header.as_old_mut().linkname[..content.len()].copy_from_slice(content.as_bytes());
                ""
            }
            _ => content,
        };
        header.set_size(data.len() as u64);
        header.set_cksum();
        file.write_all(header.as_bytes()).unwrap();
        file.write_all(data.as_bytes()).unwrap();
        file.write_all(&vec![0; data.len().next_multiple_of(512) - data.len()])
            .unwrap();
    };
    add(
        "package.json",
        tar::EntryType::Regular,
        r#"{"name":"p","version":"1"}"#,
    );
    for (name, kind, content) in members {
        add(name, *kind, content);
    }
    file.write_all(&[0; 1024]).unwrap();
    file
}

#[test]
fn bin_targets_become_executable_and_other_modes_survive() {
    let dir = hello();
    let (report, package) = packed(dir.path());
    assert_eq!((&*report.name, &*report.version), ("hi", "1.2.3"));
    assert_eq!(report.commands, ["hi"]);
    assert_eq!(report.warnings, []);
    assert_eq!(mode(&package, "cli.js"), 0o755);
    assert_eq!(mode(&package, "other.js"), 0o644);
    assert_eq!(mode(&package, "libexec/helper"), 0o750);
    let command = package.command(b"hi").unwrap().unwrap();
    assert_eq!(command.path, b"cli.js");
    assert!(package.command(b"helper").unwrap().is_none());
}

#[test]
fn packing_twice_gives_the_same_bytes() {
    let dir = hello();
    let out = tempfile::tempdir().unwrap();
    let (a, b) = (out.path().join("a"), out.path().join("b"));
    pack(dir.path(), &a, &PackOptions::default()).unwrap();
    pack(dir.path(), &b, &PackOptions::default()).unwrap();
    assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap());
    // Into the tree itself: the old output is no part of the new one.
    let inside = dir.path().join("out.aospkg");
    let options = PackOptions {
        mtime: Some(0),
        ..PackOptions::default()
    };
    let first = pack(dir.path(), &inside, &options).unwrap();
    let second = pack(dir.path(), &inside, &options).unwrap();
    assert_eq!(first, second);
}

#[test]
fn a_directory_and_its_tars_give_the_same_package() {
    let dir = hello();
    symlink("libexec/helper", dir.path().join("link")).unwrap();
    let (expected, _) = packed(dir.path());
    for format in ["--format=gnu", "--format=posix", "--format=ustar"] {
        let args = [format, "--sort=name", "."];
        let tar = gnu_tar(dir.path(), &args);
        // GNU times have whole seconds, and so have ours.
        assert_eq!(packed(&tar).0, expected, "{format}");
        let status = Command::new("gzip").arg("-kf").arg(&tar).status().unwrap();
        assert!(status.success());
        let gz = tar.with_extension("tar.gz");
        assert_eq!(packed(&gz).0, expected, "{format}, compressed");
        fs::remove_file(gz).unwrap();
        fs::remove_file(tar).unwrap();
    }
}

#[test]
fn an_npm_tarball_loses_its_first_directory() {
    let parent = tempfile::tempdir().unwrap();
    let dir = hello();
    fs::rename(dir.path(), parent.path().join("package")).unwrap();
    let tar = parent.path().join("p.tgz");
    let status = Command::new("tar")
        .args(["-czf", "p.tgz", "package"])
        .current_dir(parent.path())
        .status()
        .unwrap();
    assert!(status.success());
    let (report, package) = packed(&tar);
    assert_eq!(report.name, "hi");
    assert!(package.lookup_path(b"cli.js").unwrap().is_some());
    assert!(package.lookup_path(b"package").unwrap().is_none());
    fs::create_dir(dir.path()).unwrap();
}

#[test]
fn long_names_both_ways() {
    let deep = format!("{}/{}/f", "a".repeat(150), "b".repeat(200));
    let dir = directory(&[
        ("package.json", 0o644, JSON),
        ("cli.js", 0o644, "#!/x\n"),
        (&deep, 0o600, "x"),
    ]);
    symlink("t".repeat(180), dir.path().join("link")).unwrap();
    for format in ["--format=gnu", "--format=posix"] {
        let tar = gnu_tar(dir.path(), &[format, "."]);
        let (_, package) = packed(&tar);
        assert_eq!(mode(&package, &deep), 0o600);
        let link = package.lookup_path(b"link").unwrap().unwrap();
        let entry = package.entry(link).unwrap();
        assert_eq!(entry.kind, EntryKind::Symlink);
        assert_eq!(entry.link_target.unwrap(), "t".repeat(180).as_bytes());
        fs::remove_file(tar).unwrap();
    }
}

#[test]
fn directories_are_made_searchable() {
    let dir = directory(&[
        ("package.json", 0o644, JSON),
        ("cli.js", 0o644, "#!/x\n"),
        ("lib/a.js", 0o644, "x"),
    ]);
    fs::set_permissions(dir.path().join("lib"), fs::Permissions::from_mode(0o644)).unwrap();
    let (_, package) = packed(dir.path());
    assert_eq!(mode(&package, "lib"), 0o755);
    fs::set_permissions(dir.path().join("lib"), fs::Permissions::from_mode(0o600)).unwrap();
    let (_, package) = packed(dir.path());
    assert_eq!(mode(&package, "lib"), 0o700);
}

#[test]
fn names_that_are_refused() {
    use tar::EntryType::{Fifo, Link, Regular, Symlink};
    let refuse = |members: &[(&str, tar::EntryType, &str)]| refused(raw_tar(members).path());
    let error = refuse(&[("/etc/x", Regular, "")]);
    assert!(
        matches!(&error, PackError::Absolute { entry } if entry == "/etc/x"),
        "{error}"
    );
    let error = refuse(&[("a/../../x", Regular, "")]);
    assert!(matches!(&error, PackError::DotDot { entry } if entry == "a/../../x"));
    let error = refuse(&[("l", Symlink, "../x")]);
    assert!(matches!(&error, PackError::LinkEscapes { entry, .. } if entry == "l"));
    let error = refuse(&[("l", Symlink, "/etc/passwd")]);
    assert!(matches!(&error, PackError::LinkEscapes { target, .. } if target == "/etc/passwd"));
    let error = refuse(&[("b", Link, "a"), ("a", Regular, "x")]);
    assert!(matches!(&error, PackError::HardLink { entry, .. } if entry == "b"));
    let error = refuse(&[("bin/run", Regular, "1"), ("./bin//run", Regular, "2")]);
    assert!(matches!(&error, PackError::Duplicate { entry } if entry == "bin/run"));
    let error = refuse(&[("a", Regular, "1"), ("a/b", Regular, "2")]);
    assert!(matches!(&error, PackError::ParentNotDirectory { parent, .. } if parent == "a"));
    let error = refuse(&[("l", Symlink, "package.json"), ("l/b", Regular, "2")]);
    assert!(matches!(&error, PackError::ParentNotDirectory { entry, .. } if entry == "l/b"));
    let error = refuse(&[("p", Fifo, "")]);
    assert!(matches!(&error, PackError::Unsupported { entry, .. } if entry == "p"));
    let error = refuse(&[("build/Release/x.node", Regular, "\x7fELF")]);
    assert!(matches!(&error, PackError::NativeModule { entry } if entry == "build/Release/x.node"));
    // Every one of them names its entry.
    assert!(error.to_string().contains("build/Release/x.node"));
}

#[test]
fn native_modules_can_be_dropped() {
    let tar = raw_tar(&[
        ("build/x.node", tar::EntryType::Regular, "1"),
        ("y", tar::EntryType::Regular, "2"),
    ]);
    let options = PackOptions {
        drop_native: true,
        ..PackOptions::default()
    };
    let (report, package) = try_pack(tar.path(), &options).unwrap();
    assert_eq!(report.dropped, ["build/x.node"]);
    assert!(package.lookup_path(b"build/x.node").unwrap().is_none());
    let id = package.lookup_path(b"y").unwrap().unwrap();
    package
        .with_content(id, |bytes| assert_eq!(bytes, b"2"))
        .unwrap();
}

#[test]
fn commands_that_are_refused() {
    let with_bin = |bin: &str| {
        let json = format!(r#"{{"name": "p", "version": "1", "bin": {bin}}}"#);
        directory(&[
            ("package.json", 0o644, &json),
            ("cli.js", 0o644, "#!/x\n"),
            ("lib/x", 0o644, "x"),
        ])
    };
    for (bin, wrong) in [
        (r#"{"a/b": "cli.js"}"#, "a/b"),
        (r#"{"..": "cli.js"}"#, ".."),
        (r#"{"": "cli.js"}"#, ""),
        (r#"{"a\nb": "cli.js"}"#, "a\nb"),
        (r#"{"a\u0000": "cli.js"}"#, "a\0"),
    ] {
        let dir = with_bin(bin);
        let error = refused(dir.path());
        assert!(
            matches!(&error, PackError::CommandName { command, .. } if command == wrong),
            "{error}"
        );
    }
    let long = format!(r#"{{"{}": "cli.js"}}"#, "x".repeat(256));
    assert!(matches!(
        refused(with_bin(&long).path()),
        PackError::CommandName { .. }
    ));
    for bin in [
        r#"{"hi": "missing.js"}"#,
        r#"{"hi": "lib"}"#,
        r#"{"hi": "../cli.js"}"#,
        r#"{"hi": "/etc/passwd"}"#,
        r#""nothing.js""#,
    ] {
        let error = refused(with_bin(bin).path());
        assert!(matches!(error, PackError::BinMissing { .. }), "{error}");
    }
    for bin in ["5", r#"["cli.js"]"#, r#"{"hi": 5}"#] {
        let error = refused(with_bin(bin).path());
        assert!(matches!(error, PackError::BadJson { .. }), "{error}");
    }
    for bin in [
        r#"{"-rf": "cli.js"}"#,
        r#"{"ünï": "./cli.js"}"#,
        r#""cli.js""#,
        "{}",
        "null",
    ] {
        packed(with_bin(bin).path());
    }
}

#[test]
fn warnings() {
    let json = r#"{"name": "p", "version": "1", "bin": {"crlf": "a", "none": "b", "wasm": "c", "node": "d"}}"#;
    let dir = directory(&[
        ("package.json", 0o644, json),
        ("a", 0o644, "#!/usr/bin/env node\r\nconsole.log(1)\r\n"),
        ("b", 0o644, "console.log(1)\n"),
        ("c", 0o644, "\0asm\x01\0\0\0"),
        ("d", 0o644, "\0aosnode\n"),
    ]);
    let expected = [
        PackWarning::CrLfShebang {
            command: "crlf".into(),
            entry: "a".into(),
        },
        PackWarning::NoHeader {
            command: "none".into(),
            entry: "b".into(),
        },
    ];
    let (report, _) = packed(dir.path());
    assert_eq!(report.warnings, expected);
    let tar = gnu_tar(dir.path(), &["."]);
    assert_eq!(packed(&tar).0.warnings, expected);
    fs::remove_file(tar).unwrap();
}

#[test]
fn agentos_metadata() {
    let agentos = r#"{
        "name": "pi", "registry": {"title": "ignored"},
        "agent": {"acpEntrypoint": "hi", "snapshot": true, "env": {"A": "b"}},
        "provides": {"env": {"X": "y"}, "files": [{"source": "share/man", "target": "/usr/share/man"}]}
    }"#;
    let dir = directory(&[
        ("package.json", 0o644, JSON),
        ("agentos-package.json", 0o644, agentos),
        ("cli.js", 0o644, "#!/x\n"),
        ("dist/sdk-snapshot.js", 0o644, "x"),
        ("share/man/man1/hi.1", 0o644, ".TH"),
    ]);
    let (report, package) = packed(dir.path());
    assert_eq!(report.name, "pi");
    let manifest = package.manifest().unwrap();
    let agent = manifest.agent.as_ref().unwrap();
    assert_eq!(agent.acp_entrypoint, "hi");
    assert_eq!(agent.env, BTreeMap::from([("A".into(), "b".into())]));
    assert_eq!(
        manifest.snapshot_bundle_path.as_deref(),
        Some("/dist/sdk-snapshot.js")
    );
    assert_eq!(manifest.man_pages[0].page, "hi.1");
    assert_eq!(
        manifest.provides.as_ref().unwrap().files[0].target,
        "/usr/share/man"
    );

    let options = PackOptions {
        write: WriteOptions {
            schema: Schema::V2,
            ..WriteOptions::default()
        },
        ..PackOptions::default()
    };
    let (report, package) = try_pack(dir.path(), &options).unwrap();
    assert_eq!(report.warnings, [PackWarning::AgentDropped]);
    assert_eq!(package.manifest().unwrap().agent, None);
    assert_eq!(package.schema(), Schema::V2);

    fs::remove_dir_all(dir.path().join("share")).unwrap();
    assert!(matches!(
        refused(dir.path()),
        PackError::ProvidesMissing { .. }
    ));
}

#[test]
fn inputs_that_are_no_packages() {
    let dir = directory(&[("readme", 0o644, "x")]);
    assert!(matches!(refused(dir.path()), PackError::NoPackageJson));
    assert!(matches!(
        refused(&dir.path().join("readme")),
        PackError::UnknownInput(_)
    ));
    assert!(matches!(
        refused(&dir.path().join("none")),
        PackError::Io { .. }
    ));
    let dir = directory(&[("package.json", 0o644, "{")]);
    assert!(matches!(refused(dir.path()), PackError::BadJson { .. }));
    let dir = directory(&[("package.json", 0o644, r#"{"name": "p"}"#)]);
    assert!(matches!(refused(dir.path()), PackError::Missing("version")));
    let dir = directory(&[("package.json", 0o644, r#"{"name": "..", "version": "1"}"#)]);
    assert!(matches!(refused(dir.path()), PackError::Name { .. }));
    let socket = hello();
    let _listener = std::os::unix::net::UnixListener::bind(socket.path().join("s")).unwrap();
    assert!(matches!(
        refused(socket.path()),
        PackError::Unsupported { entry, .. } if entry == "s"
    ));
}

#[test]
fn archives_that_are_damaged() {
    let dir = hello();
    let tar = gnu_tar(dir.path(), &["."]);
    let bytes = fs::read(&tar).unwrap();
    let cut = tempfile::NamedTempFile::new().unwrap();
    fs::write(cut.path(), &bytes[..700]).unwrap();
    assert!(matches!(refused(cut.path()), PackError::BadArchive { .. }));
    let mut flipped = bytes;
    flipped[512 + 10] ^= 1;
    fs::write(cut.path(), &flipped).unwrap();
    assert!(matches!(refused(cut.path()), PackError::BadArchive { .. }));
    Command::new("gzip").arg("-f").arg(&tar).status().unwrap();
    let gz = tar.with_extension("tar.gz");
    let mut bytes = fs::read(&gz).unwrap();
    let last = bytes.len() - 6;
    bytes[last] ^= 1;
    fs::write(cut.path(), &bytes).unwrap();
    assert!(
        matches!(refused(cut.path()), PackError::BadArchive { .. }),
        "wrong checksum"
    );
    fs::remove_file(gz).unwrap();
}

#[test]
fn a_pnpm_layout_is_packed_as_it_is() {
    let dir = hello();
    let store = dir.path().join("node_modules/.pnpm/dep@1/node_modules/dep");
    fs::create_dir_all(&store).unwrap();
    fs::write(store.join("index.js"), "x").unwrap();
    symlink(
        ".pnpm/dep@1/node_modules/dep",
        dir.path().join("node_modules/dep"),
    )
    .unwrap();
    fs::hard_link(store.join("index.js"), dir.path().join("hard")).unwrap();
    let (_, package) = packed(dir.path());
    let link = package.lookup_path(b"node_modules/dep").unwrap().unwrap();
    assert_eq!(package.entry(link).unwrap().kind, EntryKind::Symlink);
    let hard = package.lookup_path(b"hard").unwrap().unwrap();
    assert_eq!(package.entry(hard).unwrap().size, 1);
}
