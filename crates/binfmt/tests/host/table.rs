//! Rows with a known answer: the cases of the kernel's own selftest for `#!` lines, told anew, and
//! their neighbours. Each must hold for the host and for us.

use super::oracle::{Outcome, Place, show};
use libtest_mimic::{Failed, Trial};
use vfs_core::errno::Errno;

/// Arguments that arrive when a script called `./script` is executed with `argv` of `a0`, `a1`.
fn arrives(interpreter: &[u8], argument: Option<&[u8]>) -> Outcome {
    let parts = [Some(interpreter), argument, Some(b"./script"), Some(b"a1")];
    Ok(parts.into_iter().flatten().map(<[u8]>::to_vec).collect())
}

/// A trial that writes `script`, with an interpreter at `interpreter` if there is to be one.
fn row(
    name: &str,
    script: impl Into<Vec<u8>>,
    interpreter: Option<Vec<u8>>,
    expected: Outcome,
) -> Trial {
    let script = script.into();
    Trial::test(name, move || {
        let place = Place::new();
        if let Some(path) = &interpreter {
            place.interpreter(path);
        }
        place.file(b"script", &script, 0o755);
        check(&place, b"./script", &[b"a0", b"a1"], &expected)
    })
}

fn check(place: &Place, path: &[u8], argv: &[&[u8]], expected: &Outcome) -> Result<(), Failed> {
    let outcome = place.agree(path, argv)?;
    if outcome == *expected {
        return Ok(());
    }
    Err(format!("both: {}\nexpected: {}", show(&outcome), show(expected)).into())
}

/// A relative path of exactly `len` bytes that ends in `/perl`, no component longer than the
/// host allows.
fn long_path(len: usize) -> Vec<u8> {
    let mut path = b"./".to_vec();
    let fill = len - path.len() - b"/perl".len();
    path.extend((1..=fill).map(|n| if n % 250 == 0 { b'/' } else { b'A' }));
    path.extend_from_slice(b"/perl");
    path
}

/// A line of `size` bytes without its newline: `#!`, `leading`, a path as long as it takes,
/// `rest`.
fn sized(size: usize, leading: &[u8], rest: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let path = long_path(size - 2 - leading.len() - rest.len());
    ([b"#!", leading, &path, rest].concat(), path)
}

/// A row around [`sized`], followed by `newline` and, after one, more script.
fn sized_row(
    name: &str,
    size: usize,
    (leading, rest, newline): (&[u8], &[u8], &[u8]),
    expected: impl Fn(&[u8]) -> Outcome,
) -> Trial {
    let (mut script, path) = sized(size, leading, rest);
    script.extend_from_slice(newline);
    if !newline.is_empty() {
        script.extend_from_slice(b"echo not for this interpreter\n");
    }
    let expected = expected(&path);
    row(name, script, Some(path), expected)
}

/// All rows.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = selftest();
    trials.extend(lines());
    trials.extend(files());
    trials.extend(chains());
    trials.extend(arguments());
    trials
}

/// The 27 of the kernel's selftest.
fn selftest() -> Vec<Trial> {
    let refused = |_: &[u8]| Err(Errno::ENOEXEC);
    let plain = |path: &[u8]| arrives(path, None);
    let with_f = |path: &[u8]| arrives(path, Some(b"f"));
    let blanks = |n: usize| b" ".repeat(n);
    let (nl, no): (&[u8], &[u8]) = (b"\n", b"");
    let mut nix = b" ./nix/store/".to_vec();
    nix.extend_from_slice(&b"p".repeat(60));
    nix.extend_from_slice(b"/bin/perl");
    let nix_path = nix[1..].to_vec();
    let nix_argument = [&b"-I"[..], &b"/nix/store/perl5".repeat(30)].concat();
    let nix_script = [b"#!", &nix[..], b" ", &nix_argument, b"\necho\n"].concat();
    let nix_cut = 255 - 2 - nix.len() - 1;
    let nix_arrives = arrives(&nix_path, Some(&nix_argument[..nix_cut]));
    vec![
        sized_row("path far too long", 336, (b"", b"", nl), refused),
        sized_row("path fills the buffer", 256, (b"", b"", nl), refused),
        sized_row(
            "path fills the buffer after a blank",
            256,
            (b" ", b"", nl),
            refused,
        ),
        row(
            "blanks past the buffer",
            [b"#!", &blanks(325)[..], nl].concat(),
            None,
            refused(b""),
        ),
        sized_row(
            "blanks push the path out of the buffer",
            273,
            (&blanks(19), b"", nl),
            refused,
        ),
        // The name of the interpreter is empty here, and the kernel opens the working directory.
        row("nothing after #!", b"#!", None, Err(Errno::EACCES)),
        row(
            "blanks to the end of the file",
            [b"#!", &blanks(253)[..]].concat(),
            None,
            refused(b""),
        ),
        row(
            "newline first",
            [b"#!\n", &blanks(252)[..], nl].concat(),
            None,
            refused(b""),
        ),
        row(
            "long argument is cut",
            nix_script,
            Some(nix_path),
            nix_arrives,
        ),
        sized_row("255 bytes", 255, (b"", b"", nl), plain),
        sized_row("254 bytes", 254, (b"", b"", nl), plain),
        sized_row("256 bytes, blank last", 256, (b"", b" ", nl), plain),
        sized_row("256 bytes, argument last", 256, (b"", b" f", nl), plain),
        sized_row("255 bytes with argument", 255, (b"", b" f", nl), with_f),
        sized_row("255 bytes, no newline", 255, (b"", b"", no), plain),
        sized_row("128 bytes, no newline", 128, (b"", b"", no), plain),
        sized_row("255 bytes, blank last", 255, (b"", b" ", nl), plain),
        sized_row("255 bytes, blank first", 255, (b" ", b"", nl), plain),
        sized_row(
            "255 bytes, blank on both sides",
            255,
            (b" ", b" ", nl),
            plain,
        ),
        sized_row("254 bytes, no newline", 254, (b"", b"", no), plain),
        sized_row("254 bytes, blank last", 254, (b"", b" ", nl), plain),
        sized_row("254 bytes, blank first", 254, (b" ", b"", nl), plain),
        sized_row(
            "254 bytes, blank on both sides",
            254,
            (b" ", b" ", nl),
            plain,
        ),
        sized_row("129 bytes, no newline", 129, (b"", b"", no), plain),
        sized_row("128 bytes, blank last", 128, (b"", b" ", nl), plain),
        sized_row("128 bytes, blank first", 128, (b" ", b"", nl), plain),
        sized_row(
            "128 bytes, blank on both sides",
            128,
            (b" ", b" ", nl),
            plain,
        ),
    ]
}

/// What a line may hold.
fn lines() -> Vec<Trial> {
    let works = |name: &str, script: &[u8], argument: Option<&[u8]>| {
        row(name, script, Some(b"i".to_vec()), arrives(b"./i", argument))
    };
    let fails =
        |name: &str, script: &[u8], errno| row(name, script, Some(b"i".to_vec()), Err(errno));
    vec![
        works(
            "one argument, inner blanks kept",
            b"#!./i -a  b\t c\n",
            Some(b"-a  b\t c"),
        ),
        works(
            "blanks around the argument go",
            b"#! \t./i \t -a \t \n",
            Some(b"-a"),
        ),
        works(
            "carriage return after an argument stays",
            b"#!./i -a\r\n",
            Some(b"-a\r"),
        ),
        works(
            "other white space is no separator",
            b"#!./i \x0b\x0c-a\n",
            Some(b"\x0b\x0c-a"),
        ),
        works("NUL ends the path", b"#!./i\0 -a\n", None),
        works("NUL ends the argument", b"#!./i a\0b\n", Some(b"a")),
        works("NUL after a blank", b"#!./i \0b\n", Some(b"")),
        works("blank, then the end of the file", b"#!./i ", Some(b"")),
        works(
            "blanks after an argument, then the end",
            b"#!./i a \t",
            Some(b"a \t"),
        ),
        works("argument without a newline", b"#!./i a", Some(b"a")),
        works("only the first line counts", b"#!./i\n#!./j\n", None),
        works(
            "bytes of no encoding",
            b"#!./i \xff\xfe\n",
            Some(b"\xff\xfe"),
        ),
        works(
            "quotes mean nothing",
            b"#!./i \"a b\" 'c'\n",
            Some(b"\"a b\" 'c'"),
        ),
        fails(
            "carriage return belongs to the path",
            b"#!./i\r\n",
            Errno::ENOENT,
        ),
        fails(
            "two paths glued by other white space",
            b"#!./i\x0b-a\n",
            Errno::ENOENT,
        ),
        fails("NUL at once", b"#!\0./i\n", Errno::EACCES),
        fails("blank, then the end", b"#! ", Errno::EACCES),
        fails("blank, then NUL", b"#! \0./i\n", Errno::EACCES),
        fails("newline alone", b"#!\n", Errno::ENOEXEC),
        fails("blanks and a newline", b"#! \t \n./i\n", Errno::ENOEXEC),
        fails("one byte", b"#", Errno::ENOEXEC),
        fails("space before", b" #!./i\n", Errno::ENOEXEC),
        fails("space between", b"# !./i\n", Errno::ENOEXEC),
        fails("byte order mark", b"\xef\xbb\xbf#!./i\n", Errno::ENOEXEC),
        row(
            "243 bytes of argument after nine of path",
            [b"#!.///////i ", &b"x".repeat(400)[..], b"\n"].concat(),
            Some(b"i".to_vec()),
            arrives(b".///////i", Some(&b"x".repeat(243))),
        ),
        row(
            "a blank is the last byte that shows",
            [b"#!./i ", &b"x".repeat(248)[..], b" yyy\n"].concat(),
            Some(b"i".to_vec()),
            arrives(b"./i", Some(&b"x".repeat(248))),
        ),
        row(
            "newline in the last byte of the buffer",
            [b"#!./i ", &b"x".repeat(249)[..], b"\n"].concat(),
            Some(b"i".to_vec()),
            arrives(b"./i", Some(&b"x".repeat(249))),
        ),
        row(
            "newline just past the buffer",
            [b"#!./i ", &b"x".repeat(250)[..], b"\n"].concat(),
            Some(b"i".to_vec()),
            arrives(b"./i", Some(&b"x".repeat(249))),
        ),
    ]
}

/// What a file may be.
fn files() -> Vec<Trial> {
    let content = |name: &str, content: &'static [u8], mode, errno| {
        Trial::test(name, move || {
            let place = Place::new();
            place.file(b"script", content, mode);
            check(&place, b"./script", &[b"a0"], &Err(errno))
        })
    };
    vec![
        content("empty file", b"", 0o755, Errno::ENOEXEC),
        content("text", b"echo hello\n", 0o755, Errno::ENOEXEC),
        content("cut WebAssembly", b"\0as", 0o755, Errno::ENOEXEC),
        content("cut ELF", b"\x7fELF\x02\x01\x01", 0o755, Errno::ENOEXEC),
        content("PE", b"MZ\x90\0\x03\0\0\0", 0o755, Errno::ENOEXEC),
        content(
            "Mach-O",
            b"\xcf\xfa\xed\xfe\x07\0\0\x01",
            0o755,
            Errno::ENOEXEC,
        ),
        content("no execute bit", b"#!./i\n", 0o644, Errno::EACCES),
        content("missing interpreter", b"#!./none\n", 0o755, Errno::ENOENT),
        content(
            "interpreter below a file",
            b"#!./script/i\n",
            0o755,
            Errno::ENOTDIR,
        ),
        content(
            "interpreter is a directory",
            b"#!/tmp\n",
            0o755,
            Errno::EACCES,
        ),
        content(
            "interpreter is a device",
            b"#!/dev/null\n",
            0o755,
            Errno::EACCES,
        ),
        content(
            "interpreter is not searched for",
            b"#!sh\n",
            0o755,
            Errno::ENOENT,
        ),
        Trial::test(
            "relative interpreter starts at the working directory",
            || {
                let place = Place::new();
                place
                    .interpreter(b"i")
                    .directory(b"d")
                    .file(b"d/script", b"#!i -x\n", 0o755);
                let argv = [&b"i"[..], b"-x", b"d/script"].map(<[u8]>::to_vec).to_vec();
                check(&place, b"d/script", &[b"a0"], &Ok(argv))
            },
        ),
        Trial::test("interpreter without the execute bit", || {
            let place = Place::new();
            place
                .file(b"i", b"#!./j\n", 0o644)
                .file(b"script", b"#!./i\n", 0o755);
            check(&place, b"./script", &[b"a0"], &Err(Errno::EACCES))
        }),
        Trial::test("interpreter of no known format", || {
            let place = Place::new();
            place
                .file(b"i", b"text\n", 0o755)
                .file(b"script", b"#!./i\n", 0o755);
            check(&place, b"./script", &[b"a0"], &Err(Errno::ENOEXEC))
        }),
    ]
}

/// Scripts that lead to scripts.
fn chains() -> Vec<Trial> {
    let chain = |name: String, scripts: usize, last: &'static [u8], expected: Outcome| {
        Trial::test(name, move || {
            let place = Place::new();
            place.interpreter(b"i");
            for n in 1..=scripts {
                let next = if n == 1 {
                    last.to_vec()
                } else {
                    format!("./s{}", n - 1).into_bytes()
                };
                let line = [b"#!", &next[..], format!(" -{n}\n").as_bytes()].concat();
                place.file(format!("s{n}").as_bytes(), &line, 0o755);
            }
            check(
                &place,
                format!("./s{scripts}").as_bytes(),
                &[b"a0", b"a1"],
                &expected,
            )
        })
    };
    let arrives = |scripts: usize| -> Outcome {
        let mut argv = vec![b"./i".to_vec()];
        for n in 1..=scripts {
            argv.push(format!("-{n}").into_bytes());
            argv.push(format!("./s{n}").into_bytes());
        }
        argv.push(b"a1".to_vec());
        Ok(argv)
    };
    let mut trials: Vec<Trial> = (1..=5)
        .map(|n| chain(format!("{n} scripts"), n, b"./i", arrives(n)))
        .collect();
    trials.push(chain("6 scripts".into(), 6, b"./i", Err(Errno::ELOOP)));
    trials.push(chain("7 scripts".into(), 7, b"./i", Err(Errno::ELOOP)));
    let missing = Err(Errno::ENOENT);
    trials.push(chain(
        "missing after 5 scripts".into(),
        5,
        b"./none",
        missing.clone(),
    ));
    trials.push(chain(
        "missing after 6 scripts".into(),
        6,
        b"./none",
        missing,
    ));
    trials.push(chain(
        "missing after 7 scripts".into(),
        7,
        b"./none",
        Err(Errno::ELOOP),
    ));
    trials.push(chain("itself".into(), 1, b"./s1", Err(Errno::ELOOP)));
    trials
}

/// What the caller's arguments may be.
fn arguments() -> Vec<Trial> {
    let argv = |name: &str, argv: &'static [&'static [u8]], expected: &'static [&'static [u8]]| {
        Trial::test(name, move || {
            let place = Place::new();
            place.interpreter(b"i").file(b"script", b"#!./i\n", 0o755);
            let expected = Ok(expected.iter().map(|a| a.to_vec()).collect());
            let path: &[u8] = if expected == Ok(vec![Vec::new()]) {
                b"./i"
            } else {
                b"./script"
            };
            check(&place, path, argv, &expected)
        })
    };
    vec![
        argv("no arguments to a program", &[], &[b""]),
        argv("no arguments to a script", &[], &[b"./i", b"./script"]),
        argv("empty zeroth argument", &[b""], &[b"./i", b"./script"]),
        argv(
            "empty arguments are kept",
            &[b"", b"", b"x", b""],
            &[b"./i", b"./script", b"", b"x", b""],
        ),
    ]
}
