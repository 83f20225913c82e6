//! Fetching packages, with an `npm` of our own making in front: what is downloaded, checked, kept
//! and said. The real registry is asked by `cargo xtask test` itself, before the tests.

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha512};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory with a fake `npm`, its registry, and a cache.
struct World {
    dir: tempfile::TempDir,
}

impl World {
    /// An `npm` that serves archives of `registry/` and answers `view` with their hashes.
    fn new() -> World {
        let world = World {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(world.path("bin")).unwrap();
        fs::create_dir(world.path("registry")).unwrap();
        world.npm(
            r#"name=$(echo "$2" | tr '/@' '__')
echo "$1 $2" >> "$REGISTRY/log"
case $1 in
pack) [ -f "$REGISTRY/$name.tgz" ] || { echo "npm error code E404" >&2
        echo "npm error 404 Not Found - GET $2" >&2; exit 1; }
      cp "$REGISTRY/$name.tgz" "$4/";;
view) cat "$REGISTRY/$name.hash";;
esac"#,
        );
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn npm(&self, script: &str) {
        let file = self.path("bin/npm");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Publishes an archive of the given members.
    fn publish(&self, spec: &str, members: &[(&str, &[u8])]) {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, content) in members {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, *content).unwrap();
        }
        let archive = tar.into_inner().unwrap().finish().unwrap();
        let hash = {
            use base64::Engine;
            base64::engine::general_purpose::STANDARD.encode(Sha512::digest(&archive))
        };
        let stem = spec.replace(['/', '@'], "_");
        fs::write(self.path(&format!("registry/{stem}.tgz")), archive).unwrap();
        fs::write(
            self.path(&format!("registry/{stem}.hash")),
            format!("sha512-{hash}\n"),
        )
        .unwrap();
    }

    fn fetch(&self, specs: &[&str]) -> Output {
        self.command(&format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .args(specs)
            .output()
            .unwrap()
    }

    fn command(&self, path: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aos"));
        command
            .arg("fetch")
            .env("PATH", path)
            .env("REGISTRY", self.path("registry"))
            .env("AOS_CACHE_DIR", self.path("cache"));
        command
    }

    /// What `npm` was asked.
    fn asked(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path("registry/log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Files in the cache that are not locks.
    fn kept(&self) -> Vec<String> {
        let mut names = Vec::new();
        for dir in ["cache/packages", "cache/npm"] {
            for entry in fs::read_dir(self.path(dir)).into_iter().flatten() {
                names.push(entry.unwrap().file_name().into_string().unwrap());
            }
        }
        names.retain(|name| !name.ends_with(".lock"));
        names.sort();
        names
    }
}

fn stdout(output: &Output) -> Vec<PathBuf> {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(PathBuf::from)
        .collect()
}

fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_package_is_fetched_once_and_then_nobody_is_asked() {
    let world = World::new();
    world.publish(
        "@x/tool@1.0.0",
        &[("package/dist/package.aospkg", b"content")],
    );
    let output = world.fetch(&["npm:@x/tool@1.0.0"]);
    let files = stdout(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("fetching @x/tool@1.0.0 with npm"));
    assert_eq!(fs::read(&files[0]).unwrap(), b"content");
    assert_eq!(world.asked(), ["pack @x/tool@1.0.0", "view @x/tool@1.0.0"]);

    // Not even an npm is needed any more.
    let again = world
        .command("/nonexistent")
        .arg("npm:@x/tool@1.0.0")
        .output()
        .unwrap();
    assert_eq!(stdout(&again), files);
    assert!(again.stderr.is_empty());
    assert_eq!(world.kept().len(), 2, "{:?}", world.kept());
    let mode = fs::metadata(world.path("cache"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_package_that_only_names_others_stands_for_them() {
    let world = World::new();
    let description = br#"{"dependencies": {"@x/a": "1.0.0", "@x/b": "2.0.0"}}"#;
    world.publish("@x/all@1.0.0", &[("package/package.json", description)]);
    world.publish("@x/a@1.0.0", &[("package/dist/package.aospkg", b"a")]);
    world.publish("@x/b@2.0.0", &[("package/dist/package.aospkg", b"b")]);
    let files = stdout(&world.fetch(&["npm:@x/all@1.0.0"]));
    let contents: Vec<_> = files.iter().map(|f| fs::read(f).unwrap()).collect();
    assert_eq!(contents, [b"a", b"b"]);
    assert_eq!(
        stdout(&world.fetch(&["npm:@x/all@1.0.0", "npm:@x/b@2.0.0"])).len(),
        3
    );
    assert_eq!(world.asked().len(), 6);
}

#[test]
fn a_lost_file_is_fetched_again() {
    let world = World::new();
    world.publish("tool@1.0.0", &[("package/dist/package.aospkg", b"content")]);
    let files = stdout(&world.fetch(&["npm:tool@1.0.0"]));
    fs::remove_file(&files[0]).unwrap();
    assert_eq!(stdout(&world.fetch(&["npm:tool@1.0.0"])), files);
    assert_eq!(fs::read(&files[0]).unwrap(), b"content");
}

#[test]
fn an_archive_with_another_hash_is_refused_and_nothing_of_it_kept() {
    let world = World::new();
    world.publish("tool@1.0.0", &[("package/dist/package.aospkg", b"content")]);
    fs::write(world.path("registry/tool_1.0.0.hash"), "sha512-AAAA\n").unwrap();
    let said = complaint(&world.fetch(&["npm:tool@1.0.0"]));
    assert!(
        said.contains("refused") && said.contains("sha512-AAAA"),
        "{said}"
    );
    assert_eq!(world.kept(), [""; 0]);
}

#[test]
fn a_pinned_package_is_checked_against_the_pin_whatever_the_registry_says() {
    let world = World::new();
    world.publish(
        "@agentos-software/sed@0.3.4",
        &[("package/dist/package.aospkg", b"forged")],
    );
    let said = complaint(&world.fetch(&["npm:@agentos-software/sed@0.3.4"]));
    assert!(
        said.contains("refused") && said.contains("sha512-J10nZnZm"),
        "{said}"
    );
    assert_eq!(world.asked(), ["pack @agentos-software/sed@0.3.4"]);
}

#[test]
fn every_way_to_fail_is_told_apart() {
    let world = World::new();
    let said = complaint(&world.fetch(&["npm:nope@1.0.0"]));
    assert!(
        said.contains("the npm registry has no nope@1.0.0"),
        "{said}"
    );

    let missing = world
        .command("/nonexistent")
        .arg("npm:nope@1.0.0")
        .output()
        .unwrap();
    let said = complaint(&missing);
    assert!(
        said.contains("npm, which would fetch it, is not installed"),
        "{said}"
    );

    world.npm(
        "echo 'npm error code ENOTFOUND' >&2; echo 'npm error request to x failed' >&2; exit 1",
    );
    let said = complaint(&world.fetch(&["npm:nope@1.0.0"]));
    assert!(
        said.contains("cannot be reached: request to x failed"),
        "{said}"
    );

    world.npm("echo 'npm error code ENOSPC' >&2; exit 1");
    assert!(complaint(&world.fetch(&["npm:nope@1.0.0"])).contains("no space left"));

    world.npm("echo 'npm error code EWEIRD' >&2; echo 'npm error how odd' >&2; exit 7");
    assert!(
        complaint(&world.fetch(&["npm:nope@1.0.0"]))
            .contains("could not fetch nope@1.0.0: how odd")
    );

    world.npm("exit 0");
    assert!(complaint(&world.fetch(&["npm:nope@1.0.0"])).contains("left no archive"));
    assert_eq!(world.kept(), [""; 0]);
}

#[test]
fn archives_without_software_and_circles_are_refused() {
    let world = World::new();
    world.publish("empty@1.0.0", &[("package/index.js", b"")]);
    assert!(complaint(&world.fetch(&["npm:empty@1.0.0"])).contains("holds no software"));
    world.publish(
        "a@1.0.0",
        &[(
            "package/package.json",
            br#"{"dependencies": {"b": "1.0.0"}}"#,
        )],
    );
    world.publish(
        "b@1.0.0",
        &[(
            "package/package.json",
            br#"{"dependencies": {"a": "1.0.0"}}"#,
        )],
    );
    assert!(complaint(&world.fetch(&["npm:a@1.0.0"])).contains("circle"));
    world.publish(
        "r@1.0.0",
        &[(
            "package/package.json",
            br#"{"dependencies": {"a": "^1.0.0"}}"#,
        )],
    );
    assert!(complaint(&world.fetch(&["npm:r@1.0.0"])).contains("must be exact"));
    let mut broken = fs::File::create(world.path("registry/broken_1.0.0.tgz")).unwrap();
    broken.write_all(b"no archive").unwrap();
    let hash = {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(Sha512::digest(b"no archive"))
    };
    fs::write(
        world.path("registry/broken_1.0.0.hash"),
        format!("sha512-{hash}"),
    )
    .unwrap();
    assert!(complaint(&world.fetch(&["npm:broken@1.0.0"])).contains("cannot be read"));
}

#[test]
fn names_that_npm_could_take_for_something_else_never_reach_it() {
    let world = World::new();
    for spec in [
        "npm:x",
        "npm:@1.0.0",
        "npm:x@",
        "npm:x@latest",
        "npm:x@^1.0.0",
        "npm:x@1",
        "npm:-x@1.0.0",
        "npm:../x@1.0.0",
        "npm:./x@1.0.0",
        "npm:@x@1.0.0",
        "npm:@x/@1.0.0",
        "npm:x y@1.0.0",
        "npm:file:/etc@1.0.0",
        "npm:https://x/y@1.0.0",
        "npm:x/y@1.0.0",
        "npm:x@1.0.0;id",
    ] {
        let output = world.fetch(&[spec]);
        assert_eq!(output.status.code(), Some(1), "{spec}");
    }
    assert_eq!(world.asked(), [""; 0]);
}

#[test]
fn runs_at_the_same_time_fetch_once() {
    let world = World::new();
    world.publish("tool@1.0.0", &[("package/dist/package.aospkg", b"content")]);
    let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
    let runs: Vec<_> = (0..6)
        .map(|_| {
            let mut command = world.command(&path);
            command
                .arg("npm:tool@1.0.0")
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for run in runs {
        assert_eq!(stdout(&run.wait_with_output().unwrap()).len(), 1);
    }
    assert_eq!(world.asked().len(), 2);
}

#[test]
fn a_full_disk_is_said_to_be_one() {
    let world = World::new();
    world.publish(
        "tool@1.0.0",
        &[("package/dist/package.aospkg", &[7; 100_000])],
    );
    // A file size limit cannot stand for it; a small file system can.
    let script = "mount -t tmpfs -o size=64k none \"$AOS_CACHE_DIR\" && exec \"$@\"";
    fs::create_dir(world.path("cache")).unwrap();
    let output = Command::new("unshare")
        .args([
            "-m",
            "sh",
            "-c",
            script,
            "sh",
            env!("CARGO_BIN_EXE_aos"),
            "fetch",
            "npm:tool@1.0.0",
        ])
        .env(
            "PATH",
            format!("{}:/usr/bin:/bin", world.path("bin").display()),
        )
        .env("REGISTRY", world.path("registry"))
        .env("AOS_CACHE_DIR", world.path("cache"))
        .output()
        .unwrap();
    let said = complaint(&output);
    assert!(
        said.contains("no space left on the disk to write"),
        "{said}"
    );
}

#[test]
fn the_cache_lies_where_the_environment_says() {
    let world = World::new();
    world.publish("tool@1.0.0", &[("package/dist/package.aospkg", b"content")]);
    let run = |name: &str, value: &Path| {
        let mut command = world.command(&format!("{}:/usr/bin:/bin", world.path("bin").display()));
        command
            .env_remove("AOS_CACHE_DIR")
            .env_remove("XDG_CACHE_HOME")
            .env(name, value);
        stdout(&command.arg("npm:tool@1.0.0").output().unwrap()).remove(0)
    };
    assert!(run("XDG_CACHE_HOME", &world.path("xdg")).starts_with(world.path("xdg/aos/packages")));
    assert!(run("HOME", &world.path("home")).starts_with(world.path("home/.cache/aos/packages")));
}
