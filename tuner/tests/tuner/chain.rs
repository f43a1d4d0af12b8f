//! A chain of kernels from a file: what is grouped, what a step takes, and what is refused.

use std::path::Path;

use tuner::chain::{ChainFile, DeviceChain, Group, GroupEntry, Kernel};
use tuner::compare::Plan;
use tuner::verdict::{Side, Verdict};
use tuner::watch::NoWatch;
use tuner::{Config, Device, Failure, FailureKind, Outcome, SpaceBuilder, Value};

use crate::made;

/// A device that takes as many ms as the sum of its parameters, and gives so many times a launch.
fn sum(times: usize) -> impl Device {
    let value = |value: &Value| match value {
        Value::Int(number) => *number as f64,
        other => panic!("{other:?}"),
    };
    made(move |config, launches| Outcome::Times(vec![config.0.iter().map(value).sum(); times * launches]))
}

/// A kernel with these parameters, each from 1 to `most`.
fn kernel(name: &str, parameters: &[&str], most: i64) -> Kernel<'static> {
    let range = |space: SpaceBuilder, name: &&str| space.range(name, 1, most, 1);
    let space = parameters.iter().fold(SpaceBuilder::new(), range).build().unwrap();
    let default = space.config(0);
    Kernel { name: name.into(), device: Box::new(sum(1)), space, default }
}

fn together(members: &[&str], concurrent: bool) -> GroupEntry {
    GroupEntry { name: None, together: members.iter().map(|&member| member.to_owned()).collect(), concurrent }
}

fn widths(all: &[i64]) -> Vec<Config> {
    all.iter().map(|&width| Config(vec![Value::Int(width)])).collect()
}

#[test]
fn a_step_takes_as_long_as_its_slowest_kernel_where_they_run_at_once_and_as_all_of_them_otherwise() {
    for (concurrent, step, whole) in [(true, 4.0, 9.0), (false, 6.0, 11.0)] {
        let kernels = ["a", "b", "c"].map(|name| kernel(name, &["width"], 5)).into();
        let mut chain = DeviceChain::new(kernels, false, &[together(&["a", "b"], concurrent)]).unwrap();
        let configs = widths(&[4, 2, 5]);
        assert_eq!(chain.step(&[0, 1], &configs, 2), Outcome::Times(vec![step; 2]));
        assert_eq!(chain.step(&[2], &configs, 2), Outcome::Times(vec![5.0; 2]));
        assert_eq!(chain.whole(&configs, 2), Outcome::Times(vec![whole; 2]));
    }
}

#[test]
fn a_kernel_that_gives_another_number_of_times_than_launches_is_a_failure_with_its_name() {
    let mut kernels = vec![kernel("good", &["width"], 5), kernel("bad", &["width"], 5)];
    kernels[1].device = Box::new(sum(2));
    let mut chain = DeviceChain::new(kernels, false, &[]).unwrap();
    let Outcome::Failed(failure) = chain.whole(&widths(&[1, 1]), 3) else { panic!() };
    assert_eq!(failure.message, "bad: 6 times for 3 launches");
}

#[test]
fn a_group_takes_a_parameter_or_all_behind_a_dot_and_what_has_a_choice_is_left_alone_by_none() {
    let names = ["cluster.block", "cluster.run", "clusters", "sort"];
    let mut kernel = kernel("decoder", &names, 2);
    let fixed = SpaceBuilder::new().range("only", 1, 1, 1);
    kernel.space = names.iter().fold(fixed, |space, name| space.range(name, 1, 2, 1)).build().unwrap();
    kernel.default = kernel.space.config(0);
    let chain = DeviceChain::new(vec![kernel], true, &[together(&["cluster"], false)]).unwrap();
    let groups: Vec<(&str, &[usize])> =
        chain.groups().iter().map(|group| (group.name.as_str(), group.kernels.as_slice())).collect();
    assert_eq!(groups, [("cluster", &[1, 2][..]), ("clusters", &[3]), ("sort", &[4])]);
}

#[test]
fn a_group_of_more_configurations_than_can_be_listed_is_refused() {
    // 512 · 512 are more than 200 000.
    let refused =
        |chain: DeviceChain<'_>| chain.space_of("g", &[0, 1]).is_err_and(|error| error.contains("more than 200000"));
    let kernels = ["a", "b"].map(|name| kernel(name, &["width"], 512)).into();
    assert!(refused(DeviceChain::new(kernels, false, &[]).unwrap()));
    assert!(refused(DeviceChain::new(vec![kernel("both", &["a", "b"], 512)], true, &[]).unwrap()));
    let small = DeviceChain::new(vec![kernel("both", &["a", "b"], 20)], true, &[]).unwrap();
    assert_eq!(small.space_of("g", &[0, 1]).unwrap().len(), 400);
    assert_eq!(small.space_of("g", &[1]).unwrap().len(), 20);
}

#[test]
fn a_default_beside_kernels_of_their_own_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let read = |text: &str| {
        let path = folder.path().join("chain.toml");
        std::fs::write(&path, text).unwrap();
        ChainFile::read(Path::new(&path))
    };
    let kernel = "[[kernel]]\nname = \"a\"\ndevice = \"replay:x\"\n";
    assert_eq!(read(kernel).unwrap().kernels.len(), 1);
    assert!(read(&format!("[default]\nblock = 1\n{kernel}")).unwrap_err().contains("a default of its own"));
    assert!(read(&format!("{kernel}{kernel}")).unwrap_err().contains("two kernels"));
}

/// A device that takes one over its width, and after so many launches as long as its width.
fn tires(mut fresh: usize) -> impl Device {
    made(move |config, launches| {
        let Value::Int(width) = config.0[0] else { panic!() };
        if width == 5 {
            return Outcome::Failed(Failure { kind: FailureKind::Launch, message: "too wide".into() });
        }
        let time = if fresh > 0 { 1.0 / width as f64 } else { width as f64 };
        fresh = fresh.saturating_sub(launches);
        Outcome::Times(vec![time; launches])
    })
}

/// A chain of two kernels, each tuned by itself; the group of the first one chooses `width`.
fn chosen(fresh: usize, width: i64) -> (tuner::chain::ChainDecision, Vec<String>) {
    let mut kernels = vec![kernel("a", &["width"], 5), kernel("b", &["width"], 5)];
    kernels[0].device = Box::new(tires(fresh));
    let mut chain = DeviceChain::new(kernels, false, &[]).unwrap();
    let mut asked = Vec::new();
    let mut choose = |group: &Group, device: &mut dyn Device, default: &Config| {
        device.measure(default, 1);
        asked.push(group.name.clone());
        if group.name == "a" { Config(vec![Value::Int(width)]) } else { default.clone() }
    };
    (chain.tune(&Plan::default(), &mut NoWatch, &mut choose).unwrap(), asked)
}

#[test]
fn the_groups_choose_and_only_the_whole_chain_counts() {
    let (decision, asked) = chosen(usize::MAX, 4);
    assert_eq!((decision.configs, asked), (widths(&[4, 1]), vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(decision.comparison.unwrap().judgement.verdict, Verdict::Better(Side::B));
    // Slower in the chain than it was alone.
    let (decision, _) = chosen(1, 4);
    assert_eq!((decision.proposed, decision.configs), (widths(&[4, 1]), widths(&[1, 1])));
    assert_eq!(decision.comparison.unwrap().judgement.verdict, Verdict::Better(Side::A));
    // A proposal that the chain does not survive leaves the defaults, which need no comparison.
    let (decision, _) = chosen(usize::MAX, 5);
    assert_eq!((decision.configs, decision.failure.unwrap().message), (widths(&[1, 1]), "a: too wide".to_owned()));
    assert_eq!(chosen(usize::MAX, 1).0.comparison, None);
}
