//! Commands that several packages have.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Names kept of the commands that one package hides of another.
pub(crate) const NAMES_KEPT: usize = 16;

/// The commands of one package, as far as looking for collisions needs them.
pub(crate) trait Commands {
    /// Why they can't be read.
    type Error;
    /// How many there are.
    fn count(&self) -> u32;
    /// The name of one; `None` if it has no file, so that it is not linked.
    fn name(&self, index: u32) -> Result<Option<&[u8]>, Self::Error>;
    /// Whether one of this name is linked.
    fn has(&self, name: &[u8]) -> Result<bool, Self::Error>;
}

/// Commands of `loser` that `winner` hides; both are places in the list that was searched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Collision {
    pub(crate) winner: usize,
    pub(crate) loser: usize,
    /// The first [`NAMES_KEPT`] of them.
    pub(crate) commands: Vec<Vec<u8>>,
    pub(crate) total: usize,
}

/// What one package hides of another.
#[derive(Default)]
struct Hidden {
    names: Vec<Vec<u8>>,
    total: usize,
}

/// Finds all collisions in a list of packages, the first of which wins.
///
/// Goes through the commands of all packages but the largest, which is only asked; so one package
/// of very many commands beside ordinary ones costs no more than those.
pub(crate) fn find<C: Commands>(packages: &[C]) -> Result<Vec<Collision>, C::Error> {
    // The first of equally large ones: any will do, but the outcome must not depend on which.
    let largest = (0..packages.len())
        .rev()
        .max_by_key(|&at| packages[at].count());
    let mut first: FxHashMap<&[u8], usize> = FxHashMap::default();
    let mut found: BTreeMap<(usize, usize), Hidden> = BTreeMap::new();
    let mut note = |winner: usize, loser: usize, name: &[u8]| {
        let Hidden { names, total } = found.entry((winner, loser)).or_default();
        *total += 1;
        if names.len() < NAMES_KEPT {
            names.push(name.to_vec());
        }
    };
    for (at, package) in packages.iter().enumerate() {
        if Some(at) == largest {
            continue;
        }
        for index in 0..package.count() {
            let Some(name) = package.name(index)? else {
                continue;
            };
            let earlier = first.get(name).copied();
            if earlier.is_none() {
                first.insert(name, at);
            }
            let in_largest = match largest {
                Some(largest) if packages[largest].has(name)? => Some(largest),
                _ => None,
            };
            match (earlier, in_largest) {
                (Some(earlier), Some(large)) if large < at => note(earlier.min(large), at, name),
                (Some(earlier), _) => note(earlier, at, name),
                (None, Some(large)) => note(at.min(large), at.max(large), name),
                (None, None) => {}
            }
        }
    }
    let collision = |((winner, loser), Hidden { names, total })| Collision {
        winner,
        loser,
        commands: names,
        total,
    };
    Ok(found.into_iter().map(collision).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::convert::Infallible;

    /// A package that counts how often it is asked for anything.
    struct Counted<'a> {
        names: Vec<String>,
        asked: &'a Cell<usize>,
    }

    impl Commands for Counted<'_> {
        type Error = Infallible;
        fn count(&self) -> u32 {
            self.names.len() as u32
        }
        fn name(&self, index: u32) -> Result<Option<&[u8]>, Infallible> {
            self.asked.set(self.asked.get() + 1);
            Ok(Some(self.names[index as usize].as_bytes()))
        }
        fn has(&self, name: &[u8]) -> Result<bool, Infallible> {
            self.asked.set(self.asked.get() + 1);
            Ok(self.names.iter().any(|n| n.as_bytes() == name))
        }
    }

    fn packages<'a>(asked: &'a Cell<usize>, names: &[&[&str]]) -> Vec<Counted<'a>> {
        let owned = |names: &&[&str]| names.iter().map(|n| n.to_string()).collect();
        names
            .iter()
            .map(|n| Counted {
                names: owned(n),
                asked,
            })
            .collect()
    }

    fn pairs(names: &[&[&str]]) -> Vec<(usize, usize, String)> {
        let asked = Cell::new(0);
        let found = find(&packages(&asked, names)).expect("infallible");
        found
            .into_iter()
            .map(|c| {
                (
                    c.winner,
                    c.loser,
                    String::from_utf8(c.commands.join(&b',')).expect("text"),
                )
            })
            .collect()
    }

    #[test]
    fn the_first_wins_wherever_the_largest_stands() {
        assert_eq!(pairs(&[]), []);
        assert_eq!(pairs(&[&["a"]]), []);
        assert_eq!(pairs(&[&["a"], &["b"]]), []);
        assert_eq!(pairs(&[&["a"], &["a"]]), [(0, 1, "a".into())]);
        assert_eq!(
            pairs(&[&["a", "b", "c"], &["b", "a"]]),
            [(0, 1, "b,a".into())]
        );
        assert_eq!(pairs(&[&["b"], &["a", "b", "c"]]), [(0, 1, "b".into())]);
        let all = [(0, 1, "x".into()), (0, 2, "x".into())];
        assert_eq!(pairs(&[&["x", "y"], &["x"], &["x"]]), all);
        assert_eq!(pairs(&[&["x"], &["x", "y"], &["x"]]), all);
        assert_eq!(pairs(&[&["x"], &["x"], &["x", "y"]]), all);
    }

    #[test]
    fn a_package_of_very_many_commands_is_not_gone_through() {
        let asked = Cell::new(0);
        let mut list = packages(&asked, &[&["ls", "cat"], &["sed"]]);
        let many = (0..100_000).map(|n| format!("command-{n}")).collect();
        list.insert(
            1,
            Counted {
                names: many,
                asked: &asked,
            },
        );
        assert_eq!(find(&list).expect("infallible"), []);
        assert!(asked.get() <= 6, "asked {} times", asked.get());
    }

    #[test]
    fn few_names_are_kept_and_all_are_counted() {
        let asked = Cell::new(0);
        let many: Vec<String> = (0..100).map(|n| format!("c{n}")).collect();
        let list = [
            Counted {
                names: many.clone(),
                asked: &asked,
            },
            Counted {
                names: many,
                asked: &asked,
            },
        ];
        let found = find(&list).expect("infallible");
        assert_eq!(
            (found.len(), found[0].total, found[0].commands.len()),
            (1, 100, NAMES_KEPT)
        );
    }
}
