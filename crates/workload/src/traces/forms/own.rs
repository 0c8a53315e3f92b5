//! Our own form: one session per line, without text. `dataset --trace --export` writes it.

use super::super::flaw::{Flaw, FlawKind};
use super::super::form::{self, Form, Found, Setting, TraceClock};
use super::super::stream::Row;
use crate::session::{Piece, Session};

pub(in super::super) const FORM: Form = Form {
    name: "tokometer",
    is: |names| names.have(&["turns"]),
    read,
    clock: TraceClock::Session,
};

fn read(row: Row<'_>, _: &Setting, found: &mut Found) -> Result<(), Flaw> {
    let session: Session = form::json(row)?;
    let is_empty = |piece: &Piece| matches!(piece, Piece::Made { tokens: 0, .. });
    for (number, turn) in session.turns().iter().enumerate() {
        if turn.pieces.is_empty()
            || turn.pieces.iter().any(is_empty)
            || turn.answer_tokens == Some(0)
        {
            let text = format!("turn {number} has a prompt, a piece or an answer of 0 tokens");
            return Err(FlawKind::ZeroLength.with(text));
        }
    }
    found.sessions.push(session);
    Ok(())
}
