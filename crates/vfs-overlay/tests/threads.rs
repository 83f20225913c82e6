//! Many threads on one overlay: nothing hangs, nothing is lost, nothing appears twice.

mod machine;

use machine::{Layers, Machine, read_all, write_all};
use std::collections::BTreeSet;
use vfs_core::{Errno, OpenFlags};

const THREADS: usize = 8;
const ROUNDS: usize = 400;

/// Runs `f` in several threads at once, each with its number.
fn together(m: &Machine, f: impl Fn(&Machine, usize) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (m, f) = (m.as_user(0, 0), &f);
            scope.spawn(move || f(&m, thread));
        }
    });
}

#[test]
fn one_file_is_copied_up_once() {
    for _ in 0..20 {
        let layers = Layers::new(&[|m| {
            m.mkdir("d")?;
            m.mkdir("d/e")?;
            m.write("d/e/f", vec![b'.'; 300_000])
        }]);
        let m = layers.machine();
        together(&m, |m, thread| {
            let file = m
                .open("d/e/f", OpenFlags::WRONLY | OpenFlags::APPEND)
                .unwrap();
            write_all(&file, &[b'0' + thread as u8; 10]).unwrap();
        });
        let text = m.read("d/e/f").unwrap();
        assert_eq!(text.len(), 300_000 + 10 * THREADS);
        for thread in 0..THREADS {
            let part = [b'0' + thread as u8; 10];
            assert!(text.contains(std::str::from_utf8(&part).unwrap()));
        }
        assert_eq!(layers.upper.used_inodes(), 4);
    }
}

#[test]
fn readers_meet_whole_files_while_they_are_copied_up() {
    let m = Layers::new(&[|m| {
        (0..THREADS).try_for_each(|i| m.write(&format!("f{i}"), "x".repeat(100_000)))
    }])
    .machine();
    together(&m, |m, thread| {
        for i in 0..THREADS {
            let path = format!("f{}", (thread + i) % THREADS);
            if i == 0 {
                m.append(&path, "y").unwrap();
            } else {
                let text = read_all(&m.open(&path, OpenFlags::empty()).unwrap()).unwrap();
                assert!(
                    text.len() >= 100_000 && text.starts_with("xxx"),
                    "{}",
                    text.len()
                );
            }
        }
    });
}

#[test]
fn names_move_about_without_loss() {
    let layers = Layers::new(&[|m| {
        for dir in ["a", "b", "c"] {
            m.mkdir(dir)?;
            m.mkdir(&format!("{dir}/sub"))?;
            (0..20).try_for_each(|i| m.write(&format!("{dir}/{dir}{i}"), "low"))?;
        }
        Ok(())
    }]);
    let m = layers.machine();
    for thread in 0..THREADS {
        m.write(&format!("token{thread}"), "t").unwrap();
    }
    let dirs = [".", "a", "b", "c", "a/sub", "b/sub", "c/sub"];
    together(&m, |m, thread| {
        // Each thread moves a name of its own, and everybody disturbs everybody.
        let mut at = format!("token{thread}");
        for round in 0..ROUNDS {
            let dir = dirs[(round * 7 + thread * 3) % dirs.len()];
            let to = format!("{dir}/token{thread}");
            match m.rename(&at, &to) {
                Ok(()) => at = to,
                Err(Errno::ENOENT) => panic!("{at} is lost"),
                Err(error) => panic!("{error:?}"),
            }
            let low = format!("{0}/{0}{1}", ["a", "b", "c"][round % 3], round % 20);
            let _ = match round % 5 {
                0 => m.append(&low, "+"),
                1 => m.unlink(&low),
                2 => m.write(&low, "again"),
                3 => m.list(dir).map(drop),
                // Whatever file it names then, the name itself stays.
                _ => m.exchange(&low, &at),
            };
        }
    });
    for dir in dirs {
        let names = m.list(dir).unwrap();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for name in names {
            m.stat(&format!("{dir}/{name}")).unwrap();
        }
    }
}

#[test]
fn hard_links_are_made_and_removed_together() {
    let layers = Layers::new(&[|m| {
        m.mkdir("d")?;
        m.write("f", "x")?;
        (0..THREADS).try_for_each(|i| m.link("f", &format!("d/l{i}")))
    }]);
    let m = layers.machine();
    let ino = m.ino("f");
    together(&m, |m, thread| {
        let (lower, mine) = (format!("d/l{thread}"), format!("n{thread}"));
        for round in 0..ROUNDS {
            m.link("f", &mine).unwrap();
            if round == ROUNDS / 2 {
                m.append(&lower, "y").unwrap();
                m.unlink(&lower).unwrap();
            }
            assert_eq!(m.ino(&mine), ino);
            m.unlink(&mine).unwrap();
        }
    });
    let stat = m.stat("f").unwrap();
    assert_eq!(
        (stat.nlink, m.read("f").unwrap()),
        (1, "x".to_owned() + &"y".repeat(THREADS))
    );
    assert!(m.ls("d").is_empty());
}
