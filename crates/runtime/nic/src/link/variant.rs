//! The steps that exactly-once execution rests on, each of which a known-wrong variant leaves out.

/// The widths of the protocol, and the steps without which it is wrong. [`Right`] takes all of
/// them; the explorer must find out each variant that leaves one out. `link`, `origin` and
/// `service` are compiled from the same lines for every variant.
pub(crate) trait Variant: 'static {
    /// The number of requests of a connection that may be open, and of answers that are kept.
    const WINDOW: u64 = crate::link::WINDOW;
    /// The number of later requests that must have arrived before one counts as lost, rather than
    /// overtaken.
    const OVERTAKEN_BY: u64 = 3;

    /// The sender never has more requests under way than the server keeps answers.
    const KEEPS_TO_WINDOW: bool = true;
    /// The window begins with the oldest open request, however many behind it are closed.
    const COUNTS_FROM_OLDEST: bool = true;
    /// A request that wants an answer is kept until it has one.
    const AWAITS_ANSWERS: bool = true;
    /// What has been acknowledged stays so, whatever a late reply says.
    const NEVER_GOES_BACK: bool = true;
    /// The bits of a reply count from the number in that reply.
    const READS_AS_WRITTEN: bool = true;
    /// A request that has arrived ahead of its turn is repeated when its turn has come.
    const REPEATS_HELD: bool = true;
    /// Only the answer to an open request means the operations that have its tags now.
    const MATCHES_NUMBERS: bool = true;
    /// A ticket that has been used up does not name the transfer that has its index now.
    const CHECKS_GENERATIONS: bool = true;
    /// The server keeps as many answers as the sender may have requests under way.
    const KEEPS_ENOUGH: bool = true;
    /// The server keeps an answer until the sender says that it has it, and all before.
    const KEEPS_LONG_ENOUGH: bool = true;
    /// A request that was executed is not executed again.
    const KNOWS_REPETITIONS: bool = true;
    /// A repetition is answered, and not dropped.
    const ANSWERS_REPETITIONS: bool = true;
    /// The answer to a repetition bears the number of the request that it answers.
    const ANSWERS_BY_NUMBER: bool = true;
    /// A request is executed when all before it were.
    const AWAITS_ITS_TURN: bool = true;
    /// What was executed is acknowledged, not what has arrived.
    const ACKNOWLEDGES_EXECUTED: bool = true;
    /// Each bit of a reply is that of the request that has arrived.
    const MARKS_ARRIVED: bool = true;
    /// What still arrives from a lost node is dropped.
    const DROPS_LOST_NODES: bool = true;
}

pub(crate) struct Right;

impl Variant for Right {}

/// Known-wrong variants, for the explorer to find out.
#[cfg(test)]
pub(crate) mod mutants {
    use super::Variant;

    farside_rma::wrong_variants! {
        /// Has one request too many under way.
        WindowTooWide: KEEPS_TO_WINDOW;
        /// Counts the open requests, wherever they are.
        WindowWithHoles: COUNTS_FROM_OLDEST;
        /// Is content when a request was executed.
        WithoutAwaitingAnswers: AWAITS_ANSWERS;
        /// Believes the last reply, not the latest.
        GoesBack: NEVER_GOES_BACK;
        /// Counts the bits of a late reply from what it knows by now.
        ReadsLateBitsAnew: READS_AS_WRITTEN;
        /// Never repeats what has arrived ahead of its turn.
        WithoutRepeatingHeld: REPEATS_HELD;
        /// Takes every answer for that of the operation that has its tag now.
        BelievesOldAnswers: MATCHES_NUMBERS;
        /// Takes an old ticket for that of the operation in its place.
        BelievesOldTickets: CHECKS_GENERATIONS;
        /// Keeps one answer too few.
        TableTooShort: KEEPS_ENOUGH;
        /// Takes the next request for the acknowledgement of an answer.
        ForgetsTooEarly: KEEPS_LONG_ENOUGH;
        /// Executes repetitions.
        ExecutesAgain: KNOWS_REPETITIONS;
        /// Drops repetitions, as links do whose messages have no answers.
        DropsRepetitions: ANSWERS_REPETITIONS;
        /// Answers a repetition under the number of the latest request.
        AnswersUnderAnotherNumber: ANSWERS_BY_NUMBER;
        /// Executes whatever comes, when it comes.
        ExecutesOutOfTurn: AWAITS_ITS_TURN;
        /// Acknowledges what has arrived ahead of its turn.
        AcknowledgesArrivals: ACKNOWLEDGES_EXECUTED;
        /// Sets the bit of the request behind the one that has arrived.
        MarksTheNext: MARKS_ARRIVED;
        /// Takes what comes from a node that was given up for something new.
        BelievesTheLost: DROPS_LOST_NODES;
    }

    /// A variant with a window so narrow that everything it can do can be explored.
    pub(crate) struct Narrow<V>(std::marker::PhantomData<V>);

    impl<V> Clone for Narrow<V> {
        fn clone(&self) -> Narrow<V> {
            Narrow(self.0)
        }
    }

    impl<V: Variant> Variant for Narrow<V> {
        const WINDOW: u64 = 2;
        const OVERTAKEN_BY: u64 = 1;
        const KEEPS_TO_WINDOW: bool = V::KEEPS_TO_WINDOW;
        const COUNTS_FROM_OLDEST: bool = V::COUNTS_FROM_OLDEST;
        const AWAITS_ANSWERS: bool = V::AWAITS_ANSWERS;
        const NEVER_GOES_BACK: bool = V::NEVER_GOES_BACK;
        const READS_AS_WRITTEN: bool = V::READS_AS_WRITTEN;
        const REPEATS_HELD: bool = V::REPEATS_HELD;
        const MATCHES_NUMBERS: bool = V::MATCHES_NUMBERS;
        const CHECKS_GENERATIONS: bool = V::CHECKS_GENERATIONS;
        const KEEPS_ENOUGH: bool = V::KEEPS_ENOUGH;
        const KEEPS_LONG_ENOUGH: bool = V::KEEPS_LONG_ENOUGH;
        const KNOWS_REPETITIONS: bool = V::KNOWS_REPETITIONS;
        const ANSWERS_REPETITIONS: bool = V::ANSWERS_REPETITIONS;
        const ANSWERS_BY_NUMBER: bool = V::ANSWERS_BY_NUMBER;
        const AWAITS_ITS_TURN: bool = V::AWAITS_ITS_TURN;
        const ACKNOWLEDGES_EXECUTED: bool = V::ACKNOWLEDGES_EXECUTED;
        const MARKS_ARRIVED: bool = V::MARKS_ARRIVED;
        const DROPS_LOST_NODES: bool = V::DROPS_LOST_NODES;
    }
}
