//! Extended attributes, by path and by descriptor.
//!
//! The size of an answer is always written. Room for 0 bytes asks for the size alone; too little
//! room is `ERANGE`.

use crate::call::imports;
use crate::guest::{Done, Guest, View};
use crate::preview1::follow;
use kernel::Errno;
use wasmtime::{Linker, Result};

/// Longest attribute name (`XATTR_NAME_MAX`).
const MAX_NAME: u32 = 255;
/// Longest value (`XATTR_SIZE_MAX`).
const MAX_VALUE: u32 = 64 << 10;

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_fs";
        errno path_getxattr(
            dirfd: u32, ptr: u32, len: u32, name: u32, name_len: u32,
            value: u32, cap: u32, follow: u32, out: u32,
        );
        errno fd_getxattr(fd: i32, name: u32, name_len: u32, value: u32, cap: u32, out: u32);
        errno path_listxattr(dirfd: u32, ptr: u32, len: u32, list: u32, cap: u32, follow: u32, out: u32);
        errno fd_listxattr(fd: i32, list: u32, cap: u32, out: u32);
        errno path_setxattr(
            dirfd: u32, ptr: u32, len: u32, name: u32, name_len: u32,
            value: u32, value_len: u32, flags: u32, follow: u32,
        );
        errno fd_setxattr(
            fd: i32, name: u32, name_len: u32, value: u32, value_len: u32, flags: u32,
        );
        errno path_removexattr(
            dirfd: u32, ptr: u32, len: u32, name: u32, name_len: u32, follow: u32,
        );
        errno fd_removexattr(fd: i32, name: u32, name_len: u32);
    }
    Ok(())
}

fn name<'v>(v: &'v View<'_>, ptr: u32, len: u32) -> kernel::Result<&'v [u8]> {
    if len == 0 || len > MAX_NAME {
        return Err(Errno::EINVAL);
    }
    v.bare_path(ptr, len)
}

fn value<'v>(v: &'v View<'_>, ptr: u32, len: u32) -> kernel::Result<&'v [u8]> {
    if len > MAX_VALUE {
        return Err(Errno::E2BIG);
    }
    v.memory.slice(ptr, len)
}

/// Writes an answer of variable size.
fn answer(v: &mut View<'_>, bytes: &[u8], buf: u32, cap: u32, out: u32) -> Done {
    v.memory.put_u32(
        out,
        u32::try_from(bytes.len()).map_err(|_| Errno::EOVERFLOW)?,
    )?;
    if cap == 0 {
        return Ok(());
    }
    if bytes.len() > cap as usize {
        return Err(Errno::ERANGE.into());
    }
    Ok(v.memory.write(buf, bytes)?)
}

fn names(list: &[Vec<u8>]) -> Vec<u8> {
    list.iter()
        .flat_map(|name| name.iter().copied().chain([0]))
        .collect()
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn path_getxattr(
    v: &mut View<'_>,
    dirfd: u32,
    ptr: u32,
    len: u32,
    name_ptr: u32,
    name_len: u32,
    buf: u32,
    cap: u32,
    lookup: u32,
    out: u32,
) -> Done {
    v.memory.check(out, 4)?;
    v.memory.check(buf, cap)?;
    let (dir, path) = v.path(dirfd, ptr, len)?;
    let attribute = name(v, name_ptr, name_len)?;
    let bytes = v
        .task()
        .getxattrat(dir, path, attribute, follow(lookup != 0))?;
    answer(v, &bytes, buf, cap, out)
}

fn fd_getxattr(
    v: &mut View<'_>,
    fd: i32,
    name_ptr: u32,
    name_len: u32,
    buf: u32,
    cap: u32,
    out: u32,
) -> Done {
    v.memory.check(out, 4)?;
    v.memory.check(buf, cap)?;
    let bytes = v.task().fgetxattr(fd, name(v, name_ptr, name_len)?)?;
    answer(v, &bytes, buf, cap, out)
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn path_listxattr(
    v: &mut View<'_>,
    dirfd: u32,
    ptr: u32,
    len: u32,
    buf: u32,
    cap: u32,
    lookup: u32,
    out: u32,
) -> Done {
    v.memory.check(out, 4)?;
    v.memory.check(buf, cap)?;
    let (dir, path) = v.path(dirfd, ptr, len)?;
    let list = v.task().listxattrat(dir, path, follow(lookup != 0))?;
    answer(v, &names(&list), buf, cap, out)
}

fn fd_listxattr(v: &mut View<'_>, fd: i32, buf: u32, cap: u32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    v.memory.check(buf, cap)?;
    let list = v.task().flistxattr(fd)?;
    answer(v, &names(&list), buf, cap, out)
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn path_setxattr(
    v: &mut View<'_>,
    dirfd: u32,
    ptr: u32,
    len: u32,
    name_ptr: u32,
    name_len: u32,
    value_ptr: u32,
    value_len: u32,
    flags: u32,
    lookup: u32,
) -> Done {
    let (dir, path) = v.path(dirfd, ptr, len)?;
    let attribute = name(v, name_ptr, name_len)?;
    let bytes = value(v, value_ptr, value_len)?;
    Ok(v.task()
        .setxattrat(dir, path, attribute, bytes, flags, follow(lookup != 0))?)
}

fn fd_setxattr(
    v: &mut View<'_>,
    fd: i32,
    name_ptr: u32,
    name_len: u32,
    value_ptr: u32,
    value_len: u32,
    flags: u32,
) -> Done {
    let attribute = name(v, name_ptr, name_len)?;
    let bytes = value(v, value_ptr, value_len)?;
    Ok(v.task().fsetxattr(fd, attribute, bytes, flags)?)
}

fn path_removexattr(
    v: &mut View<'_>,
    dirfd: u32,
    ptr: u32,
    len: u32,
    name_ptr: u32,
    name_len: u32,
    lookup: u32,
) -> Done {
    let (dir, path) = v.path(dirfd, ptr, len)?;
    let attribute = name(v, name_ptr, name_len)?;
    Ok(v.task()
        .removexattrat(dir, path, attribute, follow(lookup != 0))?)
}

fn fd_removexattr(v: &mut View<'_>, fd: i32, name_ptr: u32, name_len: u32) -> Done {
    Ok(v.task().fremovexattr(fd, name(v, name_ptr, name_len)?)?)
}
