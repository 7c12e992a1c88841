//! A partial differential equation solved by Fourier transforms, as the FT of the NAS benchmarks:
//! one transform forth, and one back for each step of time.
//!
//! A rank has some planes. It transforms along the two directions inside of them; for the third the
//! field is turned around, so that every rank reads some rows of every other's planes.

use farside::dsm::{Dsm, Placement, Shared};
use farside::{Complex, Error, Result};
use farside_fabric::random::SplitMix;

use super::{Kernel, Machine, Options, picture};

type C = Complex<f64>;

/// How fast waves decay.
const ALPHA: f64 = 1e-6;

pub(super) struct Fft3d {
    /// Planes, rows and columns.
    size: [usize; 3],
    iterations: usize,
    field: Option<Shared<C>>,
}

impl Fft3d {
    pub(super) fn new(size: &[usize], iterations: usize) -> Result<Fft3d> {
        let size: [usize; 3] = Options::check_size("fft3d", size, 2)?;
        match size.iter().find(|extent| !extent.is_power_of_two()) {
            Some(extent) => Err(Error::InvalidArgument(format!(
                "fft3d takes powers of two as its size, and {extent} is none"
            ))),
            None => Ok(Fft3d { size, iterations, field: None }),
        }
    }

    fn points(&self) -> usize {
        self.size.iter().product()
    }

    /// What a point holds at the start: something irregular, the same for the same point.
    fn first(&self, point: usize) -> C {
        let mut random = SplitMix::new(point as u64);
        Complex { re: random.fraction(), im: random.fraction() }
    }

    /// Transforms a plane along its rows and its columns.
    fn plane(&self, plane: &mut [C], rows: usize, back: bool) {
        let columns = plane.len() / rows;
        plane.chunks_exact_mut(columns).for_each(|row| transform(row, back));
        let mut column = vec![C::default(); rows];
        for at in 0..columns {
            (0..rows).for_each(|row| column[row] = plane[row * columns + at]);
            transform(&mut column, back);
            (0..rows).for_each(|row| plane[row * columns + at] = column[row]);
        }
    }

    /// Transforms a plane along its columns only.
    fn columns(plane: &mut [C], rows: usize, back: bool) {
        let columns = plane.len() / rows;
        let mut column = vec![C::default(); rows];
        for at in 0..columns {
            (0..rows).for_each(|row| column[row] = plane[row * columns + at]);
            transform(&mut column, back);
            (0..rows).for_each(|row| plane[row * columns + at] = column[row]);
        }
    }

    /// The waves of a turned plane after so many steps.
    fn evolve(&self, row: usize, spectrum: &[C], step: usize, into: &mut [C]) {
        let [planes, rows, columns] = self.size;
        let wave = |at: usize, extent: usize| {
            if at > extent / 2 { at as f64 - extent as f64 } else { at as f64 }
        };
        let ky = wave(row, rows);
        for plane in 0..planes {
            let kz = wave(plane, planes);
            for column in 0..columns {
                let kx = wave(column, columns);
                let decay =
                    -4.0 * ALPHA * std::f64::consts::PI.powi(2) * (kx * kx + ky * ky + kz * kz);
                let factor = (decay * step as f64).exp();
                let at = plane * columns + column;
                into[at] = Complex { re: spectrum[at].re * factor, im: spectrum[at].im * factor };
            }
        }
    }

    /// Operations of transforms along one direction of so many points.
    fn flops(points: usize, extent: usize) -> usize {
        5 * points * extent.ilog2() as usize
    }
}

impl Kernel for Fft3d {
    fn bytes(&self) -> u64 {
        3 * (self.points() * 16) as u64 + (1 << 18)
    }

    fn run(&mut self, machine: &mut Machine<'_, '_>) -> Result<()> {
        let [planes, rows, columns] = self.size;
        let (plane_points, turned_points) = (rows * columns, planes * columns);
        let field = machine.dsm.alloc_at::<C>(self.points(), Placement::Pages)?;
        let spectrum = machine.dsm.alloc_at::<C>(self.points(), Placement::Pages)?;
        let waves = machine.dsm.alloc_at::<C>(self.points(), Placement::Pages)?;
        self.field = Some(field);
        let (mine, turned) = (machine.part(planes), machine.part(rows));
        let mut plane = vec![C::default(); plane_points];
        let mut around = vec![C::default(); turned_points];

        for at in mine.clone() {
            let range = at * plane_points..(at + 1) * plane_points;
            plane
                .iter_mut()
                .zip(range.clone())
                .for_each(|(value, point)| *value = self.first(point));
            machine.dsm.view_mut(field, range)?.copy_from(0, &plane);
        }
        machine.dsm.barrier()?;
        for at in mine.clone() {
            let view = machine.dsm.view_mut(field, at * plane_points..(at + 1) * plane_points)?;
            view.copy_to(0, &mut plane);
            self.plane(&mut plane, rows, false);
            view.copy_from(0, &plane);
            machine.computes(Self::flops(plane_points, rows) + Self::flops(plane_points, columns));
        }
        machine.dsm.barrier()?;
        for row in turned.clone() {
            // From its own planes on, so that not all ranks ask the first one first.
            for at in (mine.start..planes).chain(0..mine.start) {
                let from = at * plane_points + row * columns;
                let into = &mut around[at * columns..(at + 1) * columns];
                machine.dsm.view(field, from..from + columns)?.copy_to(0, into);
            }
            Self::columns(&mut around, planes, false);
            let to = row * turned_points..(row + 1) * turned_points;
            machine.dsm.view_mut(spectrum, to)?.copy_from(0, &around);
            machine.computes(Self::flops(turned_points, planes));
        }
        machine.dsm.barrier()?;
        let mut evolved = vec![C::default(); turned_points];
        for step in 1..=self.iterations {
            for row in turned.clone() {
                let place = row * turned_points..(row + 1) * turned_points;
                machine.dsm.view(spectrum, place.clone())?.copy_to(0, &mut around);
                self.evolve(row, &around, step, &mut evolved);
                Self::columns(&mut evolved, planes, true);
                machine.dsm.view_mut(waves, place)?.copy_from(0, &evolved);
                machine.computes(Self::flops(turned_points, planes) + 4 * turned_points);
            }
            machine.dsm.barrier()?;
            for at in mine.clone() {
                for row in (turned.start..rows).chain(0..turned.start) {
                    let from = row * turned_points + at * columns;
                    let into = &mut plane[row * columns..(row + 1) * columns];
                    machine.dsm.view(waves, from..from + columns)?.copy_to(0, into);
                }
                self.plane(&mut plane, rows, true);
                machine
                    .computes(Self::flops(plane_points, rows) + Self::flops(plane_points, columns));
                if step == self.iterations {
                    machine
                        .dsm
                        .view_mut(field, at * plane_points..(at + 1) * plane_points)?
                        .copy_from(0, &plane);
                }
            }
            machine.dsm.barrier()?;
        }
        Ok(())
    }

    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>> {
        let Some(field) = self.field else { return Ok(Vec::new()) };
        Ok(dsm.view(field, 0..field.len())?.iter().flat_map(|value| [value.re, value.im]).collect())
    }

    fn sequential(&self) -> Vec<f64> {
        let [planes, rows, columns] = self.size;
        let mut field: Vec<C> = (0..self.points()).map(|point| self.first(point)).collect();
        field.chunks_exact_mut(rows * columns).for_each(|plane| self.plane(plane, rows, false));
        let turn = |from: &[C], planes: usize, rows: usize| -> Vec<C> {
            let places = (0..rows)
                .flat_map(|row| (0..planes).map(move |plane| (plane * rows + row) * columns));
            places.flat_map(|at| from[at..at + columns].iter().copied()).collect()
        };
        let mut spectrum = turn(&field, planes, rows);
        spectrum
            .chunks_exact_mut(planes * columns)
            .for_each(|plane| Self::columns(plane, planes, false));
        let mut waves = spectrum.clone();
        for step in 1..=self.iterations {
            for (row, into) in waves.chunks_exact_mut(planes * columns).enumerate() {
                self.evolve(
                    row,
                    &spectrum[row * planes * columns..][..planes * columns],
                    step,
                    into,
                );
                Self::columns(into, planes, true);
            }
            field = turn(&waves, rows, planes);
            field.chunks_exact_mut(rows * columns).for_each(|plane| self.plane(plane, rows, true));
        }
        field.into_iter().flat_map(|value| [value.re, value.im]).collect()
    }

    fn picture(&self, result: &[f64]) -> String {
        let [_, rows, columns] = self.size;
        let slice: Vec<f64> =
            result.chunks_exact(2).take(rows * columns).map(|value| value[0]).collect();
        picture::field("3D-FFT, the first plane", &slice, columns)
    }
}

/// The transform of a row whose length is a power of two: back, it is divided by the length.
fn transform(row: &mut [C], back: bool) {
    let len = row.len();
    if len < 2 {
        return;
    }
    let bits = len.ilog2();
    for at in 0..len {
        let other = at.reverse_bits() >> (usize::BITS - bits);
        if at < other {
            row.swap(at, other);
        }
    }
    let sign = if back { 1.0 } else { -1.0 };
    for level in 0..bits {
        let half = 1 << level;
        let angle = sign * std::f64::consts::PI / half as f64;
        for at in 0..half {
            let (sin, cos) = (angle * at as f64).sin_cos();
            for pair in (at..len).step_by(2 * half) {
                let (one, other) = (row[pair], row[pair + half]);
                let turned =
                    C { re: other.re * cos - other.im * sin, im: other.re * sin + other.im * cos };
                row[pair] = C { re: one.re + turned.re, im: one.im + turned.im };
                row[pair + half] = C { re: one.re - turned.re, im: one.im - turned.im };
            }
        }
    }
    if back {
        let scale = 1.0 / len as f64;
        row.iter_mut().for_each(|value| *value = C { re: value.re * scale, im: value.im * scale });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transform_is_that_of_the_reference() {
        let mut planner = rustfft::FftPlanner::<f64>::new();
        for len in [1, 2, 8, 64, 512] {
            let input: Vec<C> =
                (0..len).map(|at| C { re: (at as f64).sin(), im: (at * at % 7) as f64 }).collect();
            for back in [false, true] {
                let mut ours = input.clone();
                transform(&mut ours, back);
                let mut theirs: Vec<_> = input
                    .iter()
                    .map(|value| rustfft::num_complex::Complex::new(value.re, value.im))
                    .collect();
                let plan = if back {
                    planner.plan_fft_inverse(len)
                } else {
                    planner.plan_fft_forward(len)
                };
                plan.process(&mut theirs);
                let scale = if back { 1.0 / len as f64 } else { 1.0 };
                for (ours, theirs) in ours.iter().zip(&theirs) {
                    assert!(
                        (ours.re - theirs.re * scale).abs() < 1e-9
                            && (ours.im - theirs.im * scale).abs() < 1e-9,
                        "{len}"
                    );
                }
            }
        }
    }

    #[test]
    fn without_decay_the_field_comes_back() {
        let kernel = Fft3d { size: [4, 8, 16], iterations: 1, field: None };
        let back = kernel.sequential();
        for point in 0..kernel.points() {
            // One step of a slow decay changes next to nothing.
            assert!((back[2 * point] - kernel.first(point).re).abs() < 0.01, "{point}");
        }
    }
}
