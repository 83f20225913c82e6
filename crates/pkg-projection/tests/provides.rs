//! Files and environment that packages provide outside their own directory.

mod support;

use pkg_projection::{Options, Projection, ProjectionError};
use support::{Recipe, Vm};
use vfs_core::{Errno, FileType};

#[test]
fn files_and_directories() {
    let recipe = Recipe::new("p", "1")
        .file("etc/p.conf", 0o640, "conf")
        .file("share/man/man1/p.1", 0o644, "page")
        .file("share/man/man5/p.5", 0o644, "page")
        .dir("share/man", 0o775)
        .provides("etc/p.conf", "/etc/p.conf")
        .provides("share/man", "/usr/share/man/")
        .provides("./etc/p.conf", "/p")
        .provides("/", "/srv/all");
    let vm = Vm::new(&[recipe]);
    assert_eq!(vm.warnings, [""; 0]);
    assert_eq!(vm.lstat("/etc/p.conf").unwrap().mode, 0o100640);
    assert_eq!(vm.lstat("/etc").unwrap().mode, 0o040755);
    assert_eq!(vm.lstat("/usr/share/man").unwrap().mode, 0o040775);
    assert_eq!(vm.cat("/usr/share/man/man5/p.5").as_deref(), Ok("page"));
    assert_eq!(vm.ls("/srv/all").unwrap(), ["etc", "share"]);
    assert_eq!(vm.ls("/").unwrap(), ["etc", "opt", "p", "srv", "usr"]);
    let there = vm.stat("/opt/agentos/pkgs/p/1/etc/p.conf").unwrap();
    assert_eq!(
        vm.stat("/etc/p.conf"),
        Ok(there),
        "the same file, as under a bind mount"
    );
    vm.walk("");
}

#[test]
fn directories_are_merged_and_files_are_not() {
    let list = [
        Recipe::new("a", "1")
            .file("m/1/x", 0o644, "a")
            .file("m/only-a", 0o644, "a")
            .file("m/file-in-a", 0o644, "a")
            .file("m/dir-in-a/x", 0o644, "a")
            .provides("m", "/usr/m"),
        Recipe::new("b", "1")
            .file("m/1/x", 0o644, "b")
            .file("m/1/y", 0o644, "b")
            .file("m/file-in-a/x", 0o644, "b")
            .file("m/dir-in-a", 0o644, "b")
            .provides("m", "/usr/m"),
        // One directory further up, so that the two meet below.
        Recipe::new("c", "1")
            .file("u/m/1/z", 0o644, "c")
            .file("u/m/only-a", 0o644, "c")
            .file("u/n", 0o644, "c")
            .provides("u", "/usr"),
        Recipe::new("d", "1")
            .file("m/2/z", 0o644, "d")
            .file("m/1/z", 0o644, "d")
            .provides("m", "/usr/m"),
    ];
    let vm = Vm::new(&list);
    assert_eq!(vm.ls("/usr").unwrap(), ["m", "n"]);
    assert_eq!(
        vm.ls("/usr/m").unwrap(),
        ["1", "2", "dir-in-a", "file-in-a", "only-a"]
    );
    assert_eq!(vm.ls("/usr/m/1").unwrap(), ["x", "y", "z"]);
    let cat = |path: &str| vm.cat(&format!("/usr/m/{path}")).unwrap();
    let files = [
        "1/x",
        "1/y",
        "1/z",
        "2/z",
        "only-a",
        "file-in-a",
        "dir-in-a/x",
    ];
    assert_eq!(files.map(cat), ["a", "b", "c", "d", "a", "a", "a"]);
    assert_eq!(vm.ls("/usr/m/dir-in-a").unwrap(), ["x"]);
    assert_eq!(
        vm.warnings, [""; 0],
        "what lies inside directories is merged without a word"
    );
    vm.walk("");
}

#[test]
fn the_first_package_wins_a_target() {
    let a = Recipe::new("a", "1")
        .file("f", 0o644, "a")
        .file("d/f", 0o644, "a")
        .file("d/sub/f", 0o644, "a")
        .provides("f", "/etc/f")
        .provides("d", "/srv");
    let b = Recipe::new("b", "1")
        .file("f", 0o644, "b")
        .file("d/f", 0o644, "b")
        .provides("f", "/etc/f")
        .provides("d", "/etc/f")
        .provides("f", "/etc/f/below")
        .provides("f", "/etc")
        .provides("f", "/srv/f")
        .provides("f", "/srv/f/below")
        .provides("d", "/srv/f")
        .provides("f", "/srv/sub")
        .provides("f", "/srv/sub/g")
        .provides("f", "/srv/own");
    let vm = Vm::new(&[a, b]);
    let lost = [
        "/etc/f",
        "/etc/f",
        "/etc/f/below",
        "/etc",
        "/srv/f",
        "/srv/f/below",
        "/srv/f",
        "/srv/sub",
    ];
    let expected = lost.map(|target| format!("package b: {target} is hidden by package a"));
    assert_eq!(vm.warnings, expected);
    assert_eq!(vm.cat("/etc/f").as_deref(), Ok("a"));
    assert_eq!(vm.ls("/srv").unwrap(), ["f", "own", "sub"]);
    assert_eq!(
        ["/srv/f", "/srv/sub/f", "/srv/sub/g", "/srv/own"].map(|p| vm.cat(p).unwrap()),
        ["a", "a", "b", "b"]
    );
    vm.walk("");
}

#[test]
fn only_current_versions_provide() {
    let version = |v: &str| {
        Recipe::new("p", v)
            .file("f", 0o644, v)
            .provides("f", &format!("/{v}"))
            .env("V", v)
    };
    let vm = Vm::new(&[version("1"), version("2")]);
    assert_eq!(vm.ls("/").unwrap(), ["2", "opt"]);
    assert_eq!(vm.projection.env(), [("V".to_owned(), "2".to_owned())]);
}

#[test]
fn nothing_gets_into_the_tree_of_packages() {
    let recipe = Recipe::new("p", "1")
        .file("root/opt/agentos/bin/evil", 0o755, "")
        .file("root/opt/agentos/pkgs/p/1/evil", 0o755, "")
        .file("root/opt/agentos/evil", 0o755, "")
        .file("root/opt/other", 0o755, "")
        .provides("root", "/")
        .provides("root/opt", "/opt");
    let vm = Vm::new(&[recipe]);
    assert_eq!(vm.ls("/opt").unwrap(), ["agentos", "other"]);
    assert_eq!(vm.ls("/opt/agentos").unwrap(), ["bin", "pkgs"]);
    assert_eq!(vm.ls("/opt/agentos/bin").unwrap(), [""; 0]);
    assert_eq!(vm.ls("/opt/agentos/pkgs/p/1").unwrap(), ["root"]);
    vm.walk("");
}

#[test]
fn what_can_not_be_provided() {
    let refused = |source: &str, target: &str| {
        let recipe = Recipe::new("p", "1")
            .file("f", 0o644, "")
            .file("d/f", 0o644, "")
            .link("l", "f")
            .provides(source, target);
        match Projection::new(vec![recipe.open()], &Options::default()) {
            Err(ProjectionError::Provides { why, .. }) => why,
            other => panic!("{source} at {target}: {other:?}"),
        }
    };
    let long = "/x".repeat(2048);
    let long_name = format!("/{}", "x".repeat(256));
    for (source, target, why) in [
        ("none", "/x", "no such file"),
        ("../f", "/x", "no such file"),
        ("f/f", "/x", "no such file"),
        ("l", "/x", "symbolic link"),
        ("f", "x", "not absolute"),
        ("f", "", "not absolute"),
        ("f", "/", "root can't be a file"),
        ("f", "/a/../b", "`..`"),
        ("f", "/./b", "`..`"),
        ("f", "//b", "empty"),
        ("f", "/b//", "empty"),
        ("f", "/a\0b", "NUL"),
        ("f", &long, "too long"),
        ("f", &long_name, "longer than 255"),
        ("f", "/opt", "has a directory there"),
        ("f", "/opt/agentos", "has a directory there"),
        ("f", "/opt/agentos/bin/x", "nothing can be provided there"),
        ("d", "/opt/agentos/bin", "nothing can be provided there"),
        ("d", "/opt/agentos", "nothing can be provided there"),
        (
            "f",
            "/opt/agentos/pkgs/p/1/x",
            "nothing can be provided there",
        ),
    ] {
        let got = refused(source, target);
        assert!(got.contains(why), "{source:?} at {target:?}: {got}");
    }
}

#[test]
fn the_first_package_sets_a_variable() {
    let list = [
        Recipe::new("a", "1")
            .env("X", "a")
            .env("=", "bad")
            .env("", "bad"),
        Recipe::new("b", "1")
            .env("X", "b")
            .env("Y", "b")
            .env("N", "nul\0"),
    ];
    let vm = Vm::new(&list);
    let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    assert_eq!(vm.projection.env(), [pair("X", "a"), pair("Y", "b")]);
    assert_eq!(
        vm.warnings,
        [
            "package a: \"\" can't be an environment variable",
            "package a: \"=\" can't be an environment variable",
            "package b: \"N\" can't be an environment variable",
            "package b: variable X is already set by package a",
        ]
    );
}

#[test]
fn links_inside_provided_directories_stay_links() {
    let recipe = Recipe::new("p", "1")
        .link("d/l", "../x")
        .file("x", 0o644, "")
        .provides("d", "/srv");
    let vm = Vm::new(&[recipe]);
    assert_eq!(vm.lstat("/srv/l").unwrap().file_type(), FileType::Symlink);
    assert_eq!(vm.stat("/srv/l").err(), Some(Errno::ENOENT));
}
