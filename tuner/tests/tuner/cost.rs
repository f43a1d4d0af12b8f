//! Times of sets on workloads, and the choice of one set.

use tuner::cost::{Costs, Mix, measure};
use tuner::workloads::Matrix;

use crate::prelude::*;

/// Sets run in `base` ms times their distance from `best`, plus 1; set 9 fails.
struct Line {
    best: i64,
    base: f64,
    measured: usize,
}

impl Device for Line {
    fn name(&self) -> String {
        "line".into()
    }

    fn measure(&mut self, config: &Config, launches: usize) -> Outcome {
        self.measured += launches;
        match number(config) {
            9 => Failed(failed("too much")),
            set => Times(vec![
                self.base * (1.0 + (set - self.best).abs() as f64);
                launches
            ]),
        }
    }
}

fn lines(lines: [(i64, f64); 2]) -> [Line; 2] {
    lines.map(|(best, base)| Line {
        best,
        base,
        measured: 0,
    })
}

fn sets(all: &[i64]) -> Vec<Config> {
    all.iter().map(|set| ints(&[*set])).collect()
}

#[test]
fn every_set_is_measured_on_every_workload_and_failures_are_kept() {
    let [mut a, mut b] = lines([(1, 1.0), (3, 10.0)]);
    let mut loads: [(String, &mut dyn Device); 2] = [("a".into(), &mut a), ("b".into(), &mut b)];
    let (all, mut rounds) = (sets(&[1, 3, 9]), 0);
    let costs = measure(&mut loads, &all, 5, 1, &mut NoWatch, |_| rounds += 1).unwrap();
    let [a_only, b_only] = [(1.0, 30.0), (3.0, 10.0)].map(|(a, b)| vec![Some(a), Some(b)]);
    assert_eq!(costs.matrix.times, [a_only, b_only, vec![None, None]]);
    assert_eq!((costs.error, rounds, costs.failures.len()), (0.0, 6, 2));
    assert_eq!(costs.matrix.workloads, ["a", "b"]);
    // Five rounds and one to warm up for two sets; the failing one once.
    assert_eq!((a.measured, b.measured), (13, 13));
    let mut alone: [(String, &mut dyn Device); 1] = [("a".into(), &mut a)];
    assert!(measure(&mut alone, &sets(&[9]), 2, 1, &mut NoWatch, |_| ()).is_err());
}

#[test]
fn a_result_within_its_error_of_the_default_is_not_recommended() {
    let chosen = |error: f64| {
        let times: [&[Option<f64>]; 2] = [&[Some(1.212), Some(1.0)], &[Some(1.0), Some(1.05)]];
        let costs = Costs {
            matrix: matrix(&times),
            error,
            failures: Vec::new(),
        };
        let shown = costs.shown();
        (
            shown.by_mean(&[1.0, 1.0]).unwrap().0,
            shown.of_workload().unwrap(),
        )
    };
    // 21.2 % with a standard error of 20.2 %: the default stays for all; with one of 1 % it was
    // shown.
    assert_eq!(
        [0.202, 0.01].map(chosen),
        [(0, vec![0, 0]), (1, vec![1, 0])]
    );
}

/// Mixes a workload of 1 ms with another of 1 s. In a mean of times, only the second would count.
/// Each time is divided by the unit of its workload first, so set 2, which takes twice as long on
/// both, costs 2.
#[test]
fn a_mix_weighs_workloads_and_not_their_size() {
    let [mut a, mut b] = lines([(1, 1.0), (1, 1000.0)]);
    let mut parts: [(String, &mut dyn Device); 2] = [("a".into(), &mut a), ("b".into(), &mut b)];
    let mut time = |weights: [f64; 2], set: i64| {
        Mix::new(&mut parts, &weights, &[1.0, 1000.0]).measure(&ints(&[set]), 2)
    };
    assert_eq!(time([1.0, 1.0], 2), Times(vec![2.0; 2]));
    assert_eq!(time([1.0, 3.0], 1), Times(vec![1.0; 2]));
    assert_eq!(failure(time([0.0, 1.0], 9)).message, "b: too much");
}

fn matrix(times: &[&[Option<f64>]]) -> Matrix {
    Matrix {
        workloads: (0..times[0].len()).map(|i| format!("w{i}")).collect(),
        sets: (0..times.len() as i64).map(|i| ints(&[i])).collect(),
        times: times.iter().map(|row| row.to_vec()).collect(),
    }
}

#[test]
fn mean_worst_and_each_workload_choose_differently() {
    // 0 is best on w0 and bad on w1, 1 the other way round, 2 is middling on both, 3 fails on w1.
    let m = matrix(&[
        &[Some(1.0), Some(2.0)],
        &[Some(1.5), Some(1.0)],
        &[Some(1.2), Some(1.3)],
        &[Some(0.999), None],
    ]);
    // A failure where it does not count is forgiven.
    for (weights, set) in [([9.0, 1.0], 0), ([1.0, 9.0], 1), ([1.0, 0.0], 3)] {
        assert_eq!(m.by_mean(&weights).unwrap().0, set);
    }
    // The worst case of a set is its largest time over the best on the same workload: 2.0 / 1.0 for
    // set 0, 1.5 / 0.999 for set 1, and 1.3 / 1.0 for set 2, which is 30 % too slow at most.
    let (set, regret) = m.by_worst().unwrap();
    assert!(set == 2 && (regret - 0.3).abs() < 1e-12, "{set} {regret}");
    assert_eq!(m.of_workload().unwrap(), [3, 1]);
}

#[test]
fn a_matrix_without_a_complete_set_or_with_bad_weights_is_refused() {
    let m = matrix(&[&[Some(1.0), None], &[None, Some(1.0)]]);
    says(m.by_worst().unwrap_err(), "no set runs on all workloads");
    let m = matrix(&[&[Some(1.0), Some(1.0)]]);
    for weights in [&[1.0][..], &[0.0, 0.0], &[-1.0, 2.0], &[f64::NAN, 1.0]] {
        assert!(m.by_mean(weights).is_err(), "{weights:?}");
    }
    assert!(matrix(&[&[Some(f64::NAN)]]).check().is_err());
}
