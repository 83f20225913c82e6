//! What [`binfmt::resolve`] adds to what the host can tell: runtime files, descriptors closed on
//! exec, and which file an error is about.

use binfmt::{Handler, Header, MAX_REWRITES, Request, Resolved, resolve, runtime_file};
use std::collections::HashMap;
use vfs_core::errno::Errno;

fn files(files: &[(&str, &[u8])]) -> HashMap<Vec<u8>, Vec<u8>> {
    files
        .iter()
        .map(|(path, content)| (path.as_bytes().to_vec(), content.to_vec()))
        .collect()
}

fn run(
    files: &HashMap<Vec<u8>, Vec<u8>>,
    request: Request<'_>,
) -> Result<Resolved<()>, binfmt::ChainError> {
    resolve(request, |path| {
        files
            .get(path)
            .map(|c| ((), Header::new(c)))
            .ok_or(Errno::ENOENT)
    })
}

fn argv(arguments: &[&str]) -> Vec<Vec<u8>> {
    arguments.iter().map(|a| a.as_bytes().to_vec()).collect()
}

#[test]
fn env_runs_a_runtime_file() {
    let node = runtime_file("node").expect("a valid name");
    let files = files(&[
        ("/usr/bin/env", b"\0asm\x01\0\0\0"),
        ("/bin/node", &node),
        ("/bin/cli", b"#!/usr/bin/env node\nconsole.log(1)\n"),
    ]);
    let script = run(&files, Request::new(b"/bin/cli", argv(&["cli", "x"]))).expect("it resolves");
    assert_eq!(script.path, b"/usr/bin/env");
    assert_eq!(script.handler(), Handler::Wasm);
    assert_eq!(
        script.argv,
        argv(&["/usr/bin/env", "node", "/bin/cli", "x"])
    );
    assert_eq!(script.rewrites, 1);

    let runtime = run(
        &files,
        Request::new(b"/bin/node", argv(&["node", "/bin/cli"])),
    )
    .expect("it resolves");
    assert_eq!(runtime.handler(), Handler::Runtime("node"));
    assert_eq!(runtime.argv, argv(&["node", "/bin/cli"]));
    assert_eq!(runtime.rewrites, 0);
}

#[test]
fn a_script_that_its_interpreter_cannot_open() {
    let files = files(&[("/dev/fd/5", b"#!/bin/sh\n"), ("/bin/sh", b"\0asm")]);
    let closed = |path| {
        run(
            &files,
            Request::new(path, argv(&["x"])).path_inaccessible(true),
        )
    };
    assert_eq!(
        closed(b"/dev/fd/5").map_err(|e| e.errno),
        Err(Errno::ENOENT)
    );
    assert!(
        closed(b"/bin/sh").is_ok(),
        "a program is loaded from the descriptor itself"
    );
    assert!(run(&files, Request::new(b"/dev/fd/5", argv(&["x"]))).is_ok());
}

#[test]
fn errors_name_the_file_at_fault() {
    let files = files(&[
        ("/a", b"#!/b -x\n"),
        ("/b", b"#!/none\n"),
        ("/c", b"#!/text\n"),
        ("/text", b"text"),
        ("/loop", b"#!/loop\n"),
        ("/empty", b"#!"),
    ]);
    let error = |path: &str| {
        let error = run(&files, Request::new(path.as_bytes(), argv(&["x"]))).expect_err(path);
        (
            error.errno,
            String::from_utf8_lossy(&error.path).into_owned(),
            error.rewrites,
        )
    };
    assert_eq!(error("/gone"), (Errno::ENOENT, "/gone".into(), 0));
    assert_eq!(error("/a"), (Errno::ENOENT, "/none".into(), 2));
    assert_eq!(error("/c"), (Errno::ENOEXEC, "/text".into(), 1));
    assert_eq!(error("/text"), (Errno::ENOEXEC, "/text".into(), 0));
    assert_eq!(
        error("/loop"),
        (Errno::ELOOP, "/loop".into(), MAX_REWRITES + 1)
    );
    assert_eq!(error("/empty"), (Errno::EACCES, String::new(), 1));

    let missing = run(&files, Request::new(b"/a", argv(&["x"]))).expect_err("a missing file");
    assert_eq!(
        missing.to_string(),
        "interpreter /none: No such file or directory"
    );
    assert_eq!(Errno::from(missing), Errno::ENOENT);
}
