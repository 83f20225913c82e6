//! Limits, names, and packages that contradict each other.

mod support;

use pkg_projection::{Options, Projection, ProjectionError, Warning};
use support::{Recipe, Vm};

fn project(recipes: &[Recipe], options: &Options) -> Result<Vec<Warning>, ProjectionError> {
    let packages = recipes.iter().map(Recipe::open).collect();
    Projection::new(packages, options).map(|(_, warnings)| warnings)
}

fn commands(name: &str, count: usize) -> Recipe {
    let recipe = Recipe::new(name, "1").file("f", 0o755, "");
    (0..count).fold(recipe, |r, n| r.command(&format!("{name}-{n}"), "f"))
}

#[test]
fn links_are_limited() {
    let options = |max_links| Options {
        max_links,
        ..Options::default()
    };
    // Nine commands, `current`, and a provided file.
    let list = [commands("p", 9).provides("f", "/f")];
    let used = 11;
    let near = |limit| Warning::NearLimit {
        name: "packages.links",
        limit,
        used,
    };
    assert_eq!(project(&list, &options(used)).unwrap(), [near(used)]);
    assert_eq!(
        project(&list, &options(13)).unwrap(),
        [near(13)],
        "four fifths"
    );
    assert_eq!(project(&list, &options(14)).unwrap(), []);
    let error = project(&list, &options(10)).unwrap_err();
    let expected = ("packages.links", 10, used);
    assert!(
        matches!(error, ProjectionError::Limit { name, limit, got } if (name, limit, got) == expected)
    );
    assert_eq!(
        error.to_string(),
        "11 are more than the limit packages.links allows (10)"
    );
    assert!(project(&[commands("p", 4096)], &Options::default()).is_err());
    // Versions that are not current link nothing.
    let old = commands("q", 1000);
    let new = Recipe::new("q", "2");
    assert_eq!(project(&[old, new], &options(10)).unwrap(), []);
}

#[test]
fn packages_are_limited() {
    let list: Vec<Recipe> = (0..5).map(|n| Recipe::new(&format!("p{n}"), "1")).collect();
    let options = |max_packages| Options {
        max_packages,
        ..Options::default()
    };
    let near = Warning::NearLimit {
        name: "packages.count",
        limit: 5,
        used: 5,
    };
    assert_eq!(
        project(&list, &options(5)).unwrap(),
        std::slice::from_ref(&near)
    );
    assert_eq!(
        near.to_string(),
        "5 of the 5 that the limit packages.count allows are used"
    );
    let error = project(&list, &options(4)).unwrap_err();
    assert!(matches!(
        error,
        ProjectionError::Limit {
            name: "packages.count",
            limit: 4,
            got: 5
        }
    ));
}

#[test]
fn names_become_directories() {
    let refused = |name: &str, version: &str| {
        let error = project(&[Recipe::new(name, version)], &Options::default());
        match error {
            Err(ProjectionError::Name { why, .. }) => why,
            other => panic!("{name:?} {version:?}: {other:?}"),
        }
    };
    assert!(refused("a\n", "1").contains("control character"));
    assert!(refused("a", "1\u{1b}").contains("control character"));
    assert!(refused("a", "current").contains("`current`"));
    assert!(project(&[Recipe::new("-rf", "1.0.0-ünï")], &Options::default()).is_ok());
    assert!(project(&[Recipe::new("bin", "1")], &Options::default()).is_ok());
    assert!(project(&[Recipe::new("current", "1")], &Options::default()).is_ok());
}

#[test]
fn one_version_twice() {
    let one = Recipe::new("p", "1").file("f", 0o644, "one");
    let two = Recipe::new("p", "1").file("f", 0o644, "two");
    let duplicate = Warning::Duplicate {
        name: "p".into(),
        version: "1".into(),
    };
    let options = Options::default();
    assert_eq!(
        project(&[one.clone(), one.clone()], &options).unwrap(),
        [duplicate]
    );
    let package = one.open();
    let vm = Vm::of(vec![package.clone(), package], &options);
    assert_eq!(vm.warnings, ["package p 1 is configured twice"]);
    assert_eq!(vm.projection.packages().count(), 1);
    let error = project(&[one.clone(), two], &options).unwrap_err();
    assert!(
        matches!(&error, ProjectionError::Conflict { .. }),
        "{error}"
    );

    // Configured again, a version is the last one.
    let other = Recipe::new("p", "2");
    let vm = Vm::new(&[one.clone(), other, one]);
    assert_eq!(
        vm.readlink("/opt/agentos/pkgs/p/current").as_deref(),
        Ok("1")
    );
}

#[test]
fn a_current_version_must_be_configured() {
    for (name, version) in [("p", "2"), ("q", "1")] {
        let mut options = Options::default();
        options.current.insert(name.into(), version.into());
        let error = project(&[Recipe::new("p", "1")], &options).unwrap_err();
        assert!(
            matches!(error, ProjectionError::NoSuchVersion { .. }),
            "{error}"
        );
    }
}

#[test]
fn many_hidden_commands_are_summed_up() {
    let twice = commands("p", 100);
    let mut other = Recipe::new("q", "1").file("f", 0o755, "");
    other = (0..100).fold(other, |r, n| r.command(&format!("p-{n}"), "f"));
    let warnings = project(&[twice, other], &Options::default()).unwrap();
    assert_eq!(warnings.len(), 1);
    let text = warnings[0].to_string();
    assert!(
        text.starts_with("package q: commands hidden by package p: p-0, p-1, "),
        "{text}"
    );
    assert!(text.ends_with(" and 84 more"), "{text}");
}
