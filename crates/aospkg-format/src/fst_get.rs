//! Looking a key up in an FST that nobody vouches for.
//!
//! The `fst` crate writes our FSTs, and reads them very well when they are whole, but it indexes
//! by addresses it finds in the bytes and so panics on damaged ones; its checksum costs a pass over
//! everything and proves nothing against an author who computes it too. Opening a package must cost
//! the same for ten files and for a million, so neither the pass nor the trust is available.
//! What a reader needs is one operation, an exact lookup, and that is small enough to be done
//! here with every address checked: a walk reads at most one node per key byte, every address it
//! follows is smaller than the one before, and any node that does not fit its bytes is an error.
//!
//! The format is that of `fst` 0.4, version 3. Tests compare this walk with the crate's own.

use crate::error::{Error, Result};

const VERSION: u64 = 3;
const MIN_LEN: usize = 36;
/// Nodes with more transitions than this carry a 256-byte table of them.
const INDEXED_FROM: usize = 32;

/// The input bytes that a one-transition node can hold in its six spare bits, from 1.
const COMMON: [u8; 63] = *b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG";

fn corrupt() -> Error {
    Error::corrupt("path or command automaton")
}

/// The value of `key`, if it is in the map.
pub(crate) fn get(fst: &[u8], key: &[u8]) -> Result<Option<u64>> {
    if fst.len() < MIN_LEN || fixed_u64(fst, 0)? != VERSION {
        return Err(corrupt());
    }
    let nodes = &fst[..fst.len() - 20];
    let mut addr = usize::try_from(fixed_u64(fst, fst.len() - 12)?).map_err(|_| corrupt())?;
    let mut value = 0u64;
    for &byte in key {
        let Some((next, out)) = step(nodes, addr, byte)? else {
            return Ok(None);
        };
        value = value.checked_add(out).ok_or_else(corrupt)?;
        addr = next;
    }
    Ok(match final_output(nodes, addr)? {
        Some(out) => Some(value.checked_add(out).ok_or_else(corrupt)?),
        None => None,
    })
}

fn fixed_u64(fst: &[u8], at: usize) -> Result<u64> {
    let bytes = fst.get(at..at + 8).ok_or_else(corrupt)?;
    let mut array = [0; 8];
    array.copy_from_slice(bytes);
    Ok(u64::from_le_bytes(array))
}

#[inline]
fn byte(nodes: &[u8], at: usize) -> Result<u8> {
    nodes.get(at).copied().ok_or_else(corrupt)
}

#[inline]
fn back(from: usize, by: usize) -> Result<usize> {
    from.checked_sub(by).ok_or_else(corrupt)
}

/// A little-endian integer of `len` bytes, at most eight.
#[inline]
fn packed(nodes: &[u8], at: usize, len: usize) -> Result<u64> {
    let bytes = nodes.get(at..at + len).ok_or_else(corrupt)?;
    let mut array = [0; 8];
    array
        .get_mut(..len)
        .ok_or_else(corrupt)?
        .copy_from_slice(bytes);
    Ok(u64::from_le_bytes(array))
}

/// The address a delta leads to from a node that ends (begins, in file order) at `end`.
#[inline]
fn target(end: usize, delta: u64) -> Result<usize> {
    match delta {
        0 => Ok(0),
        delta => back(end, usize::try_from(delta).map_err(|_| corrupt())?),
    }
}

/// A node with any number of transitions, or a final one. Nodes are written backwards: the state
/// byte, at the node's address, comes last, and everything else lies before it.
struct AnyNode {
    transitions: usize,
    delta_len: usize,
    out_len: usize,
    is_final: bool,
    /// First of the input bytes' positions counted down from; they are stored in reverse order.
    inputs_end: usize,
    /// Position of the 256-byte table, when there is one.
    table: Option<usize>,
}

impl AnyNode {
    #[inline]
    fn read(nodes: &[u8], addr: usize, state: u8) -> Result<AnyNode> {
        let mut at = addr;
        let transitions = match state & 0x3f {
            0 => {
                at = back(at, 1)?;
                match byte(nodes, at)? {
                    1 => 256,
                    n => n as usize,
                }
            }
            n => n as usize,
        };
        at = back(at, 1)?;
        let sizes = byte(nodes, at)?;
        let table = if transitions > INDEXED_FROM {
            at = back(at, 256)?;
            Some(at)
        } else {
            None
        };
        Ok(AnyNode {
            transitions,
            delta_len: (sizes >> 4) as usize,
            out_len: (sizes & 15) as usize,
            is_final: state & 0x40 != 0,
            inputs_end: at,
            table,
        })
    }

    #[inline]
    fn deltas_end(&self) -> Result<usize> {
        back(self.inputs_end, self.transitions)
    }

    #[inline]
    fn outs_end(&self) -> Result<usize> {
        back(self.deltas_end()?, self.transitions * self.delta_len)
    }

    #[inline]
    fn find(&self, nodes: &[u8], input: u8) -> Result<Option<usize>> {
        if let Some(table) = self.table {
            let i = byte(nodes, table + input as usize)? as usize;
            return Ok((i < self.transitions).then_some(i));
        }
        let inputs = nodes
            .get(self.deltas_end()?..self.inputs_end)
            .ok_or_else(corrupt)?;
        Ok(inputs.iter().rev().position(|&b| b == input))
    }
}

/// Follows one byte: the next node's address and the output on the way.
#[inline]
fn step(nodes: &[u8], addr: usize, input: u8) -> Result<Option<(usize, u64)>> {
    if addr == 0 {
        // The empty final node, which has no bytes.
        return Ok(None);
    }
    let state = byte(nodes, addr)?;
    if state & 0x80 != 0 {
        // One transition, not final.
        let mut at = addr;
        let has = match state & 0x3f {
            0 => {
                at = back(at, 1)?;
                byte(nodes, at)?
            }
            n => COMMON[n as usize - 1],
        };
        if has != input {
            return Ok(None);
        }
        if state & 0x40 != 0 {
            // To the node written just before this one.
            return Ok(Some((back(at, 1)?, 0)));
        }
        at = back(at, 1)?;
        let sizes = byte(nodes, at)?;
        let (delta_len, out_len) = ((sizes >> 4) as usize, (sizes & 15) as usize);
        let delta_at = back(at, delta_len)?;
        let out_at = back(delta_at, out_len)?;
        let delta = packed(nodes, delta_at, delta_len)?;
        let out = packed(nodes, out_at, out_len)?;
        return Ok(Some((target(out_at, delta)?, out)));
    }
    let node = AnyNode::read(nodes, addr, state)?;
    let Some(i) = node.find(nodes, input)? else {
        return Ok(None);
    };
    let outs_end = node.outs_end()?;
    let delta = packed(
        nodes,
        back(node.deltas_end()?, (i + 1) * node.delta_len)?,
        node.delta_len,
    )?;
    let out = packed(nodes, back(outs_end, (i + 1) * node.out_len)?, node.out_len)?;
    let finals = if node.is_final { node.out_len } else { 0 };
    let end = back(outs_end, node.transitions * node.out_len + finals)?;
    Ok(Some((target(end, delta)?, out)))
}

/// The output of a final node, `None` when the node is not final.
#[inline]
fn final_output(nodes: &[u8], addr: usize) -> Result<Option<u64>> {
    if addr == 0 {
        return Ok(Some(0));
    }
    let state = byte(nodes, addr)?;
    if state & 0x80 != 0 || state & 0x40 == 0 {
        return Ok(None);
    }
    let node = AnyNode::read(nodes, addr, state)?;
    let at = back(node.outs_end()?, (node.transitions + 1) * node.out_len)?;
    Ok(Some(packed(nodes, at, node.out_len)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn build(map: &BTreeMap<Vec<u8>, u64>) -> Vec<u8> {
        let mut builder = fst::MapBuilder::memory();
        for (key, value) in map {
            builder.insert(key, *value).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn agrees(map: &BTreeMap<Vec<u8>, u64>, others: &[Vec<u8>]) {
        let bytes = build(map);
        let theirs = fst::Map::new(&bytes[..]).unwrap();
        for key in map.keys().chain(others) {
            assert_eq!(get(&bytes, key).unwrap(), theirs.get(key), "{key:?}");
        }
    }

    #[test]
    fn every_single_byte_and_wide_nodes() {
        let all: BTreeMap<Vec<u8>, u64> =
            (0..=255u8).map(|b| (vec![b], u64::from(b) * 7)).collect();
        agrees(&all, &[vec![], vec![1, 2]]);
        for byte in 0..=255u8 {
            let one = BTreeMap::from([(vec![byte, byte, 7], 9)]);
            agrees(&one, &[vec![byte], vec![byte, byte], vec![]]);
        }
        for width in [2, 31, 32, 33, 63, 64, 255] {
            let wide: BTreeMap<Vec<u8>, u64> = (0..width)
                .map(|b| (vec![b'x', b as u8], 1 << (b % 60)))
                .collect();
            agrees(&wide, &[vec![b'x'], vec![b'x', 255]]);
        }
        agrees(&BTreeMap::new(), &[vec![], vec![0]]);
        agrees(&BTreeMap::from([(vec![], 5)]), &[vec![0]]);
    }

    proptest! {
        #[test]
        fn agrees_with_the_crate(
            map in prop::collection::btree_map(
                prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..6), any::<u64>(), 0..200),
            others in prop::collection::vec(prop::collection::vec(0u8..4, 0..6), 0..50),
        ) {
            agrees(&map, &others);
        }

        #[test]
        fn damage_is_an_error_or_an_answer(
            map in prop::collection::btree_map(
                prop::collection::vec(0u8..4, 0..6), any::<u64>(), 0..80),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = build(&map);
            for (at, value) in flips {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            for key in map.keys() {
                let _ = get(&bytes, key);
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            for key in map.keys() {
                let _ = get(&bytes, key);
            }
        }
    }
}
