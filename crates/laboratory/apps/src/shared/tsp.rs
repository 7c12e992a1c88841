//! The shortest round trip through some cities, by branch and bound: a work queue under locks.
//!
//! The beginnings of trips are tasks in a shared vector, the most promising ones at its end. A rank
//! takes one, and with it the best trip so far; it goes through all trips that begin so, but for
//! those that cannot be shorter. A shorter one becomes the best under the same lock.

use farside::dsm::{Dsm, Placement, Shared, SharedVec};
use farside::{Error, Result};
use farside_fabric::random::SplitMix;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Base, Kernel, Machine, Options, SharedRun, picture};

const CITIES_MAX: usize = 24;
/// The cities of a task, after the first one, where all trips begin.
const TASK_CITIES: usize = 2;
/// The side of the square that the cities lie in.
const SIDE: f64 = 10_000.0;
/// Operations for each city that is gone to.
const FLOPS: usize = 8;
const LOCK: u32 = 0;

/// A round trip. Of two that are as long, one comes first in the alphabet: so that there is one
/// answer, in whichever order they are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Trip {
    length: u32,
    cities: [u8; CITIES_MAX],
}

/// What stands where no trip is known: what fresh memory holds.
const NO_TRIP: Trip = Trip { length: 0, cities: [0; CITIES_MAX] };

/// The beginning of trips.
type Task = [u8; TASK_CITIES];

#[derive(Clone)]
pub(super) struct Tsp {
    cities: usize,
    problems: usize,
}

impl Tsp {
    pub(super) fn new(size: &[usize], problems: usize) -> Result<Tsp> {
        let [cities] = Options::check_size("tsp", size, 4)?;
        if cities > CITIES_MAX {
            return Err(Error::InvalidArgument(format!(
                "tsp takes {CITIES_MAX} cities at most, and not {cities}"
            )));
        }
        Ok(Tsp { cities, problems })
    }

    fn capacity(&self) -> usize {
        self.cities.pow(TASK_CITIES as u32)
    }
}

struct Map {
    places: Vec<(f64, f64)>,
    between: Vec<[u32; CITIES_MAX]>,
    /// The distance of each city to its nearest neighbour.
    nearest: Vec<u32>,
}

impl Map {
    fn new(cities: usize, problem: usize) -> Map {
        let mut random = SplitMix::new(problem as u64 + 1);
        let mut place = || (SIDE * random.fraction(), SIDE * random.fraction());
        let places: Vec<(f64, f64)> = (0..cities).map(|_| place()).collect();
        let distance = |from: usize, to: usize| {
            (places[from].0 - places[to].0).hypot(places[from].1 - places[to].1)
        };
        let mut between = vec![[0; CITIES_MAX]; cities];
        for (from, row) in between.iter_mut().enumerate() {
            (0..cities).for_each(|to| row[to] = distance(from, to).round() as u32);
        }
        let nearest = |city: usize| {
            let others = (0..cities).filter(|&other| other != city);
            others.map(|other| between[city][other]).min().unwrap_or(0)
        };
        let nearest = (0..cities).map(nearest).collect();
        Map { places, between, nearest }
    }

    fn begin(&self) -> Path {
        let others = (1u32 << self.places.len()) - 2;
        let ahead = self.nearest.iter().sum();
        Path { cities: [0; CITIES_MAX], count: 1, length: 0, others, ahead }
    }

    fn go(&self, path: &Path, city: usize) -> Path {
        let here = path.here();
        let mut on = *path;
        on.cities[path.count] = city as u8;
        on.count += 1;
        on.length += self.between[here][city];
        on.others &= !(1 << city);
        on.ahead -= self.nearest[here];
        on
    }

    fn greedy(&self) -> Trip {
        let mut path = self.begin();
        while path.others != 0 {
            let here = path.here();
            let next = path.choices().min_by_key(|&city| (self.between[here][city], city));
            path = self.go(&path, next.unwrap_or(0));
        }
        self.close(&path)
    }

    /// The way back. A trip and its reverse are the same one.
    fn close(&self, path: &Path) -> Trip {
        let length = path.length + self.between[path.here()][0];
        let mut cities = path.cities;
        if cities[1] > cities[path.count - 1] {
            cities[1..path.count].reverse();
        }
        Trip { length, cities }
    }

    /// All tasks, the most promising one last.
    fn tasks(&self) -> Vec<Task> {
        let mut paths = vec![self.begin()];
        for _ in 0..TASK_CITIES {
            paths = paths
                .iter()
                .flat_map(|path| path.choices().map(|city| self.go(path, city)))
                .filter(Path::is_forward)
                .collect();
        }
        paths.sort_by_key(|path| std::cmp::Reverse((path.length, path.cities)));
        let task = |path: &Path| std::array::from_fn(|at| path.cities[at + 1]);
        paths.iter().map(task).collect()
    }

    fn path(&self, task: Task) -> Path {
        task.iter().fold(self.begin(), |path, &city| self.go(&path, city.into()))
    }

    /// Returns whether a trip that begins like this may be as short as the best one: the others are
    /// left out at once.
    fn may_shorten(&self, task: Task, best: &Trip) -> bool {
        self.path(task).least() <= best.length
    }

    /// Goes through all trips that begin like this and may be better than `best`.
    fn search(&self, task: Task, best: Trip) -> Search<'_> {
        let mut search = Search { map: self, best, visited: 0 };
        search.follow(&self.path(task));
        search
    }
}

/// The beginning of a trip.
#[derive(Clone, Copy)]
struct Path {
    cities: [u8; CITIES_MAX],
    count: usize,
    length: u32,
    /// The cities that it has not come to, one bit for each.
    others: u32,
    /// The least that is still to go: from here, and from each of the others, to the nearest one.
    ahead: u32,
}

impl Path {
    fn here(&self) -> usize {
        self.cities[self.count - 1].into()
    }

    fn least(&self) -> u32 {
        self.length + self.ahead
    }

    fn choices(&self) -> impl Iterator<Item = usize> + use<> {
        let others = self.others;
        (0..CITIES_MAX).filter(move |city| others >> city & 1 == 1)
    }

    /// Returns whether the last city can have a higher number than the second: otherwise the
    /// reverse of each of its trips is looked at.
    fn is_forward(&self) -> bool {
        let second = self.cities[1];
        self.others == 0 && self.here() > second.into() || self.others >> second != 0
    }
}

struct Search<'a> {
    map: &'a Map,
    best: Trip,
    visited: usize,
}

impl Search<'_> {
    fn follow(&mut self, path: &Path) {
        self.visited += 1;
        if path.others == 0 {
            self.best = self.best.min(self.map.close(path));
            return;
        }
        for city in path.choices() {
            let on = self.map.go(path, city);
            if on.least() <= self.best.length && on.is_forward() {
                self.follow(&on);
            }
        }
    }
}

impl Kernel for Tsp {
    fn bytes(&self) -> u64 {
        let tasks = self.capacity() * size_of::<Task>();
        (self.problems * size_of::<Trip>() + tasks) as u64 + (1 << 16)
    }

    fn steps(&self) -> usize {
        self.problems
    }

    fn prepare(&self, machine: &mut Machine<'_, '_>) -> Result<Box<dyn SharedRun>> {
        let best = machine.dsm.alloc_at::<Trip>(self.problems, Placement::Pages)?;
        let tasks = SharedVec::<Task>::new(machine.dsm, self.capacity(), LOCK)?;
        Ok(Box::new(Queue { tsp: self.clone(), best, tasks }))
    }

    fn base(&self) -> Box<dyn Base> {
        Box::new(Own { tsp: self.clone(), best: vec![NO_TRIP; self.problems] })
    }

    fn picture(&self, result: &[f64]) -> String {
        let map = Map::new(self.cities, 0);
        let cities = result.iter().skip(1).take(self.cities);
        let places: Vec<(f64, f64)> = cities.map(|&city| map.places[city as usize]).collect();
        picture::trip(&format!("The shortest trip, {}", result[0]), &places)
    }
}

/// A rank that takes its work from a shared queue.
struct Queue {
    tsp: Tsp,
    /// The best trip of each problem.
    best: Shared<Trip>,
    tasks: SharedVec<Task>,
}

impl SharedRun for Queue {
    fn step(&mut self, machine: &mut Machine<'_, '_>, problem: usize) -> Result<()> {
        let Queue { tsp, best, tasks } = self;
        let (map, best) = (Map::new(tsp.cities, problem), *best);
        if machine.dsm.world().rank().0 == 0 {
            machine.dsm.set(best, problem, map.greedy())?;
            tasks.locked(machine.dsm, |tasks| {
                map.tasks().into_iter().try_for_each(|task| tasks.push(task).map(drop))
            })?;
        }
        machine.dsm.barrier()?;
        let mut found: Option<Trip> = None;
        loop {
            // What the last task has found, and the next one.
            let next = tasks.locked(machine.dsm, |tasks| {
                let known = tasks.dsm().get(best, problem)?;
                if let Some(found) = found.filter(|&found| found < known) {
                    tasks.dsm().set(best, problem, found)?;
                }
                let known = found.map_or(known, |found| found.min(known));
                while let Some(task) = tasks.pop()? {
                    if map.may_shorten(task, &known) {
                        return Ok(Some((task, known)));
                    }
                }
                Ok(None)
            })?;
            let Some((task, known)) = next else { break };
            let search = map.search(task, known);
            machine.computes(FLOPS * search.visited);
            found = Some(search.best);
        }
        machine.dsm.barrier()
    }

    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>> {
        let trips = dsm.view(self.best, 0..self.best.len())?.to_vec();
        Ok(trips.iter().flat_map(|trip| numbers(trip, self.tsp.cities)).collect())
    }
}

/// All tasks, done by one rank.
struct Own {
    tsp: Tsp,
    best: Vec<Trip>,
}

impl Base for Own {
    fn step(&mut self, problem: usize) -> usize {
        let map = Map::new(self.tsp.cities, problem);
        let (mut best, mut visited) = (map.greedy(), 0);
        for task in map.tasks().into_iter().rev() {
            if map.may_shorten(task, &best) {
                let search = map.search(task, best);
                (best, visited) = (search.best, visited + search.visited);
            }
        }
        self.best[problem] = best;
        FLOPS * visited
    }

    fn result(&self) -> Vec<f64> {
        self.best.iter().flat_map(|trip| numbers(trip, self.tsp.cities)).collect()
    }
}

/// A trip as the numbers that are compared: its length, and its cities.
fn numbers(trip: &Trip, cities: usize) -> Vec<f64> {
    let cities = trip.cities[..cities].iter().map(|&city| f64::from(city));
    [f64::from(trip.length)].into_iter().chain(cities).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best of all trips, without leaving any out.
    fn best_of_all(map: &Map, path: &Path) -> Trip {
        let trips = path.choices().map(|city| best_of_all(map, &map.go(path, city)));
        trips.min().unwrap_or_else(|| map.close(path))
    }

    #[test]
    fn no_trip_is_shorter() {
        for cities in [4, 5, 8] {
            for problem in 0..10 {
                let map = Map::new(cities, problem);
                let best = best_of_all(&map, &map.begin());
                let mut base = Tsp { cities, problems: problem + 1 }.base();
                assert!(base.step(problem) > 0);
                let found = base.result();
                assert_eq!(found[problem * (cities + 1)..], numbers(&best, cities), "{cities}");
            }
        }
    }

    #[test]
    fn too_many_cities_are_refused() {
        for (size, problem) in [(&[3][..], "at least 4"), (&[25], "24"), (&[5, 5], "1 numbers")] {
            let error = Tsp::new(size, 1).err().unwrap().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
