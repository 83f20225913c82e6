//! `aos pack`, `inspect`, `ls`, `cat`, `verify`, `index` and `unpack` as a person uses them: what
//! they print, how they exit and what they say when something is wrong. The format itself is
//! tested in its own crate. `case_N` is case N of the field reports the project collects.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file with its directories.
    fn file(&self, name: &str, mode: u32, content: &[u8]) -> &Dir {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    /// A package directory `tool` with one command.
    fn tool(&self) -> &Dir {
        self.file(
            "tool/package.json",
            0o644,
            br#"{"name": "tool", "version": "1.2.3", "bin": {"hi": "cli.sh"}}"#,
        )
        .file("tool/cli.sh", 0o644, b"#!/bin/sh\necho hi\n")
        .file("tool/lib/data", 0o640, b"data\n")
    }

    fn aos(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_aos"))
            .args(words)
            .current_dir(self.0.path())
            .env("AOS_CACHE_DIR", self.path("cache"))
            .output()
            .unwrap()
    }

    /// Runs `aos` and insists on success; gives what it printed.
    fn ok(&self, words: &[&str]) -> String {
        let output = self.aos(words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `aos` and insists on failure with status 1; gives what it said.
    fn fails(&self, words: &[&str]) -> String {
        let output = self.aos(words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{words:?} printed something");
        assert!(stderr.starts_with("aos: "), "{stderr}");
        stderr
    }

    /// A tar of the given members: name, kind, mode, link name, content.
    fn tar(&self, name: &str, members: &[(&str, tar::EntryType, u32, &str, &[u8])]) -> &Dir {
        let mut tar = tar::Builder::new(fs::File::create(self.path(name)).unwrap());
        for &(path, kind, mode, link, content) in members {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(content.len() as u64);
            // The builder would refuse some of the names that are wanted here.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
            header.set_cksum();
            tar.append(&header, content).unwrap();
        }
        tar.finish().unwrap();
        self
    }
}

const JSON: &[u8] = br#"{"name": "t", "version": "1.0.0", "bin": {"run": "bin/run"}}"#;
const FILE: tar::EntryType = tar::EntryType::Regular;

#[test]
fn a_directory_is_packed_and_shows_what_it_holds() {
    let dir = Dir::new();
    dir.tool();
    let said = dir.ok(&["pack", "tool", "-o", "tool.aospkg"]);
    assert!(said.starts_with("tool 1.2.3: "), "{said}");
    let text = dir.ok(&["inspect", "tool.aospkg"]);
    assert!(
        text.contains("hi -> cli.sh") && text.contains("index in the package"),
        "{text}"
    );
    let json: Value = serde_json::from_str(&dir.ok(&["inspect", "--json", "tool.aospkg"])).unwrap();
    assert_eq!(json["name"], "tool");
    assert_eq!(json["version"], "1.2.3");
    assert_eq!(json["commands"][0]["command"], "hi");
    assert_eq!(json["entries"]["files"], 3);
    assert_eq!(
        dir.ok(&["ls", "tool.aospkg"]),
        "cli.sh\nlib\npackage.json\n"
    );
    assert_eq!(dir.ok(&["ls", "tool.aospkg", "/lib"]), "data\n");
    assert_eq!(
        dir.ok(&["cat", "tool.aospkg", "lib/data", "/cli.sh"]),
        "data\n#!/bin/sh\necho hi\n"
    );
}

#[test]
fn case_1_the_file_of_a_command_can_be_executed_and_no_other() {
    let dir = Dir::new();
    dir.tool();
    dir.ok(&["pack", "tool", "-o", "tool.aospkg"]);
    let list = dir.ok(&["ls", "-lR", "tool.aospkg"]);
    let line = |name: &str| list.lines().find(|l| l.ends_with(name)).unwrap().to_owned();
    assert!(line(" cli.sh").starts_with("-rwxr-xr-x"), "{list}");
    assert!(line(" lib/data").starts_with("-rw-r-----"), "{list}");
}

#[test]
fn case_2_and_4_modes_survive_and_directories_are_made_searchable() {
    let dir = Dir::new();
    dir.tar(
        "t.tar",
        &[
            ("package.json", FILE, 0o644, "", JSON),
            ("bin/run", FILE, 0o644, "", b"#!/bin/sh\n"),
            ("libexec/helper", FILE, 0o755, "", b"#!/bin/sh\n"),
            ("lib/", tar::EntryType::Directory, 0o644, "", b""),
            ("lib/a.js", FILE, 0o600, "", b""),
        ],
    );
    dir.ok(&["pack", "t.tar", "-o", "t.aospkg"]);
    let list = dir.ok(&["ls", "-lR", "t.aospkg"]);
    for (mode, name) in [
        ("-rwxr-xr-x", "libexec/helper"),
        ("-rw-------", "lib/a.js"),
        ("drwxr-xr-x", "lib"),
        ("-rwxr-xr-x", "bin/run"),
    ] {
        let found = list
            .lines()
            .any(|l| l.starts_with(mode) && l.ends_with(&format!(" {name}")));
        assert!(found, "{mode} {name} in\n{list}");
    }
}

#[test]
fn case_5_a_carriage_return_after_the_interpreter_is_warned_of() {
    let dir = Dir::new();
    dir.tool()
        .file("tool/cli.sh", 0o755, b"#!/bin/sh\r\necho hi\r\n");
    let output = dir.aos(&["pack", "tool", "-o", "t.aospkg"]);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("warning: command \"hi\"") && said.contains("CR LF"),
        "{said}"
    );
    assert!(
        dir.ok(&["cat", "t.aospkg", "cli.sh"])
            .starts_with("#!/bin/sh\r\n")
    );
    dir.file("tool/cli.sh", 0o755, b"echo hi\n");
    let output = dir.aos(&["pack", "tool", "-o", "t.aospkg"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("neither with `#!`"));
}

#[test]
fn case_7_8_and_others_what_no_two_readers_agree_on_is_refused_by_name() {
    let run = ("bin/run", FILE, 0o755, "", &b"#!/bin/sh\n"[..]);
    let json = ("package.json", FILE, 0o644, "", JSON);
    let link = tar::EntryType::Symlink;
    for (bad, names) in [
        (
            ("b", tar::EntryType::Link, 0o644, "bin/run", &b""[..]),
            ["hard link", "\"b\""],
        ),
        (
            ("bin/run", FILE, 0o755, "", &b"other"[..]),
            ["twice", "\"bin/run\""],
        ),
        (
            ("/etc/x", FILE, 0o644, "", &b""[..]),
            ["absolute", "\"/etc/x\""],
        ),
        (
            ("a/../../x", FILE, 0o644, "", &b""[..]),
            ["..", "\"a/../../x\""],
        ),
        (
            ("out", link, 0o777, "../../etc/passwd", &b""[..]),
            ["leads out", "\"out\""],
        ),
        (
            ("bin/run/x", FILE, 0o644, "", &b""[..]),
            ["not a directory", "\"bin/run/x\""],
        ),
        (
            ("null", tar::EntryType::Char, 0o644, "", &b""[..]),
            ["cannot be packed", "\"null\""],
        ),
    ] {
        let dir = Dir::new();
        dir.tar("t.tar", &[json, run, bad]);
        let said = dir.fails(&["pack", "t.tar", "-o", "t.aospkg"]);
        assert!(names.iter().all(|n| said.contains(n)), "{bad:?}: {said}");
        assert!(!dir.path("t.aospkg").exists());
    }
}

#[test]
fn case_19_a_native_module_is_refused_or_dropped_on_request() {
    let dir = Dir::new();
    dir.tool()
        .file("tool/build/Release/x.node", 0o755, b"\x7fELF");
    let said = dir.fails(&["pack", "tool", "-o", "t.aospkg"]);
    assert!(said.contains("build/Release/x.node"), "{said}");
    let output = dir.aos(&["pack", "--drop-native", "tool", "-o", "t.aospkg"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("left out: build/Release/x.node"));
    assert!(!dir.ok(&["ls", "-R", "t.aospkg"]).contains(".node"));
}

#[test]
fn case_161_command_names_keep_the_link_rules() {
    let long = "x".repeat(256);
    for (name, fine) in [
        ("../x", false),
        ("a/b", false),
        ("", false),
        (".", false),
        ("..", false),
        ("a\\n", false),
        (long.as_str(), false),
        ("ls\\u0000", false),
        (&long[..255], true),
        ("ünï", true),
        ("-rf", true),
    ] {
        let dir = Dir::new();
        let json = format!(r#"{{"name": "t", "version": "1.0.0", "bin": {{"{name}": "run"}}}}"#);
        dir.file("t/package.json", 0o644, json.as_bytes())
            .file("t/run", 0o755, b"#!/bin/sh\n");
        if fine {
            dir.ok(&["pack", "t", "-o", "t.aospkg"]);
        } else {
            assert!(
                dir.fails(&["pack", "t", "-o", "t.aospkg"])
                    .contains("command"),
                "{name}"
            );
        }
    }
}

#[test]
fn what_makes_no_package_is_told_apart() {
    let dir = Dir::new();
    assert!(
        dir.fails(&["pack", "nope", "-o", "t.aospkg"])
            .contains("No such file")
    );
    fs::create_dir(dir.path("empty")).unwrap();
    assert!(
        dir.fails(&["pack", "empty", "-o", "t.aospkg"])
            .contains("no package.json")
    );
    dir.file("text", 0o644, b"just text");
    assert!(
        dir.fails(&["pack", "text", "-o", "t.aospkg"])
            .contains("neither a directory nor a tar")
    );
    dir.file("bad/package.json", 0o644, b"{");
    assert!(
        dir.fails(&["pack", "bad", "-o", "t.aospkg"])
            .contains("package.json")
    );
    dir.file("gone/package.json", 0o644, JSON);
    assert!(
        dir.fails(&["pack", "gone", "-o", "t.aospkg"])
            .contains("\"bin/run\" is not a file")
    );
    dir.tool();
    assert!(
        dir.fails(&["pack", "tool", "-o", "no/such/t.aospkg"])
            .contains("No such file")
    );
}

#[test]
fn packing_twice_gives_the_same_bytes_and_an_npm_archive_packs_too() {
    let dir = Dir::new();
    dir.tool();
    dir.ok(&["pack", "tool", "-o", "a.aospkg"]);
    dir.ok(&["pack", "tool", "-o", "b.aospkg"]);
    assert!(fs::read(dir.path("a.aospkg")).unwrap() == fs::read(dir.path("b.aospkg")).unwrap());
    let packed = Command::new("tar")
        .args(["czf", "npm.tgz", "--transform", "s,^tool,package,", "tool"])
        .current_dir(dir.0.path())
        .status()
        .unwrap();
    assert!(packed.success());
    let said = dir.ok(&["pack", "--json", "npm.tgz", "-o", "npm.aospkg"]);
    let json: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(json["name"], "tool");
    assert_eq!(
        dir.ok(&["ls", "-R", "npm.aospkg"]),
        dir.ok(&["ls", "-R", "a.aospkg"])
    );
}

#[test]
fn both_schemas_and_packages_without_an_index_are_read() {
    let dir = Dir::new();
    dir.tool();
    for (options, schema, index) in [
        (&["--schema", "2"][..], 2, "in the package"),
        (&["--no-index"], 1, "in the cache"),
        (&["--schema", "2", "--no-index"], 2, "in the cache"),
    ] {
        let words = [&["pack", "tool", "-o", "t.aospkg"], options].concat();
        dir.ok(&words);
        let json: Value =
            serde_json::from_str(&dir.ok(&["inspect", "--json", "t.aospkg"])).unwrap();
        assert_eq!(
            (json["schema"].as_u64(), json["index"].as_str()),
            (Some(schema), Some(index))
        );
        assert_eq!(dir.ok(&["cat", "t.aospkg", "lib/data"]), "data\n");
    }
}

#[test]
fn an_index_is_added_once_and_changes_no_file() {
    let dir = Dir::new();
    dir.tool();
    dir.ok(&["pack", "--no-index", "tool", "-o", "t.aospkg"]);
    let before = fs::read(dir.path("t.aospkg")).unwrap();
    dir.ok(&["index", "t.aospkg"]);
    let after = fs::read(dir.path("t.aospkg")).unwrap();
    assert!(after.starts_with(&before) && after.len() > before.len());
    assert!(
        dir.ok(&["inspect", "t.aospkg"])
            .contains("index in the package")
    );
    dir.ok(&["index", "t.aospkg"]);
    assert!(fs::read(dir.path("t.aospkg")).unwrap() == after);
    dir.ok(&["pack", "tool", "--no-index", "-o", "u.aospkg"]);
    dir.ok(&["index", "u.aospkg", "-o", "v.aospkg"]);
    assert!(fs::read(dir.path("u.aospkg")).unwrap() == before);
    assert!(fs::read(dir.path("v.aospkg")).unwrap() == after);
}

#[test]
fn case_17_a_flipped_byte_is_found_and_named() {
    let dir = Dir::new();
    dir.tool();
    dir.ok(&["pack", "tool", "-o", "t.aospkg"]);
    let said = dir.ok(&["verify", "t.aospkg"]);
    assert!(said.contains("tool 1.2.3"), "{said}");
    let good = fs::read(dir.path("t.aospkg")).unwrap();
    let at = good.windows(5).position(|w| w == b"data\n").unwrap();
    let mut bad = good.clone();
    bad[at] ^= 1;
    fs::write(dir.path("bad.aospkg"), &bad).unwrap();
    let said = dir.fails(&["verify", "bad.aospkg"]);
    assert!(said.contains("lib/data"), "{said}");
    // A damaged head is found at once, by every command.
    bad = good.clone();
    bad[0] ^= 1;
    fs::write(dir.path("bad.aospkg"), &bad).unwrap();
    assert!(dir.fails(&["ls", "bad.aospkg"]).contains("not a package"));
    fs::write(dir.path("cut.aospkg"), &good[..at]).unwrap();
    dir.fails(&["verify", "cut.aospkg"]);
}

#[test]
fn unpacking_gives_the_directory_back() {
    let dir = Dir::new();
    dir.tool();
    symlink("lib/data", dir.path("tool/link")).unwrap();
    dir.ok(&["pack", "tool", "-o", "t.aospkg"]);
    dir.ok(&["unpack", "t.aospkg", "out"]);
    assert_eq!(fs::read(dir.path("out/lib/data")).unwrap(), b"data\n");
    assert_eq!(
        fs::read_link(dir.path("out/link")).unwrap(),
        Path::new("lib/data")
    );
    let mode = |name: &str| fs::metadata(dir.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("out/cli.sh"), mode("out/lib/data")), (0o755, 0o640));
    dir.ok(&["pack", "out", "-o", "again.aospkg"]);
    assert_eq!(
        dir.ok(&["ls", "-R", "again.aospkg"]),
        dir.ok(&["ls", "-R", "t.aospkg"])
    );
    assert!(
        dir.fails(&["unpack", "t.aospkg", "out"])
            .contains("not an empty directory")
    );
}

#[test]
fn links_are_followed_inside_the_package_and_never_out_of_it() {
    let dir = Dir::new();
    dir.tool();
    symlink("lib", dir.path("tool/dirlink")).unwrap();
    symlink("loop", dir.path("tool/loop")).unwrap();
    dir.ok(&["pack", "tool", "-o", "t.aospkg"]);
    assert_eq!(dir.ok(&["cat", "t.aospkg", "dirlink/data"]), "data\n");
    assert_eq!(dir.ok(&["ls", "t.aospkg", "dirlink"]), "data\n");
    assert_eq!(dir.ok(&["cat", "t.aospkg", "/../../lib/./data"]), "data\n");
    assert!(
        dir.fails(&["cat", "t.aospkg", "loop"])
            .contains("symbolic links")
    );
    assert!(
        dir.fails(&["cat", "t.aospkg", "nope"])
            .contains("no such file")
    );
    assert!(
        dir.fails(&["cat", "t.aospkg", "cli.sh/x"])
            .contains("not a directory")
    );
    assert!(
        dir.fails(&["cat", "t.aospkg", "lib"])
            .contains("not a regular file")
    );
}

#[test]
fn a_wrong_command_line_is_status_two_and_a_closed_pipe_is_quiet() {
    let dir = Dir::new();
    for words in [
        &["frob"][..],
        &["pack"],
        &["ls"],
        &["pack", "x", "-o", "y", "--schema", "3"],
    ] {
        assert_eq!(dir.aos(words).status.code(), Some(2), "{words:?}");
    }
    for command in [
        "pack", "inspect", "ls", "cat", "verify", "index", "unpack", "run", "fetch",
    ] {
        assert!(
            dir.ok(&[command, "--help"]).contains("Example"),
            "{command}"
        );
    }
    for n in 0..3000 {
        dir.file(&format!("tool/many/{n:0100}"), 0o644, b"");
    }
    dir.tool();
    dir.ok(&["pack", "tool", "-o", "t.aospkg"]);
    let script = format!(
        "{} ls -R t.aospkg | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_aos")
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(dir.0.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "141\n");
    assert!(output.stderr.is_empty());
}
