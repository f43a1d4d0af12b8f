//! Searches and decisions, as ALICE asks for them.

use tuner::compare::{Plan, decide};
use tuner::store::{DeviceIdentity, Locations};
use tuner::strategy::StrategyKind;
use tuner::verdict::{Block, Method, Rules, Side, Verdict, judge};
use tuner::watch::NoWatch;
use tuner::{Config, Operation, Outcome, SpaceBuilder, Value, tuned};

use crate::made;
use crate::session::{Place, tuned as tune};
use crate::store::Folder;

#[test]
fn l5_the_default_is_left_only_where_the_interval_excludes_it_and_of_several_for_the_smallest_mean()
{
    // The default is left only where the 95 % interval of the difference excludes it; of several,
    // the smallest mean.
    let rules = Rules {
        method: Method::Alice,
        ..Rules::default()
    };
    let blocks = |by: f64| -> Vec<Block> {
        let noise = |i: u32| f64::from(i * 7 % 5) * 0.01;
        (0..10)
            .map(|i| Block {
                a: vec![1.0 + noise(i)],
                b: vec![by + noise(i + 3)],
                ..Block::default()
            })
            .collect()
    };
    // Ten samples of spread 1.5 % each: the interval is ±1.3 %.
    let verdict = |by: f64| judge(&blocks(by), &rules.fixed(10)).verdict;
    assert_eq!(verdict(0.995), Verdict::Same);
    assert_eq!(verdict(0.97), Verdict::Better(Side::B));
    assert_eq!(verdict(1.03), Verdict::Better(Side::A));
    // Configurations 1 and 2 are both faster than the default, 2 is the fastest; 3 is slower.
    for method in [Method::Alice, Method::Blocks] {
        let mut launches = 0_u32;
        let mut device = made(|config, _| {
            launches += 1;
            let Value::Int(number) = config.0[0] else {
                panic!()
            };
            Outcome::Times(vec![
                [1.0, 0.95, 0.9, 1.1][number as usize] + f64::from(launches * 7 % 5) * 0.001,
            ])
        });
        let config = |number: i64| Config(vec![Value::Int(number)]);
        let plan = Plan {
            rules: Rules {
                method,
                looks: vec![10],
                ..Rules::default()
            },
            rounds: 4,
            ..Plan::default()
        };
        let decision = decide(
            &mut device,
            &config(0),
            &[1, 2, 3].map(config),
            &plan,
            &mut NoWatch,
        );
        assert_eq!(decision.chosen, config(2), "{method:?}");
        let decision = decide(
            &mut device,
            &config(2),
            &[0, 1, 3].map(config),
            &plan,
            &mut NoWatch,
        );
        assert_eq!(decision.chosen, config(2), "{method:?}: the default stays");
    }
}

#[test]
fn l7_grid_random_and_bayesian_search() {
    // Grid, random and Bayesian search: all find a configuration near the optimum, the grid the
    // optimum itself.
    let place = Place::new("seed=3,fail=0.1");
    let optimum = place
        .synthetic
        .true_ms(place.synthetic.optimum().unwrap())
        .unwrap();
    for (kind, budget, most) in [
        (StrategyKind::Exhaustive, "1152", 1.0),
        (StrategyKind::Random, "300", 1.3),
        (StrategyKind::Bayesian, "100", 1.1),
    ] {
        let session = place.session(kind, budget);
        let found = tune(&session, &mut place.synthetic.clone()).evidence;
        let index = session.task.space.index_of(&found.chosen.config).unwrap();
        let time = place.synthetic.true_ms(index).unwrap();
        assert!(
            time <= most * optimum,
            "{kind}: {time} instead of {optimum}"
        );
        assert_eq!(found.tried, budget.parse::<usize>().unwrap(), "{kind}");
    }
}

#[test]
fn l9_the_parameters_of_another_gpu_are_never_used_silently() {
    // The parameters of another GPU are never used silently.
    let folder = Folder::new();
    let space = SpaceBuilder::new()
        .ints("block", [64, 128, 256])
        .build()
        .unwrap();
    let ask = |gpu: &str, best: i64| {
        let device = DeviceIdentity {
            driver: "580.1".to_owned(),
            ..DeviceIdentity::named(gpu, "CUDA")
        };
        let stores = Some(Locations {
            user: folder.path("tune.sqlite"),
        });
        let operation = Operation {
            stores,
            ..Operation::new("promises", "cluster", 1, &device, &space)
        };
        let mut launches = 0;
        let found = tuned(&operation, |config| {
            launches += 1;
            Ok::<_, String>(Some(1.0 + (config.int("block") - best).abs() as f64))
        });
        (found.unwrap().config.int("block"), launches > 0)
    };
    assert_eq!(ask("NVIDIA A100", 64), (64, true));
    assert_eq!(ask("NVIDIA H200", 256), (256, true), "another GPU is tuned");
    assert_eq!(ask("NVIDIA A100", 128), (64, false));
    assert_eq!(ask("NVIDIA H200", 128), (256, false));
    // A store that is copied to another machine says whose results it has.
    let device = DeviceIdentity::named("NVIDIA L4", "CUDA");
    let tunable = tuner::store::TunableIdentity::new("cluster", 1);
    let workload = tuner::store::Workload::new();
    let task = tuner::store::Task {
        device: &device,
        tunable: &tunable,
        workload: &workload,
        space: &space,
    };
    let found = folder.store().find(&task).unwrap();
    assert!(
        found
            .iter()
            .all(|found| found.step() > 0 && found.in_words().contains("instead of NVIDIA L4"))
    );
}
