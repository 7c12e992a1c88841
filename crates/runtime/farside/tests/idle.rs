//! Ranks that wait for long sleep. This file has one test, since it looks at the time that the
//! processors have spent on the whole process.

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
        flag.free(world)
    })
    .unwrap();
}
