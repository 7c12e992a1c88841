//! Tearing: a long put or get as the words that it consists of.
//!
//! The memory model promises nothing about longer accesses but that an aligned element of 8 bytes
//! is never torn. So a torn operation is one operation for each aligned word that it touches, which
//! land in any order.

use farside_fabric::Piece;

use crate::body::Body;

/// The most bytes that are never torn.
const WORD: u64 = 8;

/// The parts of an operation that is torn; `None` if it stays whole.
pub(crate) fn parts(body: &Body) -> Option<Vec<Body>> {
    let words = |pieces: &[Piece]| {
        let words: Vec<Piece> = pieces.iter().flat_map(|piece| split(*piece)).collect();
        (words.len() > 1).then_some(words)
    };
    match body {
        Body::Put { segment, pieces, bytes } => {
            let mut rest = &bytes[..];
            let part = |piece: Piece| {
                let (part, after) = rest.split_at(piece.bytes as usize);
                rest = after;
                Body::Put { segment: *segment, pieces: vec![piece], bytes: part.to_vec() }
            };
            Some(words(pieces)?.into_iter().map(part).collect())
        }
        Body::Get { segment, pieces, into } => {
            let mut into = *into;
            let part = |piece: Piece| {
                let body = Body::Get { segment: *segment, pieces: vec![piece], into };
                into = into.wrapping_add(piece.bytes as usize);
                body
            };
            Some(words(pieces)?.into_iter().map(part).collect())
        }
        _ => None,
    }
}

/// A piece, cut where aligned words meet.
fn split(piece: Piece) -> impl Iterator<Item = Piece> {
    let (mut offset, end) = (piece.offset, piece.offset + piece.bytes);
    std::iter::from_fn(move || {
        let next = end.min((offset / WORD + 1) * WORD);
        let piece = Piece { offset, bytes: next - offset };
        offset = next;
        (piece.bytes > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_at_aligned_words() {
        let cut = |offset, bytes| {
            split(Piece { offset, bytes })
                .map(|piece| (piece.offset, piece.bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(cut(8, 8), [(8, 8)]);
        assert_eq!(cut(4, 14), [(4, 4), (8, 8), (16, 2)]);
        assert_eq!(cut(16, 16), [(16, 8), (24, 8)]);
        assert_eq!(cut(3, 0), []);
    }
}
