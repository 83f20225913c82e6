//! `host_system`: the names of the machine.

use crate::call::imports;
use crate::guest::{Done, Guest, View};
use kernel::Errno;
use wasmtime::{Linker, Result};

/// Defines every function of the module.
pub(crate) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_system";
        errno get_identity(field: u32, buf: u32, cap: u32);
    }
    Ok(())
}

fn get_identity(v: &mut View<'_>, field: u32, buf: u32, cap: u32) -> Done {
    v.memory.check(buf, cap)?;
    let names = v.task().uname();
    let name = match field {
        0 => names.nodename,
        1 => names.sysname,
        2 => names.release,
        3 => names.version,
        4 => names.machine,
        5 => names.domainname,
        _ => return Err(Errno::EINVAL.into()),
    };
    if name.len() >= cap as usize {
        return Err(Errno::ENAMETOOLONG.into());
    }
    let len = name.len() as u32;
    v.memory.write(buf, &name)?;
    v.memory.write(buf + len, &[0])?;
    Ok(())
}
