//! The layout of a group's area: memory that every member has, laid out alike everywhere.

/// How many calls a member remembers, for others to look at.
pub(crate) const HISTORY: u64 = 8;
/// The rounds of the largest group.
pub(crate) const ROUNDS: u64 = 24;
/// Bytes between words that different ranks write.
const LINE: u64 = 128;
/// The scratch space of a step of the flat collectives; there are two. What is never used of it
/// takes no memory.
pub(crate) const SCRATCH_BYTES: u64 = 256 * 1024;
/// The longest message of the tree collectives; each channel has room for two.
pub(crate) const MESSAGE_BYTES: u64 = 256 * 1024;
/// The longest element of a reduction.
pub(crate) const ELEMENT_BYTES: u64 = 16 * 1024;

/// How many non-blocking collectives of a group can be under way.
pub(crate) const PLACES: u32 = 8;
/// The most that one of them reduces.
pub(crate) const PLACE_BYTES: u64 = 4 * 1024;

/// Arrivals at the central barrier; used in the first member's area.
pub(crate) const COUNTER: u64 = 0;
/// The last meeting that this member was released from by another.
pub(crate) const RELEASE: u64 = LINE;
/// Zero, or why there is no use in waiting: a [`Poison`](crate::poison::Poison).
pub(crate) const POISON: u64 = 2 * LINE;
/// How many collectives this member has entered.
pub(crate) const ENTERED: u64 = 3 * LINE;
/// In the area of all ranks: zero, or the loss because of which this one leaves, if it does; a
/// [`Poison`](crate::poison::Poison).
pub(crate) const REASON: u64 = ENTERED + 8;
/// The calls that this member has entered last, four words each.
const CALLS: u64 = 4 * LINE;
const FLAGS: u64 = CALLS + HISTORY * 32;
const ARRIVED: u64 = FLAGS + 2 * ROUNDS * LINE;
const FULL: u64 = ARRIVED + ROUNDS * LINE;
const TAKEN: u64 = FULL + 4 * ROUNDS * LINE;
const SCRATCH: u64 = TAKEN + 2 * ROUNDS * LINE;
const PLACE_COUNTERS: u64 = SCRATCH + 2 * SCRATCH_BYTES;
const PLACE_FLAGS: u64 = PLACE_COUNTERS + PLACES as u64 * LINE;
const PLACE_DATA: u64 = PLACE_FLAGS + PLACES as u64 * LINE;
const MESSAGES: u64 = PLACE_DATA + PLACES as u64 * PLACE_BYTES;

pub(crate) fn call(sequence: u32) -> u64 {
    CALLS + u64::from(sequence) % HISTORY * 32
}

/// Returns the flag of a round of a dissemination. There are two sets, since a neighbour may be one
/// meeting ahead.
pub(crate) fn flag(set: u32, round: u32) -> u64 {
    FLAGS + (u64::from(set % 2) * ROUNDS + u64::from(round)) * LINE
}

/// Returns the word that the child on this level of the binomial tree writes when it has come.
pub(crate) fn arrived(level: u32) -> u64 {
    ARRIVED + u64::from(level) * LINE
}

/// Returns the scratch space of a meeting. There are two, since a neighbour may be one meeting
/// ahead.
pub(crate) fn scratch(meeting: u32) -> u64 {
    SCRATCH + u64::from(meeting % 2) * SCRATCH_BYTES
}

/// Returns the word that counts arrivals at a non-blocking collective; used in the first member's
/// area.
pub(crate) fn place_counter(place: u32) -> u64 {
    PLACE_COUNTERS + u64::from(place) * LINE
}

/// Returns the word that bears the number of the last result in a place.
pub(crate) fn place_flag(place: u32) -> u64 {
    PLACE_FLAGS + u64::from(place) * LINE
}

/// Returns the memory of a non-blocking collective: a member's part, and then the result.
pub(crate) fn place(place: u32) -> u64 {
    PLACE_DATA + u64::from(place) * PLACE_BYTES
}

/// Returns the word that says which message a channel's buffer holds.
pub(crate) fn full(channel: u64, message: u32) -> u64 {
    FULL + (channel * 2 + u64::from(message % 2)) * LINE
}

/// Returns the word, at the sender, that says how many messages of a channel were taken.
pub(crate) fn taken(channel: u64) -> u64 {
    TAKEN + channel * LINE
}

pub(crate) fn message(channel: u64, message: u32) -> u64 {
    MESSAGES + (channel * 2 + u64::from(message % 2)) * MESSAGE_BYTES
}

/// Returns the number of the channel that goes `2^round` members up (or down) the ring.
pub(crate) fn channel(up: bool, round: u32) -> u64 {
    u64::from(round) * 2 + u64::from(up)
}

pub(crate) fn area_bytes(members: u32) -> u64 {
    let rounds = members.next_power_of_two().ilog2().max(1);
    message(channel(true, rounds), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_area_do_not_overlap() {
        let members = 1000;
        let mut spans = vec![(COUNTER, 8), (RELEASE, 8), (POISON, 8), (ENTERED, 8), (REASON, 8)];
        spans.extend((0..HISTORY as u32).map(|sequence| (call(sequence), 32)));
        spans.extend((0..ROUNDS as u32).map(|level| (arrived(level), 8)));
        for at in 0..PLACES {
            spans.extend([(place_counter(at), 8), (place_flag(at), 8), (place(at), PLACE_BYTES)]);
        }
        for slot in 0..2 {
            spans.extend((0..ROUNDS as u32).map(|round| (flag(slot, round), 8)));
            spans.push((scratch(slot), SCRATCH_BYTES));
            for channel in (0..10).flat_map(|round| [true, false].map(|up| channel(up, round))) {
                spans.push((full(channel, slot), 8));
                spans.push((message(channel, slot), MESSAGE_BYTES));
            }
        }
        let channels = (0..10).flat_map(|round| [true, false].map(|up| channel(up, round)));
        spans.extend(channels.map(|channel| (taken(channel), 8)));
        spans.sort_unstable();
        for pair in spans.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
        }
        let (last, bytes) = spans[spans.len() - 1];
        assert!(last + bytes <= area_bytes(members), "{last} + {bytes}");
    }
}
