//! A terminal that answers for a cursor nobody has.

/// Looks for the sequence that asks for the cursor position.
#[derive(Default)]
pub(crate) struct CursorReports {
    matched: usize,
}

/// Device Status Report 6 (ECMA-48, 8.3.35): report the active position.
const CURSOR_QUESTION: &[u8] = b"\x1b[6n";
/// The answer of a terminal whose cursor is at home.
pub(crate) const CURSOR_ANSWER: &[u8] = b"\x1b[1;1R";

impl CursorReports {
    /// Whether this byte completes the question.
    pub(crate) fn sees(&mut self, byte: u8) -> bool {
        self.matched = if byte == CURSOR_QUESTION[self.matched] {
            self.matched + 1
        } else {
            usize::from(byte == CURSOR_QUESTION[0])
        };
        let whole = self.matched == CURSOR_QUESTION.len();
        if whole {
            self.matched = 0;
        }
        whole
    }
}
