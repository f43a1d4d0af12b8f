//! Reports of sweeps.

use ut_decoding::Layout;
use ut_decoding::bench::sweep::Outcome;
use ut_decoding::bench::sweep::axis::parse_all;
use ut_decoding::bench::sweep::plan::Plan;
use ut_decoding::bench::sweep::report::{About, Report};
use ut_decoding::bench::work::METRICS;
use ut_decoding::bench::{Change, Machine, Spread};
use ut_decoding::decoder::{Backend, Parameters};

fn about(backend: Backend) -> About {
    About {
        command: "ut-decode sweep --axis batch=16,32,64 <&>".to_owned(),
        backend: backend.name().to_owned(),
        sample: "embedded pp-nominal v5 events, seed 1".to_owned(),
        events: 1000,
        unit: if backend == Backend::Cpu {
            "events/s"
        } else {
            "global_sectors per event"
        }
        .to_owned(),
        less_is_better: backend != Backend::Cpu,
        rounds: if backend == Backend::Cpu { 4 } else { 1 },
        seed: 1,
        machine: Machine {
            cpu: Some("Some CPU".to_owned()),
            cores: 8,
            version: "0.1.0".to_owned(),
            commit: Some("0123456789ab".to_owned()),
            optimised: true,
        },
        environment: Vec::new(),
    }
}

fn plan(backend: Backend, axes: &[&str]) -> Plan {
    let base = Parameters::default().with_batches(32, Layout::Allen);
    Plan::new(parse_all(backend, axes).unwrap(), &base, backend, 17_000.0).unwrap()
}

/// Makes a report with two axes and four rounds, in which one point has other bits, one does not
/// run, and some are skipped.
fn rates() -> Report {
    let plan = plan(Backend::Cpu, &["batch=16,32,64", "threads=1,2,4096"]);
    let failed = |message: &str| vec![Err(message.to_owned())];
    let rate = |p: usize, round: usize| {
        10_000.0
            + 1500.0 * p as f64
            + 100.0 * (round as f64 - 1.5) * if round == 3 { 3.0 } else { 1.0 }
    };
    let points = plan
        .points
        .iter()
        .enumerate()
        .map(|(p, point)| match point.values[..] {
            [64, 2] => failed(
                "its hits differ from the reference: event 3: the counts differ from the reference",
            ),
            [64, 1] => failed("cpu backend: no \"such\" thing, <here>"),
            _ => (0..4).map(|round| Ok(vec![rate(p, round)])).collect(),
        });
    Report::new(
        about(Backend::Cpu),
        &plan,
        &points.collect::<Vec<_>>(),
        None,
    )
}

/// Makes a report of counts along one axis, with the default off the axis.
fn counts() -> Report {
    let plan = plan(Backend::Emulated, &["count.block_x=32,64,96,2048"]);
    let work = |p: usize| {
        METRICS
            .iter()
            .enumerate()
            .map(|(m, _)| 1000.5 + 10.0 * (p * p) as f64 + m as f64)
            .collect()
    };
    let points: Vec<Vec<Outcome>> = (0..plan.points.len()).map(|p| vec![Ok(work(p))]).collect();
    Report::new(about(Backend::Emulated), &plan, &points, Some(0))
}

#[test]
fn the_best_is_the_most_events_or_the_least_work() {
    let report = rates();
    assert_eq!(report.points[report.best.unwrap()].values, [32, 2]);
    assert_eq!(report.points[report.default].values, [32, 1]);
    let report = counts();
    assert_eq!(report.points[report.best.unwrap()].values, [32]);
    assert_eq!(report.points[report.default].values, [128]);
}

#[test]
fn a_point_that_failed_is_never_the_best_and_says_why() {
    let report = rates();
    let of = |values: [u32; 2]| {
        report
            .points
            .iter()
            .find(|point| point.values == values)
            .unwrap()
    };
    assert_eq!(of([64, 2]).measured, None);
    assert!(
        of([64, 2])
            .failure
            .as_ref()
            .unwrap()
            .starts_with("its hits differ from the reference")
    );
    let page = report.html();
    assert!(
        page.contains("no &quot;such&quot; thing, &lt;here&gt;") && !page.contains("<here>"),
        "text is escaped"
    );
}

#[test]
fn a_sweep_in_which_nothing_worked_says_so() {
    let plan = plan(Backend::Cpu, &["batch=1,2"]);
    let report = Report::new(about(Backend::Cpu), &plan, &[], None);
    assert_eq!(
        (report.best, report.verdict().as_str()),
        (None, "No point could be measured.")
    );
    assert!(report.html().contains("not measured yet"));
}

#[test]
fn numbers_of_a_report_come_from_the_measurements() {
    let report = rates();
    let point = &report.points[0];
    assert_eq!(point.repetitions, 4);
    let rates = [9850.0, 9950.0, 10_050.0, 10_450.0];
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
    let (measured, expected) = (point.measured.unwrap(), Spread::of(&rates));
    assert!(close(measured.median, expected.median) && close(measured.max, expected.max));
    let default = [12_850.0, 12_950.0, 13_050.0, 13_450.0];
    let (change, expected) = (
        point.change.as_ref().unwrap(),
        Change::between(&default, &rates, 1, 3).unwrap(),
    );
    assert!(
        close(change.percent, expected.percent) && change.doubt == expected.doubt,
        "{change:?} {expected:?}"
    );
}

#[test]
fn nothing_is_compared_with_a_default_that_failed_in_a_round() {
    let plan = plan(Backend::Cpu, &["batch=16,64"]);
    let rate = || -> Outcome { Ok(vec![20_000.0]) };
    let mut points = vec![vec![rate(), rate()]; plan.points.len()];
    points[plan.default] = vec![Err("no memory".to_owned()), rate()];
    let report = Report::new(
        About {
            rounds: 2,
            ..about(Backend::Cpu)
        },
        &plan,
        &points,
        None,
    );
    assert!(
        report.points.iter().all(|point| point.change.is_none()),
        "{report:?}"
    );
    assert_eq!(
        report.points[plan.default].failure.as_deref(),
        Some("no memory")
    );
    let verdict = report.verdict();
    assert!(verdict.contains("the default failed"), "{verdict}");
}

#[test]
fn three_rounds_are_too_few_to_compare_with_the_default() {
    let plan = plan(Backend::Cpu, &["batch=16,64"]);
    let rounds = |rates: [f64; 3]| rates.map(|rate| Ok(vec![rate])).to_vec();
    // One slow first round of the best; the default's is not.
    let points = [
        rounds([9000.0, 28_657.0, 29_000.0]),
        rounds([20_000.0; 3]),
        rounds([23_777.0, 23_700.0, 23_900.0]),
    ];
    let report = Report::new(
        About {
            rounds: 3,
            ..about(Backend::Cpu)
        },
        &plan,
        &points,
        None,
    );
    let verdict = report.verdict();
    assert!(
        verdict.contains("28657") && verdict.contains("too few rounds") && !verdict.contains('%'),
        "{verdict}"
    );
}
