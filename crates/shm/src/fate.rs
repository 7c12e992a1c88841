//! What has become of a rank, as a word that others can read.

use farside_fabric::{Ended, Fate};

/// A fate as a word.
pub fn fate_bits(fate: Fate) -> u64 {
    let with = |kind: u64, code: i32| kind | (u64::from(code as u32) << 32);
    match fate {
        Fate::Starting => 0,
        Fate::Alive => 1,
        Fate::Left => 2,
        Fate::Lost(Ended::Signal(signal)) => with(3, signal),
        Fate::Lost(Ended::Status(status)) => with(4, status),
        Fate::Lost(Ended::Panicked) => 5,
        Fate::Lost(Ended::Failed) => 6,
        Fate::Lost(Ended::Left) => 7,
        Fate::Lost(Ended::Silent) => 8,
        Fate::Lost(Ended::Vanished) => 9,
    }
}

/// The fate that a word means.
pub fn fate_from_bits(bits: u64) -> Fate {
    let code = (bits >> 32) as u32 as i32;
    match bits as u32 {
        0 => Fate::Starting,
        1 => Fate::Alive,
        2 => Fate::Left,
        3 => Fate::Lost(Ended::Signal(code)),
        4 => Fate::Lost(Ended::Status(code)),
        5 => Fate::Lost(Ended::Panicked),
        6 => Fate::Lost(Ended::Failed),
        7 => Fate::Lost(Ended::Left),
        9 => Fate::Lost(Ended::Vanished),
        _ => Fate::Lost(Ended::Silent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_survive_packing() {
        let ends = [Ended::Panicked, Ended::Failed, Ended::Left, Ended::Silent, Ended::Vanished];
        for how in ends.into_iter().chain([Ended::Signal(9), Ended::Status(-1)]) {
            assert_eq!(fate_from_bits(fate_bits(Fate::Lost(how))), Fate::Lost(how));
        }
    }
}
