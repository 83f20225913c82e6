//! Mapping files, and living on when a mapped file is cut short.
//!
//! All `unsafe` code of the crate that touches mappings is here.
//!
//! A page of a mapping that lies past the end of its file cannot be read: the kernel sends
//! `SIGBUS`, which by default ends the process. A package file may be truncated by anybody who can
//! write to it, and the host must outlive that. So every mapping is entered in a table, and a
//! signal handler, installed once per process, looks the faulting address up: inside a mapping of
//! ours, the missing part is replaced by zero pages, the mapping is marked as *shrunk* and the read
//! goes on; every reader looks at the mark afterwards and reports [`Error::Shrunk`] instead of the
//! zeros it got. Any other fault goes to whoever handled `SIGBUS` before, the default action
//! included.
//!
//! The table is a list of fixed blocks that are never freed, so the handler walks it without a
//! lock; a sequence number per slot keeps it from reading a slot that is being changed. A slot
//! cannot change while its own mapping is being read, because reading borrows the [`Map`].
//!
//! Other handlers for `SIGBUS` may be installed before or after ours as long as they pass on what
//! is not theirs, which is what Wasmtime's and V8's do.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, compiler_fence, fence,
};
use std::sync::{Mutex, OnceLock, PoisonError};

use memmap2::{Mmap, MmapOptions};

use crate::error::{Error, Result};

/// A read-only, shared mapping of a whole file.
#[derive(Debug)]
pub(crate) struct Map {
    bytes: Mmap,
    slot: &'static Slot,
}

impl Map {
    /// Maps the first `len` bytes of a file.
    pub(crate) fn new(file: &File, len: u64) -> io::Result<Map> {
        install_handler()?;
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        // SAFETY: The mapping is read-only and its pages stay readable whatever happens to the
        // file, see the module's documentation. That the *values* of bytes may change when somebody
        // writes to the file in place is accepted: every value read through a mapping is checked
        // after it was copied, no `&str` is ever made from mapped bytes, and indexing is bounded by
        // lengths that are not read from the mapping twice.
        let bytes = unsafe { MmapOptions::new().len(len).map(file)? };
        let slot = register(bytes.as_ptr() as usize, len);
        Ok(Map { bytes, slot })
    }

    /// All mapped bytes. What is read from them only counts if [`Map::whole`] holds afterwards.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether no read has met a missing page so far.
    #[inline]
    pub(crate) fn whole(&self) -> bool {
        // Reads before this must not be moved behind it: the mark is set between them by a handler
        // that the compiler knows nothing about.
        compiler_fence(Ordering::SeqCst);
        !self.slot.shrunk.load(Ordering::Acquire)
    }

    /// Runs `read` on a range and reports a cut that it met.
    ///
    /// A cut inside the file's last page raises no signal, the rest of that page reads as zeros; so
    /// the file's length is asked for as well.
    pub(crate) fn read<T>(
        &self,
        file: &File,
        range: Range<u64>,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let value = self.view(range, read)?;
        self.check_whole(file)?;
        Ok(value)
    }

    /// [`Map::read`] for one of many ranges, after the last of which the caller asks
    /// [`Map::check_whole`].
    pub(crate) fn view<T>(&self, range: Range<u64>, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let bytes = usize::try_from(range.start)
            .ok()
            .zip(usize::try_from(range.end).ok())
            .and_then(|(start, end)| self.bytes.get(start..end))
            .ok_or(Error::corrupt("range past the end of the file"))?;
        Ok(read(bytes))
    }

    /// Fails when the file is shorter than the mapping.
    pub(crate) fn check_whole(&self, file: &File) -> Result<()> {
        if !self.whole() || file_len(file)? < self.bytes.len() as u64 {
            return Err(Error::Shrunk);
        }
        Ok(())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // Before the range is unmapped: afterwards it may belong to somebody else.
        self.slot.clear();
    }
}

fn file_len(file: &File) -> Result<u64> {
    // SAFETY: An all-zero `stat` is a valid value, the descriptor is open and the pointer is to a
    // local that lives through the call.
    let (status, stat) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(file.as_raw_fd(), &mut stat), stat)
    };
    if status != 0 {
        return Err(Error::io("fstat of the package")(io::Error::last_os_error()));
    }
    Ok(stat.st_size as u64)
}

/// One registered range.
#[derive(Debug)]
struct Slot {
    /// Odd while the slot is being changed.
    sequence: AtomicU32,
    start: AtomicUsize,
    /// Zero when the slot is free.
    len: AtomicUsize,
    shrunk: AtomicBool,
}

impl Slot {
    const fn empty() -> Slot {
        Slot {
            sequence: AtomicU32::new(0),
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            shrunk: AtomicBool::new(false),
        }
    }

    /// Called with the registry locked.
    fn set(&self, start: usize, len: usize) {
        self.sequence.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.start.store(start, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        if len != 0 {
            self.shrunk.store(false, Ordering::Relaxed);
        }
        self.sequence.fetch_add(1, Ordering::Release);
    }

    fn clear(&self) {
        let _guard = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        self.set(0, 0);
    }

    /// The slot's range, `None` when it is being changed.
    fn range(&self) -> Option<(usize, usize)> {
        let before = self.sequence.load(Ordering::Acquire);
        let range = (
            self.start.load(Ordering::Relaxed),
            self.len.load(Ordering::Relaxed),
        );
        fence(Ordering::Acquire);
        let after = self.sequence.load(Ordering::Relaxed);
        (before == after && before.is_multiple_of(2)).then_some(range)
    }
}

const BLOCK: usize = 64;

/// A block of slots. Blocks are added and never freed, so their number is bounded by the largest
/// number of mappings that ever existed at once.
struct Block {
    slots: [Slot; BLOCK],
    next: AtomicPtr<Block>,
}

impl Block {
    const fn empty() -> Block {
        Block {
            slots: [const { Slot::empty() }; BLOCK],
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

static FIRST: Block = Block::empty();
/// Held by whoever changes a slot or adds a block. The handler takes no lock.
static REGISTRY: Mutex<()> = Mutex::new(());

/// The blocks, in order.
fn blocks() -> impl Iterator<Item = &'static Block> {
    std::iter::successors(Some(&FIRST), |block| {
        let next = block.next.load(Ordering::Acquire);
        // SAFETY: A pointer that was published in `next` comes from `Box::leak` and is never freed.
        unsafe { next.as_ref() }
    })
}

fn register(start: usize, len: usize) -> &'static Slot {
    let _guard = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    let mut last = &FIRST;
    for block in blocks() {
        last = block;
        for slot in &block.slots {
            if slot.len.load(Ordering::Relaxed) == 0 {
                slot.set(start, len);
                return slot;
            }
        }
    }
    let block: &'static Block = Box::leak(Box::new(Block::empty()));
    let slot = &block.slots[0];
    slot.set(start, len);
    last.next
        .store(ptr::from_ref(block).cast_mut(), Ordering::Release);
    slot
}

static INSTALLED: OnceLock<std::result::Result<(), i32>> = OnceLock::new();
/// What handled `SIGBUS` before. Written once, before the handler is installed.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(4096);

/// Installs the handler for `SIGBUS`, once per process.
fn install_handler() -> io::Result<()> {
    INSTALLED
        .get_or_init(|| {
            // SAFETY: `sysconf` has no preconditions; the structures are valid as all zeros and are
            // locals or leaked, and the handler is a function of the type that `SA_SIGINFO` asks
            // for which calls nothing that is unsafe in a signal handler.
            unsafe {
                let page = libc::sysconf(libc::_SC_PAGESIZE);
                if page > 0 {
                    PAGE_SIZE.store(page as usize, Ordering::Relaxed);
                }
                let mut previous: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(libc::SIGBUS, ptr::null(), &mut previous) != 0 {
                    return Err(errno());
                }
                PREVIOUS.store(Box::into_raw(Box::new(previous)), Ordering::Release);
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_sigbus as *const () as usize;
                // `SA_ONSTACK`: guest code may run on a small stack with an alternate one set up.
                // `SA_NODEFER`: a previous handler may leave by a long jump.
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                libc::sigemptyset(&mut action.sa_mask);
                if libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) != 0 {
                    return Err(errno());
                }
                Ok(())
            }
        })
        .map_err(io::Error::from_raw_os_error)
}

fn errno() -> i32 {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

/// The signal handler. Everything in it is safe at any moment: atomic loads and stores, `mmap`,
/// `sigaction` and a call of the previous handler.
extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: With `SA_SIGINFO` the kernel passes a valid `siginfo_t`; for a `SIGBUS` it raised
    // itself (`si_code` above 0) the address is set. `errno` is the thread's own.
    unsafe {
        let saved = *libc::__errno_location();
        let by_kernel = !info.is_null() && (*info).si_code > 0;
        if by_kernel && fill((*info).si_addr() as usize) {
            *libc::__errno_location() = saved;
            return;
        }
        *libc::__errno_location() = saved;
        pass_on(signal, info, context);
    }
}

/// Replaces the missing part of a mapping of ours by zero pages. False when the address is in none.
fn fill(address: usize) -> bool {
    let page = PAGE_SIZE.load(Ordering::Relaxed);
    for block in blocks() {
        for slot in &block.slots {
            let Some((start, len)) = slot.range() else {
                continue;
            };
            if len == 0 || address < start || address - start >= len {
                continue;
            }
            slot.shrunk.store(true, Ordering::Release);
            let from = address & !(page - 1);
            let to = (start + len).next_multiple_of(page);
            // SAFETY: The range is the tail of a mapping of this module that is alive (its reader
            // is the thread that faulted, and holds a borrow of it), page-aligned on both ends. The
            // pages were read-only and stay so; only what reads of them return changes, and every
            // reader checks the mark that was just set.
            let filled = unsafe {
                libc::mmap(
                    from as *mut libc::c_void,
                    to - from,
                    libc::PROT_READ,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                    -1,
                    0,
                )
            };
            return filled != libc::MAP_FAILED;
        }
    }
    false
}

/// Hands a fault that is not ours to whoever handled it before.
///
/// # Safety
///
/// Must be called from the signal handler with the handler's own arguments.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: The pointer was published before the handler was installed and is never freed. A
    // previous action is either one of the two constants or the address of a handler of the type
    // its flags say.
    unsafe {
        let previous = PREVIOUS.load(Ordering::Acquire);
        let action = previous.as_ref().map_or(libc::SIG_DFL, |p| p.sa_sigaction);
        let flags = previous.as_ref().map_or(0, |p| p.sa_flags);
        match action {
            libc::SIG_DFL => {
                default_action(signal);
            }
            // A fault cannot be ignored: the kernel would end the process, and so does this.
            libc::SIG_IGN if !info.is_null() && (*info).si_code > 0 => default_action(signal),
            libc::SIG_IGN => {}
            handler if flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

/// Restores the default action and lets the signal come again.
unsafe fn default_action(signal: libc::c_int) {
    // SAFETY: A zeroed `sigaction` is the default action with an empty mask.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &default, ptr::null_mut());
        // A fault comes again by itself when the handler returns, a sent signal has to be repeated.
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_of(len: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; len]).unwrap();
        file
    }

    #[test]
    fn a_cut_is_an_error_and_later_mappings_are_unharmed() {
        let file = file_of(64 << 10);
        let map = Map::new(&file, 64 << 10).unwrap();
        let sum = |bytes: &[u8]| bytes.iter().map(|&b| u64::from(b)).sum::<u64>();
        assert_eq!(map.read(&file, 0..10, sum).unwrap(), 70);
        file.set_len(4096).unwrap();
        assert!(matches!(map.read(&file, 0..65536, sum), Err(Error::Shrunk)));
        assert!(!map.whole());
        drop(map);
        let file = file_of(8192);
        let map = Map::new(&file, 8192).unwrap();
        assert_eq!(map.read(&file, 0..8192, sum).unwrap(), 7 * 8192);
    }

    #[test]
    fn a_cut_inside_the_last_page_is_noticed() {
        let file = file_of(5000);
        let map = Map::new(&file, 5000).unwrap();
        file.set_len(4500).unwrap();
        assert!(matches!(
            map.read(&file, 4600..4700, <[u8]>::to_vec),
            Err(Error::Shrunk)
        ));
    }

    #[test]
    fn more_mappings_than_a_block_holds() {
        let file = file_of(4096);
        let maps: Vec<Map> = (0..3 * BLOCK)
            .map(|_| Map::new(&file, 4096).unwrap())
            .collect();
        let cut = file_of(8192);
        let last = Map::new(&cut, 8192).unwrap();
        cut.set_len(0).unwrap();
        assert!(last.read(&cut, 0..8192, <[u8]>::to_vec).is_err());
        assert!(maps.iter().all(Map::whole));
    }
}
