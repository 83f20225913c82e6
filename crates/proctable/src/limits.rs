//! The limits of this crate: their table, their values for one VM, and the meters that keep them.
//!
//! A limit has a name, a default, an error the guest sees and an attack it stops; [`LIMITS`] is
//! the one place that says so, and the documentation is made from it. A [`Meter`] counts against
//! one limit. It tells [`LimitEvents`] once when 80 % are used, again only after use fell below
//! half, and every time something is refused.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vfs_core::errno::Errno;

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
}

/// What a limit is counted over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole VM.
    Vm,
    /// One process.
    Process,
    /// One pipe, socket or message.
    Object,
}

/// One row of the limit table.
#[derive(Clone, Copy, Debug)]
pub struct LimitSpec {
    /// Name in configuration, events and messages.
    pub name: &'static str,
    /// Value when nothing else is configured.
    pub default: u64,
    /// What is counted.
    pub unit: Unit,
    /// Over what.
    pub scope: Scope,
    /// What the guest sees at the limit.
    pub error: Errno,
    /// What it protects from.
    pub stops: &'static str,
}

macro_rules! limits {
    ($($field:ident $name:literal $default:expr, $unit:ident, $scope:ident, $error:ident, $stops:literal;)*) => {
        /// Every limit of this crate.
        pub const LIMITS: &[LimitSpec] = &[$(LimitSpec {
            name: $name,
            default: $default,
            unit: Unit::$unit,
            scope: Scope::$scope,
            error: Errno::$error,
            stops: $stops,
        }),*];

        /// The limits of one VM, as configured.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct ProcLimits {
            $(#[doc = concat!("`", $name, "`: ", $stops, ".")] pub $field: u64,)*
        }

        impl Default for ProcLimits {
            fn default() -> ProcLimits {
                ProcLimits { $($field: $default,)* }
            }
        }

        impl ProcLimits {
            /// The value of the limit called `name`.
            pub fn get(&self, name: &str) -> Option<u64> {
                match name { $($name => Some(self.$field),)* _ => None }
            }

            /// Sets the limit called `name`; returns whether there is one.
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name { $($name => self.$field = value,)* _ => return false }
                true
            }
        }
    };
}

limits! {
    processes "processes" 1024, Count, Vm, EAGAIN,
        "fork bombs; each process is a thread of the host";
    pid_max "processes.pid_max" 32768, Count, Vm, EAGAIN,
        "nothing by itself; process ids start again after this one";
    descriptors "descriptors" 4096, Count, Process, EMFILE,
        "descriptor leaks; the hard RLIMIT_NOFILE, of which 1024 are the soft one";
    descriptors_total "descriptors.total" 65536, Count, Vm, ENFILE,
        "many processes that each hold many descriptors";
    pipes "pipes" 1024, Count, Vm, ENFILE,
        "pipe floods; each pipe may hold 64 KiB of host memory";
    pipe_max_bytes "pipe.max_bytes" 64 << 20, Bytes, Object, ENOSPC,
        "a pipe nobody drains growing without end";
    pipe_total_bytes "pipe.total_bytes" 256 << 20, Bytes, Vm, ENOSPC,
        "many grown pipes; counts what pipes hold beyond 64 KiB each";
    signals_pending "signals.pending" 8192, Count, Vm, EAGAIN,
        "queues of real-time signals; the hard RLIMIT_SIGPENDING of the VM";
    sockets "sockets" 1024, Count, Vm, ENFILE,
        "socket floods; each pair may hold twice 208 KiB of host memory";
    socket_rights "socket.rights" 1024, Count, Vm, EMFILE,
        "descriptors parked in sockets, where no table counts them";
    ptys "ptys" 256, Count, Vm, ENOSPC,
        "terminal floods; each may hold 130 KiB of host memory";
}

/// The row of the limit called `name`.
pub fn spec(name: &str) -> Option<&'static LimitSpec> {
    LIMITS.iter().find(|l| l.name == name)
}

/// Something was refused because of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit {name} reached: {used} of {limit} in use, {requested} more asked for")]
pub struct LimitExceeded {
    /// Which limit.
    pub name: &'static str,
    /// Its value.
    pub limit: u64,
    /// What was in use.
    pub used: u64,
    /// What was asked for in addition.
    pub requested: u64,
    /// What the guest sees.
    pub errno: Errno,
}

impl From<LimitExceeded> for Errno {
    fn from(exceeded: LimitExceeded) -> Errno {
        exceeded.errno
    }
}

/// Whoever wants to know of limits. Called from the thread that ran into one, sometimes under
/// locks of this crate: note it and return; do not call back.
pub trait LimitEvents: Send + Sync {
    /// 80 % of a limit are in use; `used` includes what was just granted.
    fn near(&self, name: &'static str, used: u64, limit: u64);

    /// Something was refused.
    fn reached(&self, exceeded: &LimitExceeded);
}

/// Drops every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl LimitEvents for NoEvents {
    fn near(&self, _: &'static str, _: u64, _: u64) {}
    fn reached(&self, _: &LimitExceeded) {}
}

/// Remembers whether the 80 % warning was given.
#[derive(Debug, Default)]
pub struct Watermark(AtomicBool);

impl Watermark {
    /// Whether use that has risen to `used` is worth a warning now.
    pub fn rise(&self, used: u64, limit: u64) -> bool {
        // 128-bit: limits may be "none", which is the highest number.
        u128::from(used) * 5 >= u128::from(limit) * 4
            && !self.0.load(Ordering::Relaxed)
            && !self.0.swap(true, Ordering::Relaxed)
    }

    /// Use has fallen to `used`; below half the warning is armed again.
    pub fn fall(&self, used: u64, limit: u64) {
        if self.0.load(Ordering::Relaxed) && used < limit / 2 {
            self.0.store(false, Ordering::Relaxed);
        }
    }
}

/// A running count against one limit.
pub struct Meter {
    spec: &'static LimitSpec,
    limit: u64,
    used: AtomicU64,
    watermark: Watermark,
    events: Arc<dyn LimitEvents>,
}

impl Meter {
    /// A meter for the limit `name` of [`LIMITS`] with the value `limit`; `None` if there is no
    /// such limit.
    pub fn new(name: &str, limit: u64, events: Arc<dyn LimitEvents>) -> Option<Arc<Meter>> {
        let spec = spec(name)?;
        Some(Arc::new(Meter {
            spec,
            limit,
            used: AtomicU64::new(0),
            watermark: Watermark::default(),
            events,
        }))
    }

    /// Takes `n`, or refuses and reports.
    pub fn acquire(&self, n: u64) -> Result<(), LimitExceeded> {
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(n).filter(|sum| *sum <= self.limit)
            });
        match taken {
            Ok(before) => {
                let used = before + n;
                if self.watermark.rise(used, self.limit) {
                    self.events.near(self.spec.name, used, self.limit);
                }
                Ok(())
            }
            Err(used) => {
                let exceeded = LimitExceeded {
                    name: self.spec.name,
                    limit: self.limit,
                    used,
                    requested: n,
                    errno: self.spec.error,
                };
                self.events.reached(&exceeded);
                Err(exceeded)
            }
        }
    }

    /// Gives back `n` that were taken.
    pub fn release(&self, n: u64) {
        let before = self.used.fetch_sub(n, Ordering::Relaxed);
        debug_assert!(
            before >= n,
            "{} released more than was taken",
            self.spec.name
        );
        self.watermark.fall(before.saturating_sub(n), self.limit);
    }

    /// Reports a refusal because of another limit, which needs no running count, to the same
    /// listener, and gives the error for the guest.
    pub(crate) fn refuse(&self, name: &str, limit: u64, used: u64, requested: u64) -> Errno {
        let spec = spec(name).unwrap_or(self.spec);
        let exceeded = LimitExceeded {
            name: spec.name,
            limit,
            used,
            requested,
            errno: spec.error,
        };
        self.events.reached(&exceeded);
        exceeded.errno
    }

    /// What is in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The limit.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Name of the limit.
    pub fn name(&self) -> &'static str {
        self.spec.name
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter")
            .field("name", &self.spec.name)
            .field("used", &self.used())
            .field("limit", &self.limit)
            .finish()
    }
}

/// The meters of one VM, shared by everything that counts.
#[derive(Clone, Debug)]
pub struct Meters {
    /// `processes`.
    pub processes: Arc<Meter>,
    /// `descriptors.total`.
    pub descriptors: Arc<Meter>,
    /// `pipes`.
    pub pipes: Arc<Meter>,
    /// `pipe.total_bytes`.
    pub pipe_bytes: Arc<Meter>,
    /// `signals.pending`.
    pub signals: Arc<Meter>,
    /// `sockets`.
    pub sockets: Arc<Meter>,
    /// `socket.rights`.
    pub socket_rights: Arc<Meter>,
    /// `ptys`.
    pub ptys: Arc<Meter>,
}

impl Meters {
    /// Meters for `limits` that report to `events`.
    pub fn new(limits: &ProcLimits, events: &Arc<dyn LimitEvents>) -> Meters {
        let meter = |spec: &'static LimitSpec| {
            Arc::new(Meter {
                spec,
                limit: limits.get(spec.name).unwrap_or(spec.default),
                used: AtomicU64::new(0),
                watermark: Watermark::default(),
                events: events.clone(),
            })
        };
        const fn row(name: &str) -> &'static LimitSpec {
            let mut i = 0;
            while i < LIMITS.len() {
                if str_eq(LIMITS[i].name, name) {
                    return &LIMITS[i];
                }
                i += 1;
            }
            panic!("no such limit")
        }
        Meters {
            processes: meter(const { row("processes") }),
            descriptors: meter(const { row("descriptors.total") }),
            pipes: meter(const { row("pipes") }),
            pipe_bytes: meter(const { row("pipe.total_bytes") }),
            signals: meter(const { row("signals.pending") }),
            sockets: meter(const { row("sockets") }),
            socket_rights: meter(const { row("socket.rights") }),
            ptys: meter(const { row("ptys") }),
        }
    }
}

/// `==` for strings at compile time.
const fn str_eq(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Log(Mutex<Vec<String>>);

    impl LimitEvents for Log {
        fn near(&self, name: &'static str, used: u64, limit: u64) {
            self.0
                .lock()
                .unwrap()
                .push(format!("near {name} {used}/{limit}"));
        }
        fn reached(&self, e: &LimitExceeded) {
            self.0.lock().unwrap().push(format!(
                "reached {} {}+{}/{}",
                e.name, e.used, e.requested, e.limit
            ));
        }
    }

    #[test]
    fn warns_once_at_eighty_percent_and_again_after_half() {
        let log = Arc::new(Log::default());
        let meter = Meter::new("pipes", 10, log.clone()).unwrap();
        for _ in 0..10 {
            meter.acquire(1).unwrap();
        }
        assert_eq!(meter.acquire(1).unwrap_err().errno, Errno::ENFILE);
        meter.release(5);
        meter.acquire(4).unwrap();
        assert_eq!(
            *log.0.lock().unwrap(),
            ["near pipes 8/10", "reached pipes 10+1/10"]
        );
        meter.release(5);
        meter.acquire(5).unwrap();
        assert_eq!(log.0.lock().unwrap().len(), 3);
    }

    #[test]
    fn every_name_can_be_set_and_read() {
        let mut limits = ProcLimits::default();
        for (i, spec) in LIMITS.iter().enumerate() {
            assert_eq!(limits.get(spec.name), Some(spec.default));
            assert!(limits.set(spec.name, i as u64));
            assert_eq!(limits.get(spec.name), Some(i as u64));
        }
        assert!(!limits.set("nothing", 1));
    }
}
