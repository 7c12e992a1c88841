//! The launcher's one loop, where all ranks are on this host: output, signals, deaths, time.

use farside_job::Host;
use farside_sight::Reader;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;

use crate::input::{Feed, may_read_stdin, read_stdin};
use crate::local_ranks::{LocalRanks, Started};
use crate::metrics::MetricsServer;
use crate::output::{Forwarder, News, Sink};
use crate::policy::{Policy, until};
use crate::signals::{ASKING, ENDING, STOPPING, Signals};
use crate::watcher::Watcher;
use crate::{Error, Launch, Report, processes, system};

pub(crate) fn run(launch: &Launch) -> Result<Report, Error> {
    if let Some(directory) = &launch.directory
        && let Err(error) = std::fs::read_dir(directory)
    {
        return Err(Error::Directory { directory: directory.clone(), error });
    }
    let host = Host::create(&launch.options)?;
    if launch.is_own_process {
        processes::adopt_orphans();
        processes::allow_many_files();
    }
    let reader = Reader::new(host.memories());
    let _metrics = MetricsServer::of(launch, move || reader.read())?;
    let mut signals = if launch.interactive { Some(Signals::new()?) } else { None };
    let Started { local_ranks, forwarder, input } =
        LocalRanks::start(launch, &host, Sink::new(launch.output))?;
    let mut supervisor = Supervisor {
        local_ranks,
        policy: Policy::new(launch),
        forwarder: Some(forwarder),
        captured: Vec::new(),
        input: input.map(Feed::new),
        watcher: launch.interactive.then(|| Watcher::new(&host, launch.stuck_after)),
        places: None,
    };
    supervisor.policy.begin();
    let watched = supervisor.watch(&mut signals);
    supervisor.local_ranks.clean_up();
    supervisor.flush_output(signals);
    supervisor.policy.say_rest();
    supervisor.places.iter().for_each(|places| supervisor.policy.say(places));
    if let Some(watcher) = supervisor.watcher.as_ref().filter(|_| launch.stats) {
        supervisor.policy.say(&watcher.statistics());
    }
    watched?;
    Ok(Report { recording: host.recording(), ..supervisor.policy.report(supervisor.captured) })
}

struct Supervisor<'a> {
    local_ranks: LocalRanks<'a>,
    policy: Policy<'a>,
    forwarder: Option<Forwarder>,
    captured: Vec<u8>,
    input: Option<Feed>,
    /// Looks at the ranks for a launcher that has somebody to tell.
    watcher: Option<Watcher>,
    /// Where the ranks were when the job failed.
    places: Option<String>,
}

impl Supervisor<'_> {
    /// Watches until all ranks have ended.
    fn watch(&mut self, signals: &mut Option<Signals>) -> Result<(), Error> {
        while !self.local_ranks.is_empty() {
            let stdin = std::io::stdin();
            let mut polled: Vec<PollFd<'_>> = self.local_ranks.polled().collect();
            let ranks = polled.len();
            polled.extend(
                self.forwarder
                    .as_ref()
                    .map(|forwarder| PollFd::new(&forwarder.news, PollFlags::IN)),
            );
            polled
                .extend(signals.as_ref().map(|signals| PollFd::new(&signals.pipe, PollFlags::IN)));
            let input = self.input.as_ref().filter(|input| !input.is_idle() || may_read_stdin());
            // Either more is wanted, or there is something to write.
            polled.extend(input.map(|input| match input.is_idle() {
                true => PollFd::new(&stdin, PollFlags::IN),
                false => input.polled(),
            }));
            let look = self.watcher.as_ref().and_then(Watcher::next);
            let next = [self.policy.next(), look].into_iter().flatten().min();
            match rustix::event::poll(&mut polled, until(next).as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(system("poll")(errno)),
            }
            let happened: Vec<bool> =
                polled.iter().map(|polled| !polled.revents().is_empty()).collect();
            drop(polled);
            let (ended, rest) = happened.split_at(ranks);
            let (news, rest) = rest.split_at(usize::from(self.forwarder.is_some()));
            let (signalled, input) = rest.split_at(usize::from(signals.is_some()));
            if input.first() == Some(&true) {
                self.pass_input_on();
            }
            if let Some(signals) = signals.as_mut().filter(|_| signalled.first() == Some(&true)) {
                signals.take().into_iter().for_each(|number| self.forward_signal(number));
            }
            if news.first() == Some(&true) {
                self.hear();
            }
            // Before the others are told of the loss: then they are somewhere else.
            let before_loss = || note_places(&mut self.places, &mut self.watcher);
            for end in self.local_ranks.reap(ended, before_loss) {
                self.policy.ended(end.rank, end.how, end.peer_state, end.cause.is_some());
                match &mut self.forwarder {
                    Some(forwarder) => forwarder.drain(end.rank),
                    None => self.policy.drained(end.rank),
                }
            }
            if self.policy.is_time_up() {
                note_places(&mut self.places, &mut self.watcher);
            }
            self.look();
            if let Some(signal) = self.policy.due_signal(|| self.local_ranks.running()) {
                self.local_ranks.signal(signal);
            }
        }
        Ok(())
    }

    /// Passes a signal that was sent to this process on to the ranks.
    fn forward_signal(&mut self, number: i32) {
        if number == STOPPING {
            self.local_ranks.signal(Signal::STOP);
            self.policy.pause();
            self.local_ranks.signal(Signal::CONT);
        } else if number == ASKING
            && let Some(page) = self.watcher.as_mut().and_then(Watcher::answer)
        {
            self.policy.say(&page);
        } else if let Some(signal) = self.policy.asked(number) {
            self.local_ranks.signal(signal);
        }
    }

    /// Says what is wrong with the ranks, if they have waited for too long.
    fn look(&mut self) {
        if let Some(seen) = self.watcher.as_mut().and_then(Watcher::look) {
            self.policy.say(&seen.page);
            if seen.is_stuck {
                self.policy.found_stuck();
            }
        }
    }

    /// Moves some of standard input on, until there is no more, or no reader.
    fn pass_input_on(&mut self) {
        let Some(input) = &mut self.input else {
            return;
        };
        let goes_on = if input.is_idle() {
            read_stdin().map(|bytes| input.push(&bytes)).is_some()
        } else {
            input.pump()
        };
        if !goes_on {
            self.input = None;
        }
    }

    /// The forwarder has something to say.
    fn hear(&mut self) {
        match self.forwarder.as_mut().map(Forwarder::hear) {
            Some(News::Broken) => self.policy.output_broke(),
            Some(News::Drained(rank)) => self.policy.drained(rank),
            Some(News::Done) => {
                let forwarder = self.forwarder.take();
                self.captured = forwarder.map(Forwarder::finish).unwrap_or_default();
            }
            None => {}
        }
    }

    /// Waits until all output was passed on; when the job was ended rather than done, not for long.
    fn flush_output(&mut self, mut signals: Option<Signals>) {
        let wait_max = self.policy.was_cut_short().then_some(Timespec { tv_sec: 1, tv_nsec: 0 });
        let Some(forwarder) = &mut self.forwarder else {
            return;
        };
        let mut output_lost = false;
        forwarder.stop();
        loop {
            let mut polled = vec![PollFd::new(&forwarder.news, PollFlags::IN)];
            polled
                .extend(signals.as_ref().map(|signals| PollFd::new(&signals.pipe, PollFlags::IN)));
            let polled_well = matches!(
                rustix::event::poll(&mut polled, wait_max.as_ref()),
                Ok(1..) | Err(rustix::io::Errno::INTR)
            );
            let news = !polled[0].revents().is_empty();
            drop(polled);
            match news.then(|| forwarder.hear()) {
                Some(News::Done) => {
                    let forwarder = self.forwarder.take();
                    self.captured = forwarder.map(Forwarder::finish).unwrap_or_default();
                    break;
                }
                Some(News::Broken) => output_lost = true,
                Some(News::Drained(rank)) => self.policy.drained(rank),
                None => {}
            }
            let told_to_end = signals
                .as_mut()
                .is_some_and(|signals| signals.take().iter().any(|signal| ENDING.contains(signal)));
            if !polled_well || told_to_end {
                break;
            }
        }
        if output_lost {
            self.policy.note_lost_output();
        }
    }
}

/// Notes where the ranks are. It is said at the end, behind the errors that explain it.
fn note_places(places: &mut Option<String>, watcher: &mut Option<Watcher>) {
    if let Some(now) = watcher.as_mut().and_then(Watcher::places) {
        *places = Some(now);
    }
}
