//! Terminals whose master side the host holds: what a person sits at.

use super::{HostReader, HostWriter, Vm, VmInner};
use pty::Terminal;
use pty::termios::Winsize;
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::namei::At;
use vfs_core::types::{Caller, Cred, OpenFlags};

/// A terminal of a VM, seen from its master side. Give it to a
/// [`SpawnRequest`](crate::SpawnRequest) as its `terminal`; when this and all readers and writers
/// made of it are dropped, the line is hung up.
pub struct HostTerminal {
    master: Arc<OpenFile>,
    terminal: Arc<Terminal>,
}

impl HostTerminal {
    /// What the screen is to show. Reading gives `EIO` when the last process has closed the
    /// terminal, which is its end.
    pub fn reader(&self) -> HostReader {
        HostReader::new(self.master.clone())
    }

    /// Where the keyboard's bytes go.
    pub fn writer(&self) -> HostWriter {
        HostWriter::new(self.master.clone())
    }

    /// Sets the window size; the foreground group gets `SIGWINCH` if it changed.
    pub fn resize(&self, size: Winsize) {
        self.terminal.set_winsize(size);
    }

    /// Lets the terminal itself answer when a program asks where the cursor is, for sessions that
    /// no terminal emulator looks at.
    pub fn answer_cursor_reports(&self) {
        self.terminal.answer_cursor_reports();
    }

    /// Path of its slave in the VM.
    pub fn path(&self) -> Vec<u8> {
        slave_path(&self.terminal)
    }

    /// The terminal.
    pub fn terminal(&self) -> &Arc<Terminal> {
        &self.terminal
    }
}

fn slave_path(terminal: &Terminal) -> Vec<u8> {
    format!("/dev/pts/{}", terminal.index()).into_bytes()
}

impl Vm {
    /// Makes a terminal that belongs to the VM's user. `ENOSPC` at the limit `ptys`.
    pub fn open_terminal(&self, size: Winsize) -> Result<HostTerminal> {
        let vm = &self.inner;
        let master = vm.ptys.open_master(&vm.cred)?;
        let terminal = master.terminal().clone();
        terminal.set_locked(false);
        terminal.set_winsize(size);
        let master = OpenFile::anonymous(Arc::new(master), OpenFlags::RDWR);
        Ok(HostTerminal { master, terminal })
    }
}

impl VmInner {
    /// A new terminal's master and slave.
    pub(crate) fn open_pty(&self, at: &At<'_>) -> Result<(Arc<OpenFile>, Arc<OpenFile>)> {
        let master = at.open(b"/dev/ptmx", OpenFlags::RDWR | OpenFlags::NOCTTY, 0)?;
        let terminal = pty::terminal_of(&master).ok_or(Errno::ENXIO)?;
        terminal.set_locked(false);
        let slave = at.open(
            &slave_path(terminal),
            OpenFlags::RDWR | OpenFlags::NOCTTY,
            0,
        )?;
        Ok((master, slave))
    }

    /// The slave of a terminal for a process that the host starts.
    pub(crate) fn open_slave(
        &self,
        terminal: &HostTerminal,
        cred: &Arc<Cred>,
    ) -> Result<Arc<OpenFile>> {
        let root = self.ns.root();
        let caller = Caller {
            cred: cred.clone(),
            ..Caller::host()
        };
        let at = At {
            ns: &self.ns,
            root: &root,
            base: &root,
            caller: &caller,
        };
        at.open(&terminal.path(), OpenFlags::RDWR | OpenFlags::NOCTTY, 0)
    }
}
