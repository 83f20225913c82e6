//! Starting programs: the four spawn calls and the two exec calls.

use super::signals::set;
use super::spawn_args::{check_sizes, environment, file_actions, strings};
use crate::call::{self, imports};
use crate::guest::{Done, End, Guest, View};
use kernel::proctable::SigSet;
use kernel::{Errno, ExecCommitted, FileAction, Search, SpawnArgs, SpawnAttrs, Task};
use wasmtime::{Caller, FuncType, Linker, Result, Val, ValType};

/// Descriptors that an exec call may name to be closed.
const MAX_CLOSE: u32 = 1 << 20;

/// `stdin`, `stdout` or `stderr` argument that leaves the stream closed.
const CLOSED: u32 = u32::MAX;

/// Attribute flags of `posix_spawn`.
mod attr {
    pub(super) const RESETIDS: u32 = 1;
    pub(super) const SETPGROUP: u32 = 2;
    pub(super) const SETSIGDEF: u32 = 4;
    pub(super) const SETSCHEDPARAM: u32 = 16;
    pub(super) const SETSCHEDULER: u32 = 32;
    pub(super) const SETSID: u32 = 128;
    /// All that exist: those above, SETSIGMASK (8, the mask is always given) and USEVFORK (64,
    /// every spawn is one).
    pub(super) const ALL: u32 = 255;
}

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_process";
        errno proc_spawn(
            argv: u32, argv_len: u32, env: u32, env_len: u32,
            stdin: u32, stdout: u32, stderr: u32, cwd: u32, cwd_len: u32, out: u32,
        );
        errno proc_spawn_v2(
            path: u32, path_len: u32, argv: u32, argv_len: u32, env: u32, env_len: u32,
            stdin: u32, stdout: u32, stderr: u32, cwd: u32, cwd_len: u32, out: u32,
        );
        errno proc_spawn_v3(
            path: u32, path_len: u32, argv: u32, argv_len: u32, env: u32, env_len: u32,
            actions: u32, actions_len: u32, cwd: u32, cwd_len: u32, flags: u32,
            default_lo: u32, default_hi: u32, mask_lo: u32, mask_hi: u32, pgroup: i32, out: u32,
        );
        errno proc_exec(
            path: u32, path_len: u32, argv: u32, argv_len: u32, env: u32, env_len: u32,
            close: u32, close_count: u32,
        );
        errno proc_fexec(
            fd: i32, argv: u32, argv_len: u32, env: u32, env_len: u32,
            close: u32, close_count: u32,
        );
    }
    // More parameters than `func_wrap` takes.
    let engine = linker.engine().clone();
    let ty = FuncType::new(&engine, vec![ValType::I32; 21], [ValType::I32]);
    linker.func_new(
        "host_process",
        "proc_spawn_v4",
        ty,
        |mut caller: Caller<'_, Guest>, params: &[Val], results: &mut [Val]| {
            let mut args = [0u32; 21];
            for (arg, param) in args.iter_mut().zip(params) {
                *arg = param.unwrap_i32() as u32;
            }
            let errno = call::errno(&mut caller, |view| proc_spawn_v4(view, &args))?;
            if let Some(result) = results.first_mut() {
                *result = Val::I32(errno as i32);
            }
            Ok(())
        },
    )?;
    Ok(())
}

/// A range of guest memory as a call passes it.
#[derive(Clone, Copy)]
struct Range(u32, u32);

/// What all spawn calls have in common.
struct Spawn {
    path: Range,
    argv: Range,
    env: Range,
    cwd: Range,
    out: u32,
}

/// What only the later ones say.
struct Options<'a> {
    search: Search<'a>,
    actions: Vec<FileAction>,
    attrs: SpawnAttrs,
}

fn start(v: &mut View<'_>, spawn: &Spawn, options: Options<'_>) -> kernel::Result<u32> {
    let Range(ptr, len) = spawn.argv;
    let mut argv = strings(v.memory.slice(ptr, len)?);
    let Range(ptr, len) = spawn.env;
    let env = environment(v.memory.slice(ptr, len)?);
    let path = v.bare_path(spawn.path.0, spawn.path.1)?;
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    if argv.is_empty() {
        argv.push(path.to_vec());
    }
    let cwd = v.bare_path(spawn.cwd.0, spawn.cwd.1)?;
    v.task().spawn(SpawnArgs {
        path,
        search: options.search,
        argv,
        env,
        cwd: (!cwd.is_empty()).then_some(cwd),
        actions: options.actions,
        attrs: options.attrs,
    })
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn proc_spawn(
    v: &mut View<'_>,
    argv: u32,
    argv_len: u32,
    env: u32,
    env_len: u32,
    stdin: u32,
    stdout: u32,
    stderr: u32,
    cwd: u32,
    cwd_len: u32,
    out: u32,
) -> Done {
    // The command is the first argument; without a NUL behind it there is none.
    let name = v.memory.slice(argv, argv_len)?;
    let len = name
        .iter()
        .position(|byte| *byte == 0)
        .filter(|len| *len > 0);
    let len = len.ok_or(Errno::EFAULT)? as u32;
    proc_spawn_v2(
        v, argv, len, argv, argv_len, env, env_len, stdin, stdout, stderr, cwd, cwd_len, out,
    )
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn proc_spawn_v2(
    v: &mut View<'_>,
    path: u32,
    path_len: u32,
    argv: u32,
    argv_len: u32,
    env: u32,
    env_len: u32,
    stdin: u32,
    stdout: u32,
    stderr: u32,
    cwd: u32,
    cwd_len: u32,
    out: u32,
) -> Done {
    v.memory.check(out, 4)?;
    check_sizes(argv_len, env_len, 0)?;
    let spawn = Spawn {
        path: Range(path, path_len),
        argv: Range(argv, argv_len),
        env: Range(env, env_len),
        cwd: Range(cwd, cwd_len),
        out,
    };
    let task = v.guest.task.clone();
    let streams = Streams::new(&task, [stdin, stdout, stderr])?;
    let actions = streams.actions.clone();
    let options = Options {
        search: Search::Env,
        actions,
        attrs: SpawnAttrs::default(),
    };
    let pid = start(v, &spawn, options)?;
    Ok(v.memory.put_u32(spawn.out, pid)?)
}

/// File actions that give a child its three streams.
///
/// Each number names a descriptor of the parent, also 0 to 2 crosswise, while actions are applied
/// one after the other. So a standard stream that goes somewhere else is first duplicated here,
/// out of the way, and the duplicate closed again once the child has it.
struct Streams<'t> {
    task: &'t Task,
    actions: Vec<FileAction>,
    duplicates: Vec<i32>,
}

impl<'t> Streams<'t> {
    fn new(task: &'t Task, sources: [u32; 3]) -> kernel::Result<Streams<'t>> {
        let mut streams = Streams {
            task,
            actions: Vec::new(),
            duplicates: Vec::new(),
        };
        for (target, source) in (0..).zip(sources) {
            if source == target as u32 {
                continue;
            }
            if source == CLOSED {
                // Already closed is as good.
                if task.getfd(target).is_ok() {
                    streams.actions.push(FileAction::Close(target));
                }
                continue;
            }
            let mut from = i32::try_from(source).map_err(|_| Errno::EBADF)?;
            if from <= 2 {
                from = task.dup_min(from, 3)?;
                streams.duplicates.push(from);
                task.setfd(from, true)?;
            }
            streams.actions.push(FileAction::Dup2 { from, to: target });
        }
        Ok(streams)
    }
}

impl Drop for Streams<'_> {
    fn drop(&mut self) {
        for fd in &self.duplicates {
            // Only this thread has the number, so it is open.
            let _ = self.task.close(*fd);
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn proc_spawn_v3(
    v: &mut View<'_>,
    path: u32,
    path_len: u32,
    argv: u32,
    argv_len: u32,
    env: u32,
    env_len: u32,
    actions: u32,
    actions_len: u32,
    cwd: u32,
    cwd_len: u32,
    flags: u32,
    default_lo: u32,
    default_hi: u32,
    mask_lo: u32,
    mask_hi: u32,
    pgroup: i32,
    out: u32,
) -> Done {
    v.memory.check(out, 4)?;
    check_sizes(argv_len, env_len, actions_len)?;
    let spawn = Spawn {
        path: Range(path, path_len),
        argv: Range(argv, argv_len),
        env: Range(env, env_len),
        cwd: Range(cwd, cwd_len),
        out,
    };
    let options = Options {
        search: Search::Env,
        actions: file_actions(v.memory.slice(actions, actions_len)?)?,
        attrs: attributes(
            flags,
            set(default_lo, default_hi),
            set(mask_lo, mask_hi),
            pgroup,
        )?,
    };
    let pid = start(v, &spawn, options)?;
    Ok(v.memory.put_u32(spawn.out, pid)?)
}

/// `posix_spawn` and `posix_spawnp` with everything: the parameters of version 3 with a search
/// path after the working directory and a scheduling policy and priority after the group.
fn proc_spawn_v4(v: &mut View<'_>, args: &[u32; 21]) -> Done {
    let [
        path,
        path_len,
        argv,
        argv_len,
        env,
        env_len,
        actions,
        actions_len,
        cwd,
        cwd_len,
        search,
        search_len,
        flags,
        default_lo,
        default_hi,
        mask_lo,
        mask_hi,
        pgroup,
        policy,
        priority,
        out,
    ] = *args;
    v.memory.check(out, 4)?;
    check_sizes(argv_len, env_len, actions_len)?;
    let spawn = Spawn {
        path: Range(path, path_len),
        argv: Range(argv, argv_len),
        env: Range(env, env_len),
        cwd: Range(cwd, cwd_len),
        out,
    };
    let attrs = attributes(
        flags,
        set(default_lo, default_hi),
        set(mask_lo, mask_hi),
        pgroup as i32,
    )?;
    if flags & attr::SETSID != 0 && flags & attr::SETPGROUP != 0 {
        return Err(Errno::EPERM.into());
    }
    // There is one policy, SCHED_OTHER, and it has one priority.
    if flags & (attr::SETSCHEDPARAM | attr::SETSCHEDULER) != 0 && priority != 0 {
        return Err(Errno::EINVAL.into());
    }
    if flags & attr::SETSCHEDULER != 0 && policy != 0 {
        return Err(Errno::EPERM.into());
    }
    let search_path;
    let search = if search == 0 {
        Search::Never
    } else {
        search_path = v.bare_path(search, search_len)?.to_vec();
        Search::Path(&search_path)
    };
    let actions = file_actions(v.memory.slice(actions, actions_len)?)?;
    let pid = start(
        v,
        &spawn,
        Options {
            search,
            actions,
            attrs,
        },
    )?;
    Ok(v.memory.put_u32(spawn.out, pid)?)
}

fn attributes(
    flags: u32,
    default: SigSet,
    mask: SigSet,
    pgroup: i32,
) -> kernel::Result<SpawnAttrs> {
    if flags & !attr::ALL != 0 {
        return Err(Errno::ENOTSUP);
    }
    let pgroup = if flags & attr::SETPGROUP != 0 {
        Some(u32::try_from(pgroup).map_err(|_| Errno::EINVAL)?)
    } else {
        None
    };
    Ok(SpawnAttrs {
        pgroup,
        sigmask: Some(mask),
        sigdefault: if flags & attr::SETSIGDEF != 0 {
            default
        } else {
            SigSet::EMPTY
        },
        setsid: flags & attr::SETSID != 0,
        resetids: flags & attr::RESETIDS != 0,
    })
}

/// Arguments, environment and closed descriptors of an exec call.
struct Exec {
    argv: Vec<Vec<u8>>,
    env: Vec<Vec<u8>>,
    close: Vec<i32>,
}

impl Exec {
    fn read(v: &View<'_>, argv: Range, env: Range, close: Range) -> kernel::Result<Exec> {
        check_sizes(argv.1, env.1, 0)?;
        if close.1 > MAX_CLOSE {
            return Err(Errno::E2BIG);
        }
        let close = v.memory.u32s(close.0, close.1)?;
        Ok(Exec {
            argv: strings(v.memory.slice(argv.0, argv.1)?),
            env: environment(v.memory.slice(env.0, env.1)?),
            close: close
                .map(|fd| i32::try_from(fd).map_err(|_| Errno::EBADF))
                .collect::<kernel::Result<_>>()?,
        })
    }

    /// The directory the guest believes it is in. Its `chdir` never reaches the kernel, so this
    /// is the first the kernel hears of it; exec keeps the working directory, hence the move.
    fn working_directory(&self) -> Option<&[u8]> {
        let pwd = self
            .env
            .iter()
            .rev()
            .find_map(|entry| entry.strip_prefix(b"PWD="))?;
        pwd.starts_with(b"/").then_some(pwd)
    }

    /// Runs `exec` in the guest's working directory, and goes back if it fails.
    fn run(
        self,
        task: &Task,
        exec: impl FnOnce(Vec<Vec<u8>>, Vec<Vec<u8>>, &[i32]) -> kernel::Result<ExecCommitted>,
    ) -> Done {
        let before = task.cwd();
        let moved = self
            .working_directory()
            .is_some_and(|pwd| pwd != before && task.chdir(pwd).is_ok());
        match exec(self.argv, self.env, &self.close) {
            Ok(_committed) => Err(End::Exec.into()),
            Err(errno) => {
                if moved {
                    // It was the working directory a moment ago; if it is gone now, there is
                    // nothing better to do.
                    let _ = task.chdir(&before);
                }
                Err(errno.into())
            }
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn proc_exec(
    v: &mut View<'_>,
    path: u32,
    path_len: u32,
    argv: u32,
    argv_len: u32,
    env: u32,
    env_len: u32,
    close: u32,
    close_count: u32,
) -> Done {
    let mut exec = Exec::read(
        v,
        Range(argv, argv_len),
        Range(env, env_len),
        Range(close, close_count),
    )?;
    let path = v.bare_path(path, path_len)?;
    if path.is_empty() {
        return Err(Errno::ENOENT.into());
    }
    if exec.argv.is_empty() {
        exec.argv.push(path.to_vec());
    }
    let task = v.task();
    exec.run(task, |argv, env, close| {
        task.exec_search(path, Search::Env, argv, env, close)
    })
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn proc_fexec(
    v: &mut View<'_>,
    fd: i32,
    argv: u32,
    argv_len: u32,
    env: u32,
    env_len: u32,
    close: u32,
    close_count: u32,
) -> Done {
    let exec = Exec::read(
        v,
        Range(argv, argv_len),
        Range(env, env_len),
        Range(close, close_count),
    )?;
    let task = v.task();
    exec.run(task, |argv, env, close| task.fexec(fd, argv, env, close))
}
