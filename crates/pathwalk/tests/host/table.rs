//! Searches with a known answer, which must hold for the host and for us; and the three in which
//! we differ from it on purpose.

use super::oracle::{Machine, Node, Outcome, Planted, Tree, show};
use libtest_mimic::{Failed, Trial};
use std::sync::Arc;
use vfs_core::Errno;

/// A user who is not root.
const USER: u32 = 1000;

/// Directories `a` and `b`; in both a command `x`, in `b` also `y`; and whatever stands in a way.
fn tree() -> Tree {
    let script = Node::Script(0o755, 0);
    [
        ("a", Node::Dir(0o755)),
        ("b", Node::Dir(0o755)),
        ("shut", Node::Dir(0o000)),
        ("unlisted", Node::Dir(0o711)),
        ("a/x", script.clone()),
        ("b/x", script.clone()),
        ("b/y", script.clone()),
        ("x", script.clone()),
        ("here", script.clone()),
        ("shut/x", script.clone()),
        ("shut/y", script.clone()),
        ("unlisted/only", script.clone()),
        ("file", Node::Script(0o644, 0)),
        ("a/plain", Node::Script(0o644, 0)),
        ("b/plain", script.clone()),
        ("a/private", Node::Script(0o700, 0)),
        ("a/mine", Node::Script(0o100, USER)),
        ("a/notmine", Node::Script(0o011, USER)),
        ("a/noread", Node::Script(0o111, USER)),
        ("a/y", Node::Dir(0o755)),
        ("a/dir", Node::Dir(0o755)),
        ("a/fifo", Node::Fifo),
        ("a/loop", Node::Link("loop")),
        ("b/loop", script.clone()),
        ("a/dangling", Node::Link("nowhere")),
        ("b/dangling", script.clone()),
        ("a/alias", Node::Link("../b/y")),
        ("circle", Node::Link("circle")),
        ("c", Node::Link("b")),
    ]
    .map(|(path, node)| (path.to_owned(), node))
    .to_vec()
}

/// A search: what is looked for, `$PATH` with `@` for the tree's own absolute path, and the result.
struct Row(&'static str, &'static str, Result<&'static str, Errno>);

const ROOT_AND_USER: &[Row] = &[
    Row("x", "a:b", Ok("a/x")),
    Row("x", "b:a", Ok("b/x")),
    Row("x", "@/b:a", Ok("@/b/x")),
    Row("x", "a/", Ok("a//x")),
    Row("x", ".", Ok("./x")),
    Row("y", "a:b", Ok("b/y")),
    Row("y", "a", Err(Errno::EACCES)),
    Row("y", "c", Ok("c/y")),
    Row("y", "none:file:b", Ok("b/y")),
    Row("here", "", Ok("here")),
    Row("here", ":a", Ok("here")),
    Row("here", "a:", Ok("here")),
    Row("here", "a::b", Ok("here")),
    Row("here", "a:b", Err(Errno::ENOENT)),
    Row("x", "none:", Ok("x")),
    Row("only", "unlisted", Ok("unlisted/only")),
    Row("plain", "a:b", Ok("b/plain")),
    Row("plain", "a", Err(Errno::EACCES)),
    Row("plain", "a:none", Err(Errno::EACCES)),
    Row("dir", "a:b", Err(Errno::EACCES)),
    Row("fifo", "a", Err(Errno::EACCES)),
    Row("alias", "a", Ok("a/alias")),
    Row("dangling", "a:b", Ok("b/dangling")),
    Row("dangling", "a", Err(Errno::ENOENT)),
    Row("loop", "a:b", Err(Errno::ELOOP)),
    Row("loop", "b:a", Ok("b/loop")),
    Row("x", "circle:a", Err(Errno::ELOOP)),
    Row("none", "a:b", Err(Errno::ENOENT)),
    Row("none", "a:file", Err(Errno::ENOTDIR)),
    Row("none", "file:a", Err(Errno::ENOENT)),
    Row("", "a", Err(Errno::ENOENT)),
    Row(".", "a", Err(Errno::EACCES)),
    Row("..", "a", Err(Errno::EACCES)),
    Row("a/x", "b", Ok("a/x")),
    Row("./x", "b", Ok("./x")),
    Row("@/a/x", "b", Ok("@/a/x")),
    Row("a/none", "b", Err(Errno::ENOENT)),
    Row("file/x", "b", Err(Errno::ENOTDIR)),
    Row("x/", "b", Err(Errno::ENOTDIR)),
    Row("a/", "b", Err(Errno::EACCES)),
    Row("a/dir", "b", Err(Errno::EACCES)),
    Row("a/plain", "b", Err(Errno::EACCES)),
    Row("/", "b", Err(Errno::EACCES)),
    Row("mine", "a", Ok("a/mine")),
];

/// Rows that differ between the two.
const ROOT: &[Row] = &[
    Row("y", "shut:b", Ok("shut/y")),
    Row("private", "a", Ok("a/private")),
    Row("notmine", "a", Ok("a/notmine")),
];
const ORDINARY: &[Row] = &[
    Row("y", "shut:b", Ok("b/y")),
    Row("y", "shut", Err(Errno::EACCES)),
    Row("none", "shut:a", Err(Errno::EACCES)),
    Row("private", "a", Err(Errno::EACCES)),
    Row("notmine", "a", Err(Errno::EACCES)),
];

fn check(planted: &Planted<'_>, row: &Row, uid: u32) -> Result<(), Failed> {
    let Row(command, path, expected) = row;
    let base = String::from_utf8_lossy(planted.base()).into_owned();
    let fill = |text: &str| text.replace('@', &base).into_bytes();
    let outcome = planted
        .agree(&fill(command), Some(&fill(path)), uid)
        .map_err(|e| format!("{command:?} in {path:?}, {e}"))?;
    let expected: Outcome = expected.map(fill);
    if outcome != expected {
        let (both, expected) = (show(&outcome), show(&expected));
        return Err(format!("{command:?} in {path:?}: both {both}, expected {expected}").into());
    }
    Ok(())
}

fn check_all(machine: &Machine, rows: &[&[Row]], uid: u32) -> Result<(), Failed> {
    let planted = machine.plant(&tree());
    rows.iter()
        .copied()
        .flatten()
        .try_for_each(|row| check(&planted, row, uid))
}

/// Lengths around the greatest name and the greatest path.
fn lengths(machine: &Machine) -> Result<(), Failed> {
    let planted = machine.plant(&tree());
    let agree = |what: String, command: &[u8], path: Option<&[u8]>| {
        planted
            .agree(command, path, USER)
            .map(drop)
            .map_err(|e| format!("{what}: {e}"))
    };
    let dots = |len: usize| [&b"./".repeat(len / 2)[..], &b"."[..len % 2]].concat();
    for len in [254, 255, 256, 257, 300, 5000] {
        let name = b"z".repeat(len);
        agree(format!("name of {len}"), &name, Some(b"a:b"))?;
        agree(format!("name of {len} in nothing"), &name, Some(b"none:b"))?;
        agree(
            format!("name of {len} in a path"),
            &[b"./", &name[..]].concat(),
            Some(b"a"),
        )?;
    }
    for len in 4085..=4095 {
        let dots = dots(len);
        agree(
            format!("element of {len} first"),
            b"x",
            Some(&[&dots[..], b":a"].concat()),
        )?;
        agree(
            format!("element of {len} last"),
            b"x",
            Some(&[b"none:", &dots[..]].concat()),
        )?;
        agree(format!("path of {len}"), &[&dots[..], b"/x"].concat(), None)?;
    }
    Ok(())
}

/// `$PATH` not set at all: the default list stands in for it.
fn unset(machine: &Machine) -> Result<(), Failed> {
    let planted = machine.plant(&tree());
    let outcome = planted.agree(b"here", None, USER)?;
    assert_eq!(
        outcome,
        Err(Errno::ENOENT),
        "the working directory is not in the default"
    );
    Ok(())
}

/// Where glibc's answer is not wanted: what it says, and what we say.
fn differences(machine: &Machine) -> Result<(), Failed> {
    let mut tree = tree();
    tree.extend([
        ("a/orphan".to_owned(), Node::Text("#!/nowhere/at/all\n")),
        ("b/orphan".to_owned(), Node::Script(0o755, 0)),
        (
            "a/headerless".to_owned(),
            Node::Text("printf '%s' \"$0\"\n"),
        ),
    ]);
    let planted = machine.plant(&tree);
    let ask = |command: &[u8], path: &[u8]| {
        (
            planted.host(command, Some(path), USER),
            planted.ours(command, Some(path), USER),
        )
    };
    let found = |path: &[u8]| Outcome::Ok(path.to_vec());

    // The missing interpreter's ENOENT makes glibc search on. Here the first executable file is
    // what the command means, and running it then fails.
    assert_eq!(
        ask(b"orphan", b"a:b"),
        (found(b"b/orphan"), found(b"a/orphan"))
    );
    assert_eq!(
        ask(b"orphan", b"a"),
        (Err(Errno::ENOENT), found(b"a/orphan"))
    );

    // glibc hands a file of no known format to /bin/sh. Here that is left to shells; the file is
    // found, and the exec of it fails with ENOEXEC.
    assert_eq!(
        ask(b"headerless", b"a"),
        (found(b"a/headerless"), found(b"a/headerless"))
    );

    // An element too long to be part of any path leads glibc 2.36 into the working directory.
    let long = [&b"z".repeat(5000)[..], b":b"].concat();
    assert_eq!(ask(b"here", &long), (found(b"here"), Err(Errno::ENOENT)));
    assert_eq!(ask(b"y", &long), (found(b"b/y"), found(b"b/y")));
    assert_eq!(
        planted.ours(b"y", Some(&b"z".repeat(5000)), USER),
        Err(Errno::ENAMETOOLONG)
    );
    Ok(())
}

/// All rows.
pub(crate) fn trials(machine: &Arc<Machine>) -> Vec<Trial> {
    let trial = |name: &str, test: fn(&Machine) -> Result<(), Failed>| {
        let machine = machine.clone();
        Trial::test(name, move || test(&machine))
    };
    vec![
        trial("as root", |m| {
            if m.is_root() {
                check_all(m, &[ROOT_AND_USER, ROOT], 0)
            } else {
                Ok(())
            }
        }),
        trial("as a user", |m| {
            if m.is_root() {
                check_all(m, &[ROOT_AND_USER, ORDINARY], USER)
            } else {
                Ok(())
            }
        }),
        trial("lengths", lengths),
        trial("unset", unset),
        trial("wanted differences", differences),
    ]
}
