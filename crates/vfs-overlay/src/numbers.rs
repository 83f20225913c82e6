//! Numbers of several layers in one number space: inode numbers and directory cookies.
//!
//! A layer's own number goes into the low bits and the layer above them. The few numbers that
//! are too large for that (hashes, some host file systems) are given a place in a table, under a
//! layer number no layer has.

use rustc_hash::FxHashMap;

/// Bits of a layer's inode number. 32 layers' numbers stay below 2⁵³, which a JavaScript guest
/// can represent.
pub(crate) const INO_SHIFT: u32 = 48;
/// Bits of a layer's directory cookie.
pub(crate) const COOKIE_SHIFT: u32 = 56;

/// The layer number of the table.
const WIDE_LAYER: u8 = 63;

/// The numbers that do not fit, in order of appearance.
#[derive(Default)]
pub(crate) struct Wide {
    places: FxHashMap<(u8, u64), usize>,
    numbers: Vec<(u8, u64)>,
}

/// `number` of `layer` as one number, if it fits.
pub(crate) fn pack(shift: u32, layer: u8, number: u64) -> Option<u64> {
    (number >> shift == 0).then_some((u64::from(layer) << shift) | number)
}

/// `number` of `layer` as one number, by way of the table.
pub(crate) fn pack_wide(shift: u32, wide: &mut Wide, layer: u8, number: u64) -> u64 {
    let place = *wide.places.entry((layer, number)).or_insert_with(|| {
        wide.numbers.push((layer, number));
        wide.numbers.len() - 1
    });
    (u64::from(WIDE_LAYER) << shift) | place as u64
}

/// The layer and its number that `packed` stands for; `None` for what was never given out.
pub(crate) fn unpack(shift: u32, wide: &Wide, packed: u64) -> Option<(u8, u64)> {
    let number = packed & ((1 << shift) - 1);
    match u8::try_from(packed >> shift).ok()? {
        WIDE_LAYER => wide.numbers.get(usize::try_from(number).ok()?).copied(),
        layer if layer < WIDE_LAYER => Some((layer, number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut wide = Wide::default();
        for (layer, number) in [
            (0, 1),
            (3, (1 << 56) - 1),
            (3, 1 << 56),
            (60, u64::MAX),
            (0, 0),
        ] {
            let packed = pack(COOKIE_SHIFT, layer, number)
                .unwrap_or_else(|| pack_wide(COOKIE_SHIFT, &mut wide, layer, number));
            assert_eq!(unpack(COOKIE_SHIFT, &wide, packed), Some((layer, number)));
        }
        let twice = pack_wide(COOKIE_SHIFT, &mut wide, 60, u64::MAX);
        assert_eq!(twice, pack_wide(COOKIE_SHIFT, &mut wide, 60, u64::MAX));
        assert_eq!(unpack(COOKIE_SHIFT, &wide, (63 << COOKIE_SHIFT) | 99), None);
        assert_eq!(unpack(COOKIE_SHIFT, &wide, u64::MAX), None);
    }
}
