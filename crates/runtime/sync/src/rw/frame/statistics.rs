//! Statistics of one rank's use of a reader-writer lock.

use std::cell::Cell;

use farside_fabric::Rank;
use farside_rma::Context;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What one rank has done with a reader-writer lock since it was made.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Statistics {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Statistics {
            /// Returns all counts with their names.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// Returns what two ranks have done together.
            pub fn plus(&self, other: &Statistics) -> Statistics {
                Statistics { $($name: self.$name + other.$name,)* }
            }
        }

        /// The statistics of a lock in use.
        #[derive(Default)]
        pub struct StatisticsCell {
            $($(#[$doc])* pub $name: Cell<u64>,)*
        }

        impl StatisticsCell {
            /// Returns the counts so far.
            pub fn read(&self) -> Statistics {
                Statistics { $($name: self.$name.get(),)* }
            }
        }
    };
}

counts! {
    /// How often this rank got the lock to read.
    reads,
    /// How often it got the lock to write.
    writes,
    /// How often it had to wait before it could read.
    reads_queued,
    /// How often it had to wait for another writer.
    writes_queued,
    /// How often it gave up: a time limit, or an attempt that did not wait.
    given_up,
    /// How often it closed the lock to readers, as a writer.
    closed,
    /// How often it then had to wait for readers that were inside.
    drained,
    /// How often it opened the lock to readers again.
    opened,
    /// How often it did so although writers were waiting, because it was the readers' turn.
    yielded,
    /// How often it passed the closed lock to a writer of its own element of the topology.
    passed_within,
    /// How often it passed the closed lock to a writer of another element.
    passed_across,
    /// Of all it passed the lock to, how many were on its node.
    passed_near,
    /// Of all it passed the lock to, how many were on other nodes.
    passed_far,
    /// How often it left a queue of a wider element that another rank of its own element had
    /// entered.
    left_for_another,
    /// How often so many had read in a row that it asked whether writers are waiting.
    limit_reached,
    /// How often none were, so that it lifted the limit.
    limit_lifted,
    /// How often some were, so that it let them go first.
    limit_kept,
    /// How often it held back for a writer with a time limit.
    held_back,
    /// How often it went ahead of a rank that had waited longer.
    bypasses,
    /// How often it left the lock closed to readers because hardly any had come.
    lingered,
    /// How often it read as a writer would, because the lock had been left closed.
    reads_alone,
    /// How often it had been passed by so many that its next place was certain.
    insisted,
}

#[inline]
fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

impl StatisticsCell {
    /// Counts one more of what `which` picks.
    #[inline]
    pub fn note(&self, which: impl FnOnce(&StatisticsCell) -> &Cell<u64>) {
        count(which(self));
    }

    /// Counts that the lock goes from this rank to a waiting one.
    pub fn passed(&self, context: &Context, to: Rank) {
        let is_near = context.topology().same_node(context.rank(), to);
        count(if is_near { &self.passed_near } else { &self.passed_far });
    }
}
