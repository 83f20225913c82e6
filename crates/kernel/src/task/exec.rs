//! Replacing the process image (`execve(2)`).
//!
//! Process id, parent, group, session, working directory, umask, pending signals, signal mask,
//! standard streams and all descriptors not marked `CLOEXEC` stay. Arguments and environment are
//! exactly what was given, an empty zeroth argument included. `CLOEXEC` descriptors close at the
//! commit, caught signals become default, ignored ones stay ignored. The path is taken literally
//! from the working directory. Whatever fails, fails before anything has changed.

use super::{Dir, Task};
use crate::events::Event;
use crate::launch::{self, NewImage};
use crate::program::{self, Loaded, Search};
use proctable::{ExecImage, Image};
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::namei::At;
use vfs_core::types::FileType;

/// The proof that an `exec` was committed: the old program is over. Unwind and return
/// [`Outcome::Exec`](crate::Outcome::Exec).
#[must_use = "the old program must end now and return Outcome::Exec"]
#[derive(Debug)]
pub struct ExecCommitted(());

impl Task {
    /// Replaces the image by the program at `path`. `close` lists descriptors to close besides
    /// those marked `CLOEXEC`.
    pub fn exec(
        &self,
        path: &[u8],
        argv: Vec<Vec<u8>>,
        env: Vec<Vec<u8>>,
        close: &[i32],
    ) -> Result<ExecCommitted> {
        self.exec_search(path, Search::Never, argv, env, close)
    }

    /// The same with a search for names without a slash (`execvpe(3)` without its retry by a
    /// shell).
    pub fn exec_search(
        &self,
        path: &[u8],
        search: Search<'_>,
        argv: Vec<Vec<u8>>,
        env: Vec<Vec<u8>>,
        close: &[i32],
    ) -> Result<ExecCommitted> {
        let loaded = self.at(Dir::Cwd, b"", |at| {
            Ok(program::load(
                &self.vm,
                at,
                NewImage {
                    path,
                    search,
                    argv,
                    env,
                },
            )?)
        })?;
        self.commit(loaded, close)
    }

    /// Replaces the image by the program open at `fd` (`fexecve(3)`). A script whose descriptor is
    /// marked `CLOEXEC` is `ENOENT`, because its interpreter could not open it.
    pub fn fexec(
        &self,
        fd: i32,
        argv: Vec<Vec<u8>>,
        env: Vec<Vec<u8>>,
        close: &[i32],
    ) -> Result<ExecCommitted> {
        let file = self.file(fd)?;
        if !file
            .inode()
            .is_some_and(|inode| inode.kind() == FileType::Regular)
        {
            return Err(Errno::EACCES);
        }
        let gone = self.getfd(fd)? || close.contains(&fd);
        let loaded = self.at(Dir::Cwd, b"", |at: &At<'_>| {
            Ok(program::load_open(
                &self.vm, at, &file, fd, gone, argv, env,
            )?)
        })?;
        self.commit(loaded, close)
    }

    fn commit(&self, loaded: Loaded, close: &[i32]) -> Result<ExecCommitted> {
        let Loaded {
            program,
            driver,
            argv,
            env,
            comm,
            exe,
            cred,
        } = loaded;
        let argv: Arc<[Vec<u8>]> = argv.into();
        let image = Image {
            argv: argv.clone(),
            env: env.into(),
            comm,
            exe: Some(exe),
            driver,
        };
        // What the old program registered is no concern of the new one.
        self.process.set_interrupter(None);
        self.process.exec_commit(ExecImage {
            image,
            cred,
            close: close.to_vec(),
        });
        self.handlers.borrow_mut().clear();
        *self.next.borrow_mut() = Some(program);
        launch::name_thread(&self.process);
        self.vm.emit(|| Event::ProcessExec {
            pid: self.pid(),
            driver,
            argv,
        });
        Ok(ExecCommitted(()))
    }
}
