//! Copying what differs between two linear memories of the same module.
//!
//! Of a memory that is megabytes large a guest has usually written a small part; the rest is
//! still the module's image, which every new instance has already. Linux knows which pages of a
//! private mapping were written: they are anonymous, while what was only read is a page of the
//! image or the one page of zeros, and what was not touched is nothing. `PAGEMAP_SCAN` (Linux
//! 6.7) lists them in microseconds. Where it is not to be had, all pages are compared instead;
//! the result is the same.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Bytes that are looked at together: a page of the host, or a part of one.
const PAGE: usize = 4096;

/// Regions that one scan can report; a memory that has more is scanned in several steps.
const REGIONS: usize = 256;

/// Gaps of at least so many bytes get their pages from the host in one call before they are
/// written, which costs half of what a page fault for each does.
const POPULATE_FROM: usize = 4 * PAGE;

/// Makes `to`, a memory that nothing has been written to since it was made of the module's image,
/// equal to `from`, a memory of the same module and size.
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    let (runs, there) = match (written(from), written(to)) {
        (Ok(runs), Ok(there)) => (runs, there),
        (Err(error), _) | (_, Err(error)) => {
            tracing::debug!("no page map, memories are compared: {error}");
            return copy_if(from, to, 0..from.len(), &[], |from, to| from != to);
        }
    };
    for run in runs {
        // A page that was given out to be written may be zero again, or still: what instances
        // leave behind is zeroed, not unmapped. Such a page is better looked at than made in the
        // copy.
        copy_if(from, to, run, &there, |from, to| {
            !is_zero(from) || !is_zero(to)
        });
    }
}

/// Copies the pages of a range for which `wanted` says so. `there` are ranges of `to` that have
/// pages to be written already, in order.
fn copy_if(
    from: &[u8],
    to: &mut [u8],
    range: Range<usize>,
    there: &[Range<usize>],
    wanted: impl Fn(&[u8], &[u8]) -> bool,
) {
    let end = range.end.min(from.len()).min(to.len());
    // First byte of the pages that are to be copied and have not been yet.
    let mut pending = range.start;
    let mut at = range.start;
    while at < end {
        let next = (at + PAGE).min(end);
        if !wanted(&from[at..next], &to[at..next]) {
            copy_run(from, to, pending..at, there);
            pending = next;
        }
        at = next;
    }
    copy_run(from, to, pending..end, there);
}

fn copy_run(from: &[u8], to: &mut [u8], run: Range<usize>, there: &[Range<usize>]) {
    let mut gap = run.start;
    let first = there.partition_point(|range| range.end <= run.start);
    let inside = there[first..]
        .iter()
        .take_while(|range| range.start < run.end);
    for (start, end) in inside
        .map(|range| (range.start, range.end))
        .chain([(run.end, run.end)])
    {
        if start.saturating_sub(gap) >= POPULATE_FROM {
            populate(&mut to[gap..start]);
        }
        gap = end;
    }
    to[run.clone()].copy_from_slice(&from[run]);
}

fn is_zero(page: &[u8]) -> bool {
    // The first words tell most pages apart.
    let (head, tail) = page.split_at(page.len().min(64));
    head.iter().all(|byte| *byte == 0) && tail.iter().fold(0, |any, byte| any | byte) == 0
}

/// Asks the host for the pages of a slice that are not there yet. Nothing depends on it.
fn populate(bytes: &mut [u8]) {
    // SAFETY: the range is exclusively borrowed memory of ours. The advice maps pages in as a
    // write to each would, changes no byte and takes none away; if the range does not begin at a
    // page or the host does not know the advice, it does nothing.
    let _ = unsafe {
        libc::madvise(
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            libc::MADV_POPULATE_WRITE,
        )
    };
}

/// `struct page_region` of Linux.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg` of Linux.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610_u32 as libc::Ioctl;
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;

/// The ranges of a private mapping whose pages were written since it was made; pages that were
/// and have the mapping's original content again may be among them.
fn written(memory: &[u8]) -> io::Result<Vec<Range<usize>>> {
    // A file of its own each time: one that is kept would show another process after a fork.
    let map = File::open("/proc/self/pagemap")?;
    let base = memory.as_ptr().addr();
    let end = (base + memory.len()) as u64;
    let mut regions = [Region::default(); REGIONS];
    let mut found = Vec::new();
    let mut start = base as u64;
    while start < end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start,
            end,
            regions: regions.as_mut_ptr().expose_provenance() as u64,
            regions_len: REGIONS as u64,
            // Neither of a file nor zero, and in memory or swapped out.
            category_inverted: FILE | ZERO,
            category_mask: FILE | ZERO,
            category_anyof_mask: PRESENT | SWAPPED,
            ..Scan::default()
        };
        // SAFETY: `scan` is laid out as the call wants it and says its size; the kernel writes
        // `walk_end` in it, and at most `REGIONS` regions to the array, which lives longer than
        // the call. No flag asks it to change the pages it looks at.
        let count = unsafe { libc::ioctl(map.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for region in regions.iter().take(count) {
            let (start, end) = (region.start as usize - base, region.end as usize - base);
            found.push(start..end);
        }
        if scan.walk_end <= start {
            return Err(io::Error::other("the scan does not come forward"));
        }
        start = scan.walk_end;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use wasmtime::{Instance, Memory, Module, Store};

    const IMAGE: &str = r#"(module (memory (export "memory") 40)
        (data (i32.const 70000) "an image that is not all zero")
        (data (i32.const 1000000) "\01\02\03"))"#;

    fn fresh(store: &mut Store<()>, module: &Module) -> Memory {
        let instance = Instance::new(&mut *store, module, &[]).unwrap();
        instance.get_memory(store, "memory").unwrap()
    }

    /// Numbers that look random (SplitMix64).
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Writes, zeroes and only reads at random places.
    fn scribble(bytes: &mut [u8], state: &mut u64) {
        for _ in 0..random(state) % 600 {
            let start = random(state) as usize % bytes.len();
            let len = 1 << (random(state) % 15);
            let end = (start + len).min(bytes.len());
            match random(state) % 4 {
                0 => bytes[start..end].fill(0),
                1 => assert!(bytes[start] != 255),
                _ => bytes[start..end].fill(random(state) as u8 & 127),
            }
        }
        // The image, back as it was or gone.
        if random(state).is_multiple_of(2) {
            bytes[70_000..70_100].fill(0);
        }
    }

    #[test]
    fn a_copy_is_equal_with_the_page_map_and_without() {
        let engine = Engine::shared().unwrap().inner();
        let module = Module::new(engine, wat::parse_str(IMAGE).unwrap()).unwrap();
        let mut seed = 1;
        for _ in 0..40 {
            let [mut a, mut b, mut c] = [(); 3].map(|()| Store::new(engine, ()));
            let (from, to, other) = (
                fresh(&mut a, &module),
                fresh(&mut b, &module),
                fresh(&mut c, &module),
            );
            scribble(from.data_mut(&mut a), &mut seed);
            let from = from.data(&a);
            copy(from, to.data_mut(&mut b));
            assert!(from == to.data(&b));
            copy_if(
                from,
                other.data_mut(&mut c),
                0..from.len(),
                &[],
                |from, to| from != to,
            );
            assert!(from == other.data(&c));
        }
    }

    #[test]
    fn the_page_map_names_every_written_page() {
        let engine = Engine::shared().unwrap().inner();
        let module = Module::new(engine, wat::parse_str(IMAGE).unwrap()).unwrap();
        let mut store = Store::new(engine, ());
        let memory = fresh(&mut store, &module);
        // Every second page, so that there are more regions than one scan reports.
        for page in memory.data_mut(&mut store).chunks_exact_mut(2 * PAGE) {
            page[9] = 1;
        }
        let Ok(runs) = written(memory.data(&store)) else {
            return; // An older Linux.
        };
        let count = memory.data_size(&store) / (2 * PAGE);
        assert!(count > REGIONS);
        for page in (0..count).map(|n| 2 * n * PAGE) {
            assert!(runs.iter().any(|run| run.contains(&page)));
        }
    }

    #[test]
    fn memory_that_is_no_mapping_of_its_own_is_copied_too() {
        let mut from = vec![0; 5 * PAGE + 100];
        let mut to = from.clone();
        from[7] = 1;
        from[5 * PAGE + 99] = 2;
        copy(&from, &mut to);
        assert!(from == to);
        copy(&[], &mut []);
    }
}
