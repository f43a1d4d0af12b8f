//! Chains from files: kernels tuned together, the time of a step, and invalid files.

use std::collections::BTreeMap;

use tuner::chain::file::ChainFile;
use tuner::chain::{Chain, Member};
use tuner::{Config, Device, Error, Failure, FailureKind, Outcome, Space, SpaceBuilder, Value};

use crate::made;

/// Device that takes as many ms as the sum of its parameters, and gives a fixed number of times per
/// launch.
pub fn sum(times: usize) -> impl Device {
    let value = |value: &Value| match value {
        Value::Int(number) => *number as f64,
        other => panic!("{other:?}"),
    };
    made(move |config, launches| {
        Outcome::Times(vec![config.0.iter().map(value).sum(); times * launches])
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
    let (name, space) = (name.to_owned(), space(parameters, most));
    Member {
        prefix: name.clone(),
        name,
        device: Box::new(sum(1)),
        space,
        default: None,
        apart: false,
    }
}

/// Makes the chain of a file.
pub fn chain<'d>(members: Vec<Member<'d>>, file: &str) -> Result<Chain<'d>, Error> {
    let values = BTreeMap::from([("strips".to_owned(), Value::Int(3))]);
    Chain::new(members, &ChainFile::parse(file)?, &values)
}

pub fn ints(all: &[i64]) -> Config {
    Config(all.iter().map(|&value| Value::Int(value)).collect())
}

/// Returns the names of the groups with their parameters.
fn groups(chain: &Chain<'_>) -> Vec<(String, Vec<String>)> {
    let names = |of: &[usize]| {
        of.iter()
            .map(|&place| chain.names()[place].clone())
            .collect()
    };
    chain
        .groups()
        .iter()
        .map(|group| (group.name.clone(), names(&group.parameters)))
        .collect()
}

fn shown(groups: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    groups
        .iter()
        .map(|(name, names)| ((*name).to_owned(), owned(names)))
        .collect()
}

#[test]
fn a_step_takes_the_time_of_its_slowest_kernel_if_concurrent_and_the_sum_otherwise() {
    for (concurrent, step, whole) in [(true, 4.0, 9.0), (false, 6.0, 11.0)] {
        let kernels = ["a", "b", "c"]
            .map(|name| kernel(name, &["width"], 5))
            .into();
        let file = format!("[[group]]\ntogether = [\"a\", \"b\"]\nconcurrent = {concurrent}");
        let mut chain = chain(kernels, &file).unwrap();
        let [group, alone] = [0, 1].map(|at| chain.groups()[at].clone());
        let all = ints(&[4, 2, 5]);
        assert_eq!(
            chain.part(&group, all.clone()).measure(&ints(&[4, 2]), 2),
            Outcome::Times(vec![step; 2])
        );
        assert_eq!(
            chain.part(&alone, all.clone()).measure(&ints(&[5]), 2),
            Outcome::Times(vec![5.0; 2])
        );
        assert_eq!(
            chain.whole().measure(&all, 2),
            Outcome::Times(vec![whole; 2])
        );
    }
}

#[test]
fn a_kernel_that_shares_a_parameter_with_a_step_does_not_run_at_once_with_it() {
    let kernels = ["a", "b", "c"]
        .map(|name| kernel(name, &["layout"], 5))
        .into();
    let file = "[[group]]\ntogether = [\"a\", \"b\"]\nconcurrent = true\n\
                [[shared]]\nname = \"layout\"\nparameters = [\"a.layout\", \"b.layout\", \"c.layout\"]";
    // Twice three ms: the step, and the kernel behind it.
    assert_eq!(
        chain(kernels, file)
            .unwrap()
            .whole()
            .measure(&ints(&[3]), 1),
        Outcome::Times(vec![6.0])
    );
}

#[test]
fn a_kernel_that_gives_another_number_of_times_than_launches_is_a_failure_with_its_name() {
    let mut kernels = vec![kernel("good", &["width"], 5), kernel("bad", &["width"], 5)];
    kernels[1].device = Box::new(sum(2));
    let Outcome::Failed(failure) = chain(kernels, "")
        .unwrap()
        .whole()
        .measure(&ints(&[1, 1]), 3)
    else {
        panic!()
    };
    assert_eq!(failure.message, "bad: 6 times for 3 launches");
    let values = chain(vec![kernel("one", &["width"], 5)], "")
        .unwrap()
        .whole()
        .measure(&ints(&[1, 1]), 1);
    assert!(
        matches!(
            values,
            Outcome::Failed(Failure {
                kind: FailureKind::Constraint,
                ..
            })
        ),
        "{values:?}"
    );
}

#[test]
fn a_group_takes_a_parameter_or_all_behind_a_dot_and_the_rest_is_tuned_by_itself() {
    let names = ["only", "cluster.block", "cluster.run", "clusters", "sort"];
    let mut decoder = kernel("decoder", &names, 2);
    (decoder.prefix, decoder.apart) = (String::new(), true);
    let made = chain(vec![decoder], "[[group]]\ntogether = [\"cluster\"]").unwrap();
    let expected: &[(&str, &[&str])] = &[
        ("cluster", &["cluster.block", "cluster.run"]),
        ("only", &["only"]),
        ("clusters", &["clusters"]),
        ("sort", &["sort"]),
    ];
    assert_eq!(groups(&made), shown(expected));
    assert_eq!(made.space_of(&made.groups()[0]).unwrap().len(), 4);
    // A kernel that is not apart keeps what no group takes together.
    let made = chain(
        vec![kernel("k", &["a", "b", "c"], 2)],
        "[[group]]\ntogether = [\"k.b\"]",
    )
    .unwrap();
    assert_eq!(
        groups(&made),
        shown(&[("k.b", &["k.b"]), ("k", &["k.a", "k.c"])])
    );
}

#[test]
fn a_group_of_more_configurations_than_can_be_listed_is_refused() {
    // 512 · 512 are more than 200 000.
    let two = |most: i64| {
        let kernels = ["a", "b"].map(|name| kernel(name, &["width"], most)).into();
        let made = chain(
            kernels,
            "[[group]]\nname = \"g\"\ntogether = [\"a\", \"b\"]",
        )
        .unwrap();
        made.space_of(&made.groups()[0]).map(|space| space.len())
    };
    assert!(
        two(512)
            .unwrap_err()
            .to_string()
            .contains("group g has more than 200000")
    );
    assert_eq!(two(20), Ok(400));
    // Shared, there are only 512.
    let kernels = ["a", "b"].map(|name| kernel(name, &["width"], 512)).into();
    let made = chain(
        kernels,
        "[[shared]]\nname = \"width\"\nparameters = [\"a.width\", \"b.width\"]",
    )
    .unwrap();
    assert_eq!(made.space_of(&made.groups()[0]).unwrap().len(), 512);
}

#[test]
fn shared_parameters_take_the_values_that_all_kernels_have() {
    let mut kernels = vec![
        kernel("a", &["layout", "x"], 4),
        kernel("b", &["y", "layout"], 2),
    ];
    kernels[0].default = Some(ints(&[2, 1]));
    kernels[1].default = Some(ints(&[1, 2]));
    let file = "[[shared]]\nname = \"layout\"\nparameters = [\"a.layout\", \"b.layout\"]";
    let made = chain(kernels, file).unwrap();
    assert_eq!(made.names(), ["layout", "a.x", "b.y"]);
    let space = made.space_of(&made.groups()[0]).unwrap();
    // Layouts 1 and 2, four of x, two of y.
    assert_eq!(space.len(), 16);
    assert!(
        space.index_of(&ints(&[3, 1, 1])).is_none() && space.index_of(&ints(&[2, 4, 2])).is_some()
    );
}

#[test]
fn contradictions_are_named() {
    let two = || ["a", "b"].map(|name| kernel(name, &["width"], 5)).into();
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
            "[[group]]\ntogether = [\"a\"]\nconcurrent = true\n[[group]]\ntogether = [\"a\", \"b\"]\nconcurrent = true",
            "at once with others already",
        ),
    ] {
        let refused = chain(two(), file).err().unwrap().to_string();
        assert!(refused.contains(part), "{file}: {refused}");
    }
    let mut differ: Vec<Member<'_>> = two();
    differ[1].default = Some(ints(&[2]));
    let file = "[[shared]]\nname = \"width\"\nparameters = [\"a.width\", \"b.width\"]";
    let refused = chain(differ, file).err().unwrap().to_string();
    assert!(
        refused.contains("1 for a and 2 for b") && refused.contains("[default]"),
        "{refused}"
    );
    // The file's default decides, for both.
    let mut differ: Vec<Member<'_>> = two();
    differ[1].default = Some(ints(&[2]));
    assert_eq!(
        *chain(differ, &format!("[default]\nwidth = 3\n{file}"))
            .unwrap()
            .default(),
        ints(&[3])
    );
}
