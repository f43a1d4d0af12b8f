//! Chains from files: kernels tuned together, the time of a step, and invalid files.

use std::collections::BTreeMap;

use tuner::chain::file::ChainFile;
use tuner::chain::{Chain, Member};

use crate::prelude::*;

/// A device that takes as many ms as the sum of its parameters, and gives a fixed number of times
/// per launch.
fn sum(times: usize) -> impl Device {
    made(move |config, launches| {
        Times(vec![
            numbers(config).iter().sum::<i64>() as f64;
            times * launches
        ])
    })
}

/// Makes a space with these parameters, each from 1 to `most`.
pub fn space(parameters: &[&str], most: i64) -> Space {
    let range = |space: SpaceBuilder, name: &&str| space.range(name, 1, most, 1);
    parameters
        .iter()
        .fold(SpaceBuilder::new(), range)
        .build()
        .unwrap()
}

/// Makes a kernel with these parameters, each from 1 to `most`.
pub fn kernel(name: &str, parameters: &[&str], most: i64) -> Member<'static> {
    Member {
        prefix: name.to_owned(),
        name: name.to_owned(),
        device: Box::new(sum(1)),
        space: space(parameters, most),
        default: None,
        apart: false,
    }
}

/// Kernels of one parameter, from 1 to `most`.
fn kernels(names: &[&str], parameter: &str, most: i64) -> Vec<Member<'static>> {
    names
        .iter()
        .map(|name| kernel(name, &[parameter], most))
        .collect()
}

/// Makes the chain of a file.
pub fn chain<'d>(members: Vec<Member<'d>>, file: &str) -> Result<Chain<'d>, Error> {
    let values = BTreeMap::from([("strips".to_owned(), Value::Int(3))]);
    Chain::new(members, &ChainFile::parse(file)?, &values)
}

/// Returns the groups with their parameters, as `name: a b`.
fn groups(chain: &Chain<'_>) -> Vec<String> {
    let names =
        |of: &[usize]| -> Vec<_> { of.iter().map(|&at| chain.names()[at].as_str()).collect() };
    chain
        .groups()
        .iter()
        .map(|group| format!("{}: {}", group.name, names(&group.parameters).join(" ")))
        .collect()
}

#[test]
fn a_step_takes_the_time_of_its_slowest_kernel_if_concurrent_and_the_sum_otherwise() {
    for (concurrent, step, whole) in [(true, 4.0, 9.0), (false, 6.0, 11.0)] {
        let file = format!("[[group]]\ntogether = [\"a\", \"b\"]\nconcurrent = {concurrent}");
        let mut chain = chain(kernels(&["a", "b", "c"], "width", 5), &file).unwrap();
        let all = ints(&[4, 2, 5]);
        for (at, config, time) in [(0, ints(&[4, 2]), step), (1, ints(&[5]), 5.0)] {
            let group = chain.groups()[at].clone();
            let measured = chain.part(&group, all.clone()).measure(&config, 2);
            assert_eq!(measured, Times(vec![time; 2]));
        }
        assert_eq!(chain.whole().measure(&all, 2), Times(vec![whole; 2]));
    }
}

#[test]
fn a_kernel_that_shares_a_parameter_with_a_step_does_not_run_at_once_with_it() {
    let file = "[[group]]\ntogether = [\"a\", \"b\"]\nconcurrent = true\n[[shared]]\n\
                name = \"layout\"\nparameters = [\"a.layout\", \"b.layout\", \"c.layout\"]";
    let mut chain = chain(kernels(&["a", "b", "c"], "layout", 5), file).unwrap();
    // Twice three ms: the step, and the kernel behind it.
    assert_eq!(chain.whole().measure(&ints(&[3]), 1), Times(vec![6.0]));
}

#[test]
fn a_kernel_with_a_wrong_number_of_times_is_a_failure_with_its_name() {
    let mut both = kernels(&["good", "bad"], "width", 5);
    both[1].device = Box::new(sum(2));
    let measured = chain(both, "").unwrap().whole().measure(&ints(&[1, 1]), 3);
    assert_eq!(failure(measured).message, "bad: 6 times for 3 launches");
    let mut one = chain(kernels(&["one"], "width", 5), "").unwrap();
    let measured = one.whole().measure(&ints(&[1, 1]), 1);
    assert_eq!(failure(measured).kind, FailureKind::Constraint);
}

#[test]
fn a_group_takes_parameters_by_name_or_prefix_and_the_rest_is_tuned_alone() {
    let names = ["only", "cluster.block", "cluster.run", "clusters", "sort"];
    let mut decoder = kernel("decoder", &names, 2);
    (decoder.prefix, decoder.apart) = (String::new(), true);
    let made = chain(vec![decoder], "[[group]]\ntogether = [\"cluster\"]").unwrap();
    assert_eq!(
        groups(&made),
        [
            "cluster: cluster.block cluster.run",
            "only: only",
            "clusters: clusters",
            "sort: sort"
        ]
    );
    assert_eq!(made.space_of(&made.groups()[0]).unwrap().len(), 4);
    // A kernel that is not apart keeps what no group takes together.
    let kernels = vec![kernel("k", &["a", "b", "c"], 2)];
    let made = chain(kernels, "[[group]]\ntogether = [\"k.b\"]").unwrap();
    assert_eq!(groups(&made), ["k.b: k.b", "k: k.a k.c"]);
}

#[test]
fn a_group_with_too_many_configurations_is_refused() {
    let together = "[[group]]\nname = \"g\"\ntogether = [\"a\", \"b\"]";
    let shared = "[[shared]]\nname = \"width\"\nparameters = [\"a.width\", \"b.width\"]";
    let of = |most: i64, file: &str| {
        let made = chain(kernels(&["a", "b"], "width", most), file).unwrap();
        made.space_of(&made.groups()[0]).map(|space| space.len())
    };
    // 512 · 512 are more than 200 000. Shared, there are only 512.
    says(
        of(512, together).unwrap_err(),
        "group g has more than 200000",
    );
    assert_eq!((of(20, together), of(512, shared)), (Ok(400), Ok(512)));
}

#[test]
fn shared_parameters_take_the_values_that_all_kernels_have() {
    let mut kernels = vec![
        kernel("a", &["layout", "x"], 4),
        kernel("b", &["y", "layout"], 2),
    ];
    (kernels[0].default, kernels[1].default) = (Some(ints(&[2, 1])), Some(ints(&[1, 2])));
    let file = "[[shared]]\nname = \"layout\"\nparameters = [\"a.layout\", \"b.layout\"]";
    let made = chain(kernels, file).unwrap();
    assert_eq!(made.names(), ["layout", "a.x", "b.y"]);
    let space = made.space_of(&made.groups()[0]).unwrap();
    // Layouts 1 and 2, four of x, two of y.
    assert_eq!((space.len(), space.index_of(&ints(&[3, 1, 1]))), (16, None));
    assert!(space.index_of(&ints(&[2, 4, 2])).is_some());
}

#[test]
fn contradictions_are_named() {
    for (file, part) in [
        (
            "[[group]]\ntogether = [\"sort\"]",
            "there is no \"sort\"; there are a.width, b.width",
        ),
        ("[[group]]\ntogether = []", "it is empty"),
        (
            "[default]\n\"a.width\" = 7",
            "no valid configuration has width=7",
        ),
        ("[default]\nwidth = 1", "there is no \"width\""),
        (
            "[[shared]]\nname = \"w\"\nparameters = [\"a.w\"]",
            "there is no \"a.w\"",
        ),
        (
            "[[shared]]\nname = \"a.width\"\nparameters = [\"b.width\"]",
            "the name of a kernel's parameter",
        ),
        ("[[constraint]]\nwhen = \"a.width > b.height\"", "b.height"),
        (
            "[[constraint]]\nwhen = \"a.width > b.width\"",
            "the default does not meet it",
        ),
        ("together = 1", "unknown field"),
        (
            "[[kernel]]\nname = \"a\"",
            "needs a name, and either a program or a recording",
        ),
        (
            "[[kernel]]\nname = \"a\"\nreplay = \"x\"\n[[kernel]]\nname = \"a\"\nreplay = \"x\"",
            "two kernels called \"a\"",
        ),
        (
            "[[workload]]\nname = \"pp\"\n[[workload]]\nname = \"pp\"",
            "two workloads called \"pp\"",
        ),
        ("[[workload]]\nname = \"pp\"\nweight = -1", "the weight -1"),
        (
            "[[workload]]\nname = \"pp\"\nweight = 0",
            "all workloads have the weight 0",
        ),
        (
            "[[group]]\ntogether = [\"a\"]\nconcurrent = true\n\
             [[group]]\ntogether = [\"a\", \"b\"]\nconcurrent = true",
            "already in a concurrent group",
        ),
    ] {
        says(
            chain(kernels(&["a", "b"], "width", 5), file).err().unwrap(),
            part,
        );
    }
    let differ = |default: &str| {
        let mut differ = kernels(&["a", "b"], "width", 5);
        differ[1].default = Some(ints(&[2]));
        let shared = "[[shared]]\nname = \"width\"\nparameters = [\"a.width\", \"b.width\"]";
        chain(differ, &format!("{default}{shared}"))
    };
    let refused = differ("").err().unwrap().to_string();
    assert!(
        refused.contains("1 for a and 2 for b") && refused.contains("[default]"),
        "{refused}"
    );
    // The file's default decides, for both.
    assert_eq!(
        *differ("[default]\nwidth = 3\n").unwrap().default(),
        ints(&[3])
    );
}
