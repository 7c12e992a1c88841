//! The launcher's one loop, where all ranks are on this host: output, signals, deaths, time.

use farside_inspect::Reader;
use farside_job::Host;
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use crate::console::{Console, Patience, UNREAD, is_told_to_end};
use crate::input::{Feed, next_look_at_stdin, read_stdin};
use crate::local_ranks::{LocalRanks, Started};
use crate::metrics::MetricsServer;
use crate::output::{Forwarder, News, Sink};
use crate::policy::{Policy, until};
use crate::processes::FileLimit;
use crate::signals::{ASKING, STOPPING, Signals};
use crate::watcher::Watcher;
use crate::{Error, Launch, Report, processes, system};

pub(crate) fn run(launch: &Launch, console: &Console) -> Result<Report, Error> {
    if let Some(directory) = &launch.directory
        && let Err(error) = processes::check_directory(directory)
    {
        return Err(Error::Directory { directory: directory.clone(), error: error.into() });
    }
    let host = Host::create(&launch.options)?;
    let files = if launch.is_own_process {
        processes::adopt_orphans();
        FileLimit::raise()
    } else {
        FileLimit::default()
    };
    let reader = Reader::new(host.memories());
    let _metrics = MetricsServer::of(launch, console, move || reader.read())?;
    let mut signals = if launch.interactive { Some(Signals::new()?) } else { None };
    let Started { local_ranks, forwarder, input } =
        LocalRanks::start(launch, &host, Sink::new(launch, console), files)?;
    let mut supervisor = Supervisor {
        local_ranks,
        console,
        policy: Policy::new(launch, console),
        forwarder: Some(forwarder),
        captured: Vec::new(),
        input: input.map(Feed::new),
        watcher: launch.interactive.then(|| Watcher::new(&host, launch.stuck_after)),
        places: None,
    };
    supervisor.policy.begin();
    let watched = supervisor.watch(&mut signals);
    supervisor.local_ranks.clean_up();
    let is_hurried = supervisor.flush_output(&mut signals);
    supervisor.policy.say_rest();
    supervisor.places.iter().for_each(|places| supervisor.policy.say(places));
    if let Some(watcher) = supervisor.watcher.as_ref().filter(|_| launch.stats) {
        supervisor.policy.say(&watcher.statistics());
    }
    console.finish(&mut signals, is_hurried || supervisor.policy.was_cut_short());
    watched?;
    Ok(Report { recording: host.recording(), ..supervisor.policy.report(supervisor.captured) })
}

struct Supervisor<'a> {
    local_ranks: LocalRanks<'a>,
    console: &'a Console,
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
            polled.extend(self.forwarder.as_ref().map(Forwarder::polled));
            polled
                .extend(signals.as_ref().map(|signals| PollFd::new(&signals.pipe, PollFlags::IN)));
            // Asked once: the answer changes when the job is brought to the foreground.
            let again = self.input.as_ref().filter(|input| input.is_idle());
            let again = again.and_then(|_| next_look_at_stdin());
            let input = self.input.as_ref().filter(|_| again.is_none());
            // Either more is wanted, or there is something to write.
            polled.extend(input.map(|input| match input.is_idle() {
                true => PollFd::new(&stdin, PollFlags::IN),
                false => input.polled(),
            }));
            let look = self.watcher.as_ref().and_then(Watcher::next);
            let next = [self.policy.next(), look, again].into_iter().flatten().min();
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
            if news.first() == Some(&true) && self.hear() {
                self.policy.output_broke();
            }
            // Before the others are told of the loss: then they are somewhere else.
            let before_loss = || note_places(&mut self.places, &mut self.watcher);
            for end in self.local_ranks.reap(ended, before_loss) {
                self.policy.ended(end.rank, end.how, end.peer_state, end.cause.is_some());
                match &self.forwarder {
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

    fn forward_signal(&mut self, number: i32) {
        if number == STOPPING {
            self.local_ranks.signal(Signal::STOP);
            self.policy.pause();
            self.watcher.iter_mut().for_each(Watcher::resume);
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
        if self.policy.has_signalled() {
            self.watcher.iter_mut().for_each(Watcher::end_watch);
        }
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

    /// The forwarder has something to say; returns whether output was lost.
    fn hear(&mut self) -> bool {
        let mut is_lost = false;
        for news in self.forwarder.as_mut().map(Forwarder::hear).unwrap_or_default() {
            match news {
                News::Broken => is_lost = true,
                News::Drained(rank) => self.policy.drained(rank),
                News::Done => {
                    let forwarder = self.forwarder.take();
                    self.captured = forwarder.map(Forwarder::finish).unwrap_or_default();
                }
            }
        }
        is_lost
    }

    /// Waits until all output was passed on, or a signal asks for the end; when the job was ended
    /// rather than done, no longer than its reader makes progress. Returns whether there was such
    /// a signal.
    fn flush_output(&mut self, signals: &mut Option<Signals>) -> bool {
        let mut patience = Patience::new(self.console, self.policy.was_cut_short());
        self.forwarder.iter().for_each(Forwarder::stop);
        let (mut is_lost, mut is_hurried) = (false, false);
        while let Some(forwarder) = &self.forwarder {
            let mut polled = vec![forwarder.polled()];
            polled
                .extend(signals.as_ref().map(|signals| PollFd::new(&signals.pipe, PollFlags::IN)));
            let polled = rustix::event::poll(&mut polled, until(patience.end()).as_ref());
            is_lost |= self.hear();
            is_hurried = is_told_to_end(signals, &mut patience);
            if !matches!(polled, Ok(_) | Err(rustix::io::Errno::INTR))
                || patience.is_over()
                || is_hurried
            {
                break;
            }
        }
        if self.forwarder.is_some() {
            self.policy.say(UNREAD);
        }
        if is_lost {
            self.policy.note_lost_output();
        }
        is_hurried
    }
}

/// Notes where the ranks are. It is said at the end, behind the errors that explain it.
fn note_places(places: &mut Option<String>, watcher: &mut Option<Watcher>) {
    if let Some(now) = watcher.as_mut().and_then(Watcher::places) {
        *places = Some(now);
    }
}
