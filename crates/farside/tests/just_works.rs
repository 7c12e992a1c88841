//! Promises of `docs/it-just-works.md` that need no command line.

use std::time::{Duration, Instant};

use farside::Rank;
use rustix::time::{ClockId, clock_gettime};

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn ranks_that_wait_leave_the_processors_to_others() {
    farside::local(8, |world| {
        let flag = world.window::<u64>(1)?;
        world.sync()?;
        let (begin, used) = (Instant::now(), processor_time());
        if world.rank() == Rank(0) {
            // sleep: the others must wait for long.
            std::thread::sleep(Duration::from_millis(1500));
            for peer in world.ranks() {
                world.signal(flag.at(peer, 0), 1)?;
            }
        }
        world.wait(flag.at(world.rank(), 0), |value| value == 1)?;
        world.sync()?;
        // Seven ranks that spun would use all of a processor, and more of two.
        let share = (processor_time() - used).as_secs_f64() / begin.elapsed().as_secs_f64();
        assert!(share < 0.5, "{share:.2} processors were used while seven of eight ranks waited");
        flag.free(&world)
    })
    .unwrap();
}

#[test]
fn thousands_of_windows_are_fine() {
    farside::local(2, |world| {
        let windows: Vec<_> =
            (0..5000).map(|_| world.window::<u64>(3)).collect::<Result<_, _>>()?;
        let other = Rank(1 - world.rank().0);
        for (number, window) in windows.iter().enumerate() {
            world.put_value(number as u64, window.at(other, 2))?;
        }
        world.sync()?;
        for (number, window) in windows.into_iter().enumerate() {
            assert_eq!(window.own().get(2)?, number as u64);
            window.free(&world)?;
        }
        Ok(())
    })
    .unwrap();
}
