//! Programs that nothing orders: every outcome that the memory model allows appears.

use farside::{Rank, World};

use super::{
    ALL_OF_TWO, Litmus, ZERO, fenced, gets, long, message_passing, message_passing_apart, met,
    nothing, same_word, signalled, store_buffering, unordered,
};

pub(super) const WITHOUT_ORDER: &[Litmus] = &[
    Litmus::new("litmus/message-passing", "nothing orders two puts", 2, ALL_OF_TWO, |w, x| {
        message_passing(w, x, unordered)
    }),
    Litmus::new("litmus/store-buffering", "a get overtakes a put", 2, ALL_OF_TWO, |w, x| {
        store_buffering(w, x, unordered)
    }),
    Litmus::new("litmus/same-word", "nothing orders two puts to a word", 1, &["1", "2"], |w, x| {
        same_word(w, x, unordered)
    }),
    Litmus::new(
        "litmus/get-after-put",
        "a get overtakes a put to the same word",
        1,
        &["0", "1"],
        |w, x| {
            w.put_value(1, x.at(ZERO, 0))?;
            gets(w, x, &[0])
        },
    ),
    Litmus::new("litmus/fence-and-get", "a fence does not order gets", 1, &["0", "1"], |w, x| {
        w.put_value(1, x.at(ZERO, 0))?;
        w.fence()?;
        gets(w, x, &[0])
    }),
    Litmus::new(
        "litmus/fence-apart",
        "a fence does not order puts to different ranks",
        2,
        ALL_OF_TWO,
        |w, x| message_passing_apart(w, x, fenced),
    ),
    Litmus::new("litmus/signal", "nothing orders a put and a signal", 2, &["0", "1"], |w, x| {
        signalled(w, x, |w, x| {
            w.put_value(1, x.at(Rank(1), 1))?;
            w.signal(x.at(Rank(1), 0), 1)
        })
    }),
    Litmus::new(
        "litmus/add",
        "nothing orders a put and a posted add, nor the add and a load",
        2,
        &["00", "01", "10", "11"],
        |w, x| {
            if w.rank() == ZERO {
                w.put_value(1, x.at(ZERO, 1))?;
                w.add(x.at(ZERO, 0), 1)?;
                return nothing();
            }
            Ok(format!("{}{}", w.load(x.at(ZERO, 0))?, w.get_value(x.at(ZERO, 1))?))
        },
    ),
    Litmus::new(
        "litmus/put-signal-alone",
        "put_signal orders no put but its own",
        2,
        &["0", "1"],
        |w, x| {
            signalled(w, x, |w, x| {
                w.put_value(1, x.at(Rank(1), 1))?;
                w.put_signal(&[1], x.at(Rank(1), 2), 1, x.at(Rank(1), 0))
            })
        },
    ),
    Litmus::new("litmus/barrier", "a barrier says nothing about puts", 2, &["0", "1"], |w, x| {
        met(w, x, World::barrier)
    }),
    Litmus {
        topology: Some("node:2"),
        ..Litmus::new(
            "litmus/broadcast",
            "a broadcast says nothing about puts",
            2,
            &["0", "1"],
            |w, x| met(w, x, |w| w.broadcast(ZERO, &mut [0u64])),
        )
    },
    Litmus {
        torn: true,
        ..Litmus::new(
            "litmus/tearing",
            "a long put and a long get may be torn",
            2,
            ALL_OF_TWO,
            long,
        )
    },
];
