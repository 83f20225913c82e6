//! What an overlay knows beyond its upper layer survives in [`Marks`].

mod machine;

use machine::{Layers, Machine};
use vfs_core::Errno;
use vfs_overlay::{DirMarks, LinkMark, Marks, Origin};

fn tree(m: &Machine) -> vfs_core::Result<()> {
    for dir in ["keep", "gone", "opaque", "old", "old/sub"] {
        m.mkdir(dir)?;
        m.write(&format!("{dir}/f"), dir)?;
    }
    m.write("one", "linked")?;
    m.link("one", "keep/two")?;
    m.link("one", "keep/three")
}

#[test]
fn an_overlay_is_put_together_again() {
    let layers = Layers::new(&[tree]);
    let (marks, inos) = {
        let fs = layers.overlay(Marks::default());
        let m = Machine::new(fs.clone());
        m.remove_all("gone").unwrap();
        m.unlink("keep/f").unwrap();
        m.remove_all("opaque").unwrap();
        m.mkdir("opaque").unwrap();
        m.rename("old", "opaque/new").unwrap();
        m.append("opaque/new/sub/f", "+").unwrap();
        m.append("keep/two", "!").unwrap();
        m.unlink("keep/two").unwrap();
        let inos = ["one", "opaque/new", "opaque/new/sub/f"].map(|path| m.ino(path));
        (fs.export_marks().unwrap(), inos)
    };
    assert!(marks.dirs.iter().any(|dir| dir.origin == Origin::Opaque));
    assert!(
        marks
            .dirs
            .iter()
            .any(|dir| dir.origin == Origin::Moved(b"old".to_vec()))
    );
    let m = Machine::new(layers.overlay(marks));
    assert_eq!(m.ls("."), ["keep", "one", "opaque"]);
    assert_eq!(m.ls("keep"), ["three"]);
    assert_eq!(m.ls("opaque"), ["new"]);
    assert_eq!(m.ls("opaque/new"), ["f", "sub"]);
    assert_eq!(m.read("opaque/new/sub/f").unwrap(), "old/sub+");
    assert_eq!(
        ["one", "opaque/new", "opaque/new/sub/f"].map(|path| m.ino(path)),
        inos
    );
    for name in ["one", "keep/three"] {
        assert_eq!(
            (m.read(name).unwrap(), m.stat(name).unwrap().nlink),
            ("linked!".into(), 2)
        );
    }
    m.link("one", "keep/four").unwrap();
    m.append("keep/four", "?").unwrap();
    assert_eq!(m.read("keep/three").unwrap(), "linked!?");
    assert_eq!(m.ls("."), ["keep", "one", "opaque"]);
}

#[test]
fn nothing_changed_is_nothing_to_say() {
    let layers = Layers::new(&[tree]);
    let fs = layers.overlay(Marks::default());
    let m = Machine::new(fs.clone());
    m.write("new", "x").unwrap();
    m.mkdir("dir").unwrap();
    m.unlink("new").unwrap();
    m.rename("dir", "dir2").unwrap();
    let marks = fs.export_marks().unwrap();
    assert!(marks.dirs.is_empty() && marks.origins.is_empty() && marks.links.is_empty());
}

#[test]
fn marks_go_with_what_they_belong_to() {
    let layers = Layers::new(&[tree]);
    let fs = layers.overlay(Marks::default());
    let m = Machine::new(fs.clone());
    m.append("keep/f", "x").unwrap();
    m.append("keep/two", "x").unwrap();
    m.rename("keep", "kept").unwrap();
    m.remove_all("kept").unwrap();
    m.unlink("one").unwrap();
    // Only the whiteouts of the root are left.
    let marks = fs.export_marks().unwrap();
    let names: Vec<&[u8]> = marks
        .dirs
        .iter()
        .flat_map(|d| &d.whiteouts)
        .map(|n| &n[..])
        .collect();
    assert_eq!(names, [&b"keep"[..], b"one"]);
    assert!(marks.origins.is_empty() && marks.links.is_empty());
}

#[test]
fn marks_that_do_not_fit_are_refused() {
    let layers = Layers::new(&[tree]);
    let refused = |marks: Marks| {
        let options = vfs_overlay::OverlayOptions { marks };
        let upper = Some(layers.upper.clone() as _);
        vfs_overlay::OverlayFs::new(upper, layers.lowers.clone(), options)
            .is_err_and(|error| error == Errno::EINVAL)
    };
    let dir = |origin| DirMarks {
        ino: 9,
        origin,
        whiteouts: vec![],
    };
    for path in [
        &b"no/such"[..],
        b"one",
        b"keep/f",
        b"keep/f/x",
        b"",
        b"a/../keep",
    ] {
        let dirs = vec![dir(Origin::Moved(path.to_vec()))];
        assert!(
            refused(Marks {
                dirs,
                ..Marks::default()
            }),
            "{path:?}"
        );
    }
    for layer in [0, 2] {
        let mark = LinkMark {
            layer,
            ino: 3,
            upper: None,
            lower_links: 2,
            links: 1,
            parked: None,
        };
        assert!(refused(Marks {
            links: vec![mark],
            ..Marks::default()
        }));
    }
}
