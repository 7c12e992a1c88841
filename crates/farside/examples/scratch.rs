//! scratch
use farside::Rank;
use std::time::Instant;
fn main() {
    let n: u32 = std::env::args().nth(1).map_or(2, |s| s.parse().unwrap());
    farside::local(n, |world| {
        let w = world.window::<u64>(1 << 17)?;
        world.barrier()?;
        if world.rank() == Rank(0) {
            let iters = 1_000_000u64;
            for _ in 0..3 {
                let t = Instant::now();
                for i in 0..iters {
                    world.put(&[i], w.at(Rank(1), 0))?;
                    world.flush(Rank(1))?;
                }
                println!("put+flush {:?} ns", t.elapsed().as_nanos() as f64 / iters as f64);
                let t = Instant::now();
                for i in 0..iters {
                    world.put(&[i], w.at(Rank(1), 0))?;
                }
                println!("put {:?} ns", t.elapsed().as_nanos() as f64 / iters as f64);
                let t = Instant::now();
                let mut b = [0u64];
                for _ in 0..iters {
                    world.get(w.at(Rank(1), 0), &mut b)?;
                    std::hint::black_box(&b);
                }
                println!("get {:?} ns", t.elapsed().as_nanos() as f64 / iters as f64);
                let t = Instant::now();
                for _ in 0..iters {
                    world.fetch_add(w.at(Rank(1), 0), 1)?;
                }
                println!("fetch_add {:?} ns", t.elapsed().as_nanos() as f64 / iters as f64);
                let a = std::sync::atomic::AtomicU64::new(0);
                let t = Instant::now();
                for _ in 0..iters {
                    std::hint::black_box(&a).fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
                println!("bare fetch_add {:?} ns", t.elapsed().as_nanos() as f64 / iters as f64);
                let t = Instant::now();
                for i in 0..iters {
                    std::hint::black_box(world.compare_swap(w.at(Rank(1), 0), i, i + 1)?);
                }
                println!("cas {:?} ns", t.elapsed().as_nanos() as f64 / iters as f64);
                let big = vec![1u64; 1 << 17];
                let mut dst = vec![1u64; 1 << 17];
                let t = Instant::now();
                for _ in 0..1000 {
                    world.put(&big, w.at(Rank(1), 0))?;
                }
                println!("put 1MiB {:?} us", t.elapsed().as_micros() as f64 / 1000.0);
                let t = Instant::now();
                for _ in 0..1000 {
                    std::hint::black_box(&mut dst).copy_from_slice(std::hint::black_box(&big));
                }
                println!("memcpy 1MiB {:?} us", t.elapsed().as_micros() as f64 / 1000.0);
            }
        }
        world.barrier()?;
        for _ in 0..3 {
            let t = Instant::now();
            for _ in 0..20000 {
                world.barrier()?;
            }
            if world.rank() == Rank(0) {
                println!("barrier {:?} ns  {:?}", t.elapsed().as_nanos() as f64 / 20000.0, world.counters().effort);
            }
        }
        w.free(&world)
    })
    .unwrap();
}
