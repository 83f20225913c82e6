//! What is done to both terminals.

use proptest::prelude::*;
use pty::termios::*;

/// One step.
#[derive(Clone)]
pub(crate) enum Op {
    /// Bytes typed at the master.
    Type(Vec<u8>),
    /// Bytes written to the slave.
    Write(Vec<u8>),
    /// A read of so many bytes from the slave, not blocking.
    Read(usize),
    /// New modes.
    Modes(Termios, When),
    /// Queues emptied from the slave.
    Flush(Queue),
    /// The window set to so many rows.
    Rows(u16),
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Op::Type(bytes) => write!(f, "Type(b\"{}\")", bytes.escape_ascii()),
            Op::Write(bytes) => write!(f, "Write(b\"{}\")", bytes.escape_ascii()),
            Op::Read(n) => write!(f, "Read({n})"),
            Op::Modes(m, when) => write!(
                f,
                "Modes({:?} {:?} {:?} {:?}, {when:?})",
                m.iflag, m.oflag, m.lflag, m.cc
            ),
            Op::Flush(queue) => write!(f, "Flush({queue:?})"),
            Op::Rows(rows) => write!(f, "Rows({rows})"),
        }
    }
}

/// Bytes that mean something to the line discipline, with plain ones between them.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        6 => prop::sample::select(b"abc dE_9.".to_vec()),
        5 => prop::sample::select(vec![
            0x03u8, 0x04, 0x08, 0x09, 0x0a, 0x0d, 0x11, 0x12, 0x13, 0x15, 0x16, 0x17, 0x1a, 0x1c,
            0x7f, 0x00, 0x1b, b'\\', b'/', b'#', b'@',
        ]),
        2 => prop::sample::select("żé€😀".as_bytes().to_vec()),
        1 => any::<u8>(),
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(byte(), 0..24),
        1 => prop::collection::vec(byte(), 0..200),
    ]
}

fn modes() -> impl Strategy<Value = Termios> {
    let iflags = prop::sample::subsequence(
        vec![
            Iflag::ISTRIP,
            Iflag::INLCR,
            Iflag::IGNCR,
            Iflag::ICRNL,
            Iflag::IUCLC,
            Iflag::IXON,
            Iflag::IXANY,
            Iflag::IUTF8,
            Iflag::PARMRK,
        ],
        0..6,
    );
    let oflags = prop::sample::subsequence(
        vec![
            Oflag::OPOST,
            Oflag::OLCUC,
            Oflag::ONLCR,
            Oflag::OCRNL,
            Oflag::ONOCR,
            Oflag::ONLRET,
            Oflag::XTABS,
        ],
        0..7,
    );
    let lflags = prop::sample::subsequence(
        vec![
            Lflag::ISIG,
            Lflag::ECHOE,
            Lflag::ECHOK,
            Lflag::ECHONL,
            Lflag::NOFLSH,
            Lflag::ECHOCTL,
            Lflag::ECHOPRT,
            Lflag::ECHOKE,
            Lflag::IEXTEN,
        ],
        0..9,
    );
    let chars = prop::collection::vec(
        (
            prop::sample::select(vec![VEOL, VEOL2, VERASE, VKILL, VEOF, VINTR, VWERASE]),
            byte(),
        ),
        0..3,
    );
    (
        iflags,
        oflags,
        lflags,
        prop::bool::weighted(0.7),
        prop::bool::weighted(0.8),
        chars,
        prop_oneof![4 => Just(1u8), 1 => Just(0u8), 1 => 2u8..8],
    )
        .prop_map(|(i, o, l, canonical, echo, chars, min)| {
            let mut modes = Termios {
                iflag: i.into_iter().collect(),
                oflag: o.into_iter().collect(),
                lflag: l.into_iter().collect(),
                ..Termios::default()
            };
            modes.lflag.set(Lflag::ICANON, canonical);
            modes.lflag.set(Lflag::ECHO, echo);
            modes.cc[VMIN] = min;
            for (index, byte) in chars {
                modes.cc[index] = byte;
            }
            modes
        })
}

fn op() -> impl Strategy<Value = Op> {
    let when = prop::sample::select(vec![When::Now, When::Drain, When::Flush]);
    let queue = prop::sample::select(vec![Queue::Input, Queue::Output, Queue::Both]);
    prop_oneof![
        8 => bytes().prop_map(Op::Type),
        3 => prop::collection::vec(byte(), 0..40).prop_map(Op::Write),
        5 => prop_oneof![1usize..8, Just(64), Just(200), Just(5000)].prop_map(Op::Read),
        2 => (modes(), when).prop_map(|(m, w)| Op::Modes(m, w)),
        1 => queue.prop_map(Op::Flush),
        1 => (20u16..60).prop_map(Op::Rows),
    ]
}

/// Sequences that mostly begin by setting modes.
pub(crate) fn sequences() -> impl Strategy<Value = Vec<Op>> {
    let modes = || prop::option::weighted(0.7, modes()).prop_map(Option::unwrap_or_default);
    let short = (modes(), prop::collection::vec(op(), 1..12)).prop_map(|(modes, mut ops)| {
        ops.insert(0, Op::Modes(modes, When::Now));
        ops
    });
    prop_oneof![9 => short, 1 => (modes(), long()).prop_map(|(modes, ops)| overflow(modes, ops))]
}

/// One line, or piece of raw input, of about the buffer's size, and reads of it.
fn long() -> impl Strategy<Value = Vec<Op>> {
    let end = prop::sample::select(vec![&b""[..], b"\n", b"x\n", b"\x04", b"xyz"]);
    (
        b'a'..b'd',
        3900usize..4400,
        end,
        prop::collection::vec(1usize..5000, 1..4),
    )
        .prop_map(|(byte, n, end, reads)| {
            let mut bytes = vec![byte; n];
            bytes.extend_from_slice(end);
            let typed = std::iter::once(Op::Type(bytes));
            typed.chain(reads.into_iter().map(Op::Read)).collect()
        })
}

/// What a full buffer does to echo depends on the timing of the host's worker threads, so it is
/// filled without.
fn overflow(mut modes: Termios, mut ops: Vec<Op>) -> Vec<Op> {
    modes.lflag.remove(Lflag::ECHO);
    modes.iflag.remove(Iflag::IXON);
    ops.insert(0, Op::Modes(modes, When::Now));
    ops
}

/// Sequences a person's session is made of, and corners that random ones meet seldom.
pub(crate) fn recorded() -> Vec<Vec<Op>> {
    use Op::*;
    let ty = |s: &[u8]| Type(s.to_vec());
    let with = |change: fn(&mut Termios)| {
        let mut modes = Termios::default();
        change(&mut modes);
        Modes(modes, When::Now)
    };
    let raw = with(Termios::make_raw);
    let utf8 = with(|t| t.iflag |= Iflag::IUTF8);
    let mut long = vec![b'x'; 5000];
    long.push(b'\n');
    vec![
        vec![ty(b"ls -l\r"), Read(100), Write(b"a\tb\n".to_vec())],
        vec![ty(b"lz\x7fs foo bar\x17\x17baz\x15exit\n"), Read(100)],
        vec![ty(b"a\tb\tc\x7f\x7f\x7f\x7fd\n"), Read(100)],
        vec![Write(b"prompt> ".to_vec()), ty(b"\tx\x7f\x7fy\n"), Read(9)],
        vec![ty(b"abc\x04"), Read(3), Read(3), ty(b"\x04"), Read(3)],
        vec![ty(b"abc\x04def\n"), Read(2), Read(10), Read(10)],
        vec![ty(b"\x16\x03\x16\x7f\x16\n\n"), Read(10)],
        vec![ty(b"half"), ty(b"\x03"), ty(b"x\n"), Read(10)],
        vec![ty(b"half\x1c\x1ax\n"), Read(10)],
        vec![ty(b"abc\x12def\n"), Read(10)],
        vec![
            ty(b"\x13abc\n"),
            Write(b"out".to_vec()),
            ty(b"\x11"),
            Write(b"out".to_vec()),
        ],
        vec![
            utf8.clone(),
            ty("zażółć\x7f\x7f\x17x\n".as_bytes()),
            Read(20),
        ],
        vec![ty("zażółć\x7f\x7f\x17x\n".as_bytes()), Read(20)],
        vec![ty(&long), Read(5000), Read(5000)],
        vec![Type(vec![b'y'; 4095]), ty(b"zz\n"), Read(5000)],
        vec![
            raw.clone(),
            ty(b"a\r\x03\x04\x7f\n"),
            Read(3),
            Read(10),
            Write(b"a\nb".to_vec()),
        ],
        vec![ty(b"pending"), raw.clone(), Read(3), Read(10)],
        vec![
            raw.clone(),
            ty(b"pending"),
            with(|_| ()),
            Read(3),
            ty(b"more\n"),
            Read(10),
            Read(10),
        ],
        vec![
            ty(b"one\ntwo\nthree"),
            Read(2),
            Read(9),
            Flush(Queue::Input),
            ty(b"x\n"),
            Read(9),
        ],
        vec![
            with(|t| t.lflag.remove(Lflag::ECHO)),
            ty(b"secret\n"),
            Read(20),
        ],
        vec![
            with(|t| {
                t.lflag.remove(Lflag::ECHO);
                t.lflag |= Lflag::ECHONL;
            }),
            ty(b"secret\n"),
            Read(20),
        ],
        vec![
            with(|t| t.lflag |= Lflag::ECHOPRT),
            ty(b"abc\x7f\x7fd\x7f\n"),
            Read(20),
        ],
        vec![
            with(|t| t.lflag.remove(Lflag::ECHOE | Lflag::ECHOKE)),
            ty(b"ab\x7fc\x15d\n"),
            Read(9),
        ],
        vec![
            with(|t| t.cc[VEOL] = b';'),
            ty(b"a;b\x15c;"),
            Read(9),
            Read(9),
        ],
        vec![
            with(|t| t.cc[VMIN] = 0),
            raw,
            Read(5),
            ty(b"xyz"),
            Read(2),
            Read(2),
            Read(2),
        ],
        vec![Rows(24), Rows(24), Rows(50)],
    ]
}
