//! What must hold for any bytes. Shared by the fuzz target and the test that replays its corpus.

use binfmt::{HEADER_SIZE, Handler, Header, MAX_REWRITES, Request, parse, resolve, runtime_file};
use vfs_core::errno::Errno;

/// Panics if `bytes` as a header break an invariant.
pub(crate) fn check(bytes: &[u8]) {
    let parsed = parse(bytes);
    assert_eq!(
        Header::new(bytes).parse(),
        parsed,
        "a copied header says the same"
    );
    let mut padded = bytes[..bytes.len().min(HEADER_SIZE)].to_vec();
    padded.resize(HEADER_SIZE, 0);
    assert_eq!(
        parse(&padded),
        parsed,
        "a short file is one padded with zeros"
    );
    match parsed {
        Err(errno) => assert_eq!(errno, Errno::ENOEXEC),
        Ok(Handler::Script {
            interpreter,
            argument,
        }) => {
            let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | 0);
            assert!(bytes.starts_with(b"#!"));
            assert!(interpreter.len() <= HEADER_SIZE - 3 && !interpreter.iter().any(blank));
            assert!(!argument.is_some_and(|a| a.iter().any(|b| matches!(b, b'\n' | 0))));
        }
        Ok(Handler::Wasm) => assert!(bytes.starts_with(b"\0asm")),
        Ok(Handler::Runtime(name)) => {
            let file = runtime_file(name).expect("a parsed name is a valid one");
            assert!(bytes.starts_with(&file));
        }
    }
    // Every file has this header, so a script leads to scripts until the bound stops it.
    let mut opened = 0;
    let resolved = resolve(Request::new(b"start", Vec::new()), |_| {
        opened += 1;
        Ok(((), Header::new(bytes)))
    });
    assert!(opened <= MAX_REWRITES + 2);
    match (parsed, resolved) {
        (Ok(Handler::Script { interpreter, .. }), Err(error)) => {
            let empty = interpreter.is_empty();
            assert_eq!(
                error.errno,
                if empty { Errno::EACCES } else { Errno::ELOOP }
            );
        }
        (Ok(handler), Ok(resolved)) => assert_eq!(resolved.handler(), handler),
        (Err(errno), Err(error)) => assert_eq!(error.errno, errno),
        (parsed, resolved) => panic!("{parsed:?} but {resolved:?}"),
    }
}
