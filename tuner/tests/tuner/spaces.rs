//! Search spaces: their files, expressions and constraints.

use proptest::prelude::*;
use tuner::expression::Expr;
use tuner::online::grid;
use tuner::{parse_toml, read_space};

use crate::prelude::*;
use crate::store::Folder;

fn named(name: &str) -> Option<Expr> {
    match name {
        "x" => Some(Expr::Slot(0)),
        "mode" => Some(Expr::Literal(Value::from("fast"))),
        _ => None,
    }
}

fn evaluate(text: &str) -> Result<Value, Error> {
    Expr::parse(text, &named)?.evaluate(&[Value::Int(7)])
}

/// Holds expressions to Python's results where other languages differ, since people write
/// constraints with Python in mind. Division rounds down and a remainder has the sign of the
/// divisor (`-7 // 2` is -4, `-7 % 3` is 2), `**` binds more tightly than a minus before it and
/// groups from the right, comparisons chain, and `and` and `or` give one of their sides.
#[test]
fn expressions_mean_what_python_means() {
    for table in [
        "-7 // 2: -4; -7 % 3: 2; 7 % -3: -2; -2 ** 2: -4; 2 ** 3 ** 2: 512; 1 - 2 - 3: -4; True + True: 2; x and 3: 3",
        "0 or x: 7; 5 if x > 8 else 6: 6; max(1, x, 3) + min(4, 2): 9; abs(-3) + int(-2.9): 1; 1 << 3 | 1: 9",
        "6 & 3 ^ 1: 3; 1_000: 1000; -7 // -2: 3; 7 // -2: -4; -1099511627776 >> 40: -1; 1 >> 100: 0; -1 >> 100: -1",
        "(-1) ** 3: -1; int(-9223372036854775808.0): -9223372036854775808",
        "5 if 1else 6: 5; 7.5 % -2: -0.5; -7.5 % -2: -1.5; -7.5 // -2: 3.0; 7 / 2: 3.5; 4 / 2: 2.0; -7.5 // 2: -4.0",
        "-7.5 % 2: 0.5; 2 ** -1: 0.5; 1e3 + .5: 1000.5; 1 < x <= 7 != 8: true; 1 < x < 7: false; not x == 7: false",
        "8 % (28 / x) == 0: true; mode == 'fast' and mode != \"slow\": true; mode == 1: false; 1 == 1.0 == True: true",
        "7.5 < 8 and not 8.5 < 8: true; 0 == -0.0: true",
        // The quotient is 30 less a rounding error.
        "33.3 // 1.1: 30.0",
        // Numbers and texts as conditions.
        "not 0.5: false; not 0.0: true; not -0.0: true; not -1: false; not 'a': false; not '': true",
        "1 if 0.5 else 2: 1; 1 if 0.0 else 2: 2; 1 if -0.0 else 2: 2; 1 if 'a' else 2: 1; 1 if '' else 2: 2",
        // The side that is not evaluated may fail.
        "x == 7 or x % 0 == 1: true; x == 8 and x % 0 == 1: false; 1 if x else 1 // 0: 1",
    ] {
        for (text, value) in table.split("; ").filter_map(|entry| entry.split_once(": ")) {
            assert_eq!(
                evaluate(text).unwrap(),
                serde_json::from_str::<Value>(value).unwrap(),
                "{text}"
            );
        }
    }
    // Parentheses side by side are not nested.
    assert_eq!(evaluate(&["(1)"; 300].join(" + ")), Ok(Value::Int(300)));
}

#[test]
fn errors_in_an_expression_are_reported_with_their_place() {
    for (text, place) in [
        ("1 + frob(2)", 4),
        ("1 + )", 4),
        ("x x", 2),
        ("1 + ?", 4),
        ("1 + 'a", 4),
    ] {
        let error = Expr::parse(text, &named).unwrap_err();
        says(error, &format!(" at character {place} of "));
    }
}

#[test]
fn expressions_that_are_wrong_or_too_large_are_refused() {
    let too_deep = format!("{}1{}", "(".repeat(200), ")".repeat(200));
    let too_many = format!("1{}", "+1".repeat(1001));
    let bad = [
        "; 1 +; (1; y; x = 7; x[0]; f(1); 1 // 0; 1 % 0; 1 / 0; 0 ** -1; 1.0 % 0; 9223372036854775807 + 1; 2 ** 63",
        "99999999999999999999; 1 << -1; mode + 1; mode < 1; 'open; (-8.0) ** 0.5; [1, 2]; max(); 1 if 2; lambda: 1",
        "__import__('os'); \u{0}; not; 10.0 ** 400; 1e999; int(1e300); 4 << 62; 1 << 63; 'a\\b' == 1",
    ];
    for text in bad
        .iter()
        .flat_map(|texts| texts.split("; "))
        .chain([&*too_deep, &too_many])
    {
        assert!(
            evaluate(text).is_err(),
            "{} gives {:?}",
            &text[..text.len().min(60)],
            evaluate(text)
        );
    }
    for length in [10, 499] {
        assert!(evaluate(&format!("1{}", "+1".repeat(length))).is_ok());
    }
}

#[test]
fn derived_values_and_constants_of_a_file_constrain() {
    let builder = parse_toml(
        r#"
            constants = { items = 1000, sms = 4 }
            [[parameter]]
            name = "block"
            range = { from = 16, to = 512, step = 16 }
            [[parameter]]
            name = "k"
            powers_of_two = [1, 8]
            [[parameter]]
            name = "staged"
            values = [false, true]
            [[derived]]
            name = "grid"
            value = "k * sms"
            [[constraint]]
            name = "enough threads"
            when = "grid * block >= items"
            [[constraint]]
            when = "4 * block * staged <= 1024"
            "#,
    );
    let space = builder.unwrap().build().unwrap();
    let all = (16..=512).step_by(16).flat_map(|block| {
        [1, 2, 4, 8]
            .into_iter()
            .flat_map(move |k| [false, true].map(|staged| (block, k, staged)))
    });
    let valid = |(block, k, staged): &(i64, i64, bool)| {
        4 * block * i64::from(*staged) <= 1024 && k * 4 * block >= 1000
    };
    let config =
        |(block, k, staged): (i64, i64, bool)| Config(vec![block.into(), k.into(), staged.into()]);
    let found = (0..space.len()).map(|index| space.config(index));
    assert!(found.eq(all.filter(valid).map(config)));
    let names = space
        .report()
        .constraints
        .iter()
        .map(|constraint| constraint.name.as_str());
    assert!(names.eq(["enough threads", "4 * block * staged <= 1024"]));
    says(space.report(), "enough threads");
}

#[test]
fn spaces_that_are_declared_wrongly_are_refused() {
    let (new, a) = (SpaceBuilder::new, || SpaceBuilder::new().ints("a", [1]));
    let numbered =
        |most: usize, add: fn(SpaceBuilder, usize) -> SpaceBuilder| (0..most).fold(a(), add);
    for (builder, said) in [
        (a().ints("a", [2]), "declared twice"),
        (a().constant("a", 1), "declared twice"),
        (new().ints("a", [1, 2, 1]), "twice"),
        (new().parameter("a", [0.0, -0.0].map(Value::Float)), "twice"),
        (new().parameter("a", [Value::Float(f64::NAN)]), "not finite"),
        (new().range("a", 0, 1, 0), "steps of 0"),
        (new().range("a", i64::MIN, i64::MAX, 1), "more than"),
        (a().constraint("b > 1"), "\"b\""),
        (a().constraint("a >"), "a >"),
        (new().derive("d", "e").derive("e", "1"), "\"e\""),
        (a().constraint_fn("c", &["b"], |_| true), "\"b\""),
        (
            numbered(300, |builder, at| builder.ints(&format!("p{at}"), [0])),
            "more than 256 parameters",
        ),
        (
            numbered(1001, |builder, at| builder.constraint(&format!("a < {at}"))),
            "more than 1000 constraints",
        ),
        (
            numbered(300, |builder, at| builder.derive(&format!("d{at}"), "1")),
            "more than 256 derived values",
        ),
    ] {
        says(builder.build().expect_err(said), said);
    }
    let vast = numbered(20, |builder, at| builder.range(&format!("p{at}"), 0, 99, 1));
    says(vast.build().unwrap_err(), "more than 2^64");
    for text in [
        "x = 1",
        "[[parameter]]\nname = 'a'",
        "[[parameter]]\nname='a'\nvalues=[[1]]",
        "constants = 3",
        "\u{1}",
    ] {
        assert!(parse_toml(text).is_err(), "{text}");
    }
}

#[test]
fn a_file_of_more_than_16_mib_is_refused() {
    let folder = Folder::new();
    let path = folder.path("space.toml");
    let start = "[[parameter]]\nname = \"a\"\nvalues = [1, 2]\n";
    std::fs::write(&path, start).unwrap();
    assert_eq!(read_space(&path).unwrap().0.len(), 2);
    // Rows beyond the limit are not read, and the rows before it are not mistaken for the whole
    // space.
    std::fs::write(&path, format!("{start}{}b = 1\n", "\n".repeat(16 << 20))).unwrap();
    says(read_space(&path).unwrap_err(), "larger than 16 MiB");
}

#[test]
fn the_default_of_a_file_names_every_parameter_and_no_other() {
    let folder = Folder::new();
    let path = folder.path("space.toml");
    let read = |default: &str| {
        let parameters =
            "[[parameter]]\nname = 'a'\nvalues = [1, 2]\n[[parameter]]\nname = 'b'\nvalues = [1]\n";
        std::fs::write(&path, format!("{parameters}{default}")).unwrap();
        read_space(&path).map(|(_, default)| default)
    };
    assert_eq!(read(""), Ok(None));
    assert_eq!(read("[default]\nb = 1\na = 2\n"), Ok(Some(ints(&[2, 1]))));
    for (default, why) in [
        ("b = 1", "\"a\" has no value"),
        ("a = 2\nb = 1\nc = 1", "no parameter \"c\""),
        ("a = 3\nb = 1", "valid"),
    ] {
        let error = read(&format!("[default]\n{default}\n"))
            .unwrap_err()
            .to_string();
        says(&error, "default: ");
        says(error, why);
    }
}

/// The space of these rows of one parameter.
fn recorded(rows: &[Vec<Value>]) -> Result<Space, Error> {
    Space::recorded(&["a".to_owned()], rows).map(|(space, _)| space)
}

#[test]
fn a_configuration_of_another_length_is_not_in_the_space() {
    let space = SpaceBuilder::new().ints("a", [1, 2]).build().unwrap();
    let configs = [ints(&[2]), ints(&[2, 2]), ints(&[])];
    assert_eq!(
        configs.map(|config| space.index_of(&config)),
        [Some(1), None, None]
    );
    assert!(recorded(&[vec![Value::Int(1)]]).is_ok());
    for length in [0, 2] {
        says(
            recorded(&[vec![Value::Int(1); length]]).unwrap_err(),
            "row 0 has",
        );
    }
}

#[test]
fn spaces_with_no_or_one_configuration_work() {
    let one = SpaceBuilder::new().build().unwrap();
    assert_eq!(
        (one.len(), one.config(0), one.neighbours(0).len()),
        (1, ints(&[]), 0)
    );
    let none = || SpaceBuilder::new().ints("a", []);
    let empty = none().ints("b", [1]).constraint("a > b").build().unwrap();
    assert_eq!((empty.len(), empty.index_of(&ints(&[1, 1]))), (0, None));
    let rejected = SpaceBuilder::new()
        .ints("a", [1, 2])
        .constraint("1 > 2")
        .build()
        .unwrap();
    assert_eq!(
        (rejected.len(), rejected.report().constraints[0].first),
        (0, 2)
    );
    // Nothing times more than can be numbered is nothing.
    let vast = (0..20).fold(none(), |space, at| space.range(&format!("p{at}"), 0, 99, 1));
    assert!(vast.build().unwrap().is_empty());
}

#[test]
fn values_are_what_was_declared_and_recorded_texts_keep_their_order() {
    let values = |builder: SpaceBuilder| builder.build().unwrap().parameters()[0].values().to_vec();
    let largest = 1_i64 << 62;
    let powers = SpaceBuilder::new().powers_of_two("a", largest - 1, i64::MAX);
    assert_eq!(values(powers), [Value::Int(largest)]);
    let steps = parse_toml("[[parameter]]\nname = 'a'\nrange = { from = 1, to = 3 }\n").unwrap();
    assert_eq!(values(steps), [1, 2, 3].map(Value::Int));
    for (rows, first) in [
        (["b".into(), "a".into()], "b".into()),
        ([2, 1].map(Value::Int), 1.into()),
    ] {
        let space = recorded(&rows.map(|value: Value| vec![value])).unwrap();
        assert_eq!(space.config(0).0, [first]);
    }
    // Both zeros are one value.
    let zeros = [(0.0, 1), (-0.0, 2)].map(|(a, b)| vec![Value::Float(a), Value::Int(b)]);
    let (space, _) = Space::recorded(&["a".to_owned(), "b".to_owned()], &zeros).unwrap();
    assert_eq!(space.parameters()[0].values(), [Value::Float(0.0)]);
    assert_eq!(space.len(), 2);
}

#[test]
fn a_constraint_that_cannot_be_evaluated_rejects_with_the_reason() {
    // The first cause is said.
    for (values, rejected) in [
        (vec![0.into(), 1.into(), 2.into()], 1),
        (vec![0.into(), Value::from("x"), 1.into()], 2),
    ] {
        let builder = SpaceBuilder::new()
            .parameter("a", values)
            .constraint("4 // a >= 2");
        let space = builder.build().unwrap();
        let report = &space.report().constraints[0];
        let said = (report.first, report.not_evaluated.as_deref());
        assert_eq!(said, (rejected, Some("a division by zero")));
    }
}

/// Conditions over a, b, c that cover the operators, with what they mean in Rust.
type Meaning = fn(i64, i64, i64) -> bool;
const CONDITIONS: [(&str, Meaning); 8] = [
    ("a * b <= 12", |a, b, _| a * b <= 12),
    ("a % (b + 1) == 0 or c > 1", |a, b, c| {
        a % (b + 1) == 0 || c > 1
    }),
    ("1 <= a < c + 3", |a, _, c| 1 <= a && a < c + 3),
    ("not (a == 2 and b == 2)", |a, b, _| !(a == 2 && b == 2)),
    ("(a + b) / 2 != c", |a, b, c| a + b != 2 * c),
    ("c == 0 or a // c >= 1", |a, _, c| c == 0 || a / c >= 1),
    ("max(a, b) > min(b, c)", |a, b, c| a.max(b) > b.min(c)),
    ("a < 2 or b", |a, b, _| a < 2 || b != 0),
];

proptest! {
    /// Compares the enumeration, which applies a constraint as soon as its parameters have values,
    /// with a loop over all combinations. The conditions are given twice, as text and as Rust.
    /// `free` has no constraint, so it multiplies the space and must not reorder it.
    #[test]
    fn enumeration_equals_brute_force(
        sizes in prop::array::uniform3(0usize..6),
        chosen in prop::collection::vec(0..CONDITIONS.len(), 0..5),
        free in 1usize..3,
        closure in any::<bool>(),
    ) {
        let names = ["a", "b", "c"];
        let mut builder = SpaceBuilder::new().range("free", 1, free as i64, 1);
        for (name, size) in names.iter().zip(sizes) {
            builder = builder.range(name, 0, size as i64 - 1, 1);
        }
        for &condition in &chosen {
            builder = builder.constraint(CONDITIONS[condition].0);
        }
        if closure {
            builder = builder.constraint_fn("c is not a", &["c", "a"], |values| values[0] != values[1]);
        }
        let space = builder.build().unwrap();
        let axis = |from: i64, size: usize| (from..from + size as i64).map(Value::Int).collect::<Vec<_>>();
        let [a, b, c] = sizes.map(|size| axis(0, size));
        let valid = |config: &Config| {
            let [_, a, b, c] = [0, 1, 2, 3].map(|at| if let Value::Int(value) = config.0[at] { value } else { 0 });
            chosen.iter().all(|&at| CONDITIONS[at].1(a, b, c)) && (!closure || a != c)
        };
        let expected = grid(&[("free", axis(1, free)), ("a", a), ("b", b), ("c", c)], valid).unwrap_or_default();
        let found: Vec<Config> = (0..space.len()).map(|index| space.config(index)).collect();
        prop_assert_eq!(&found, &expected);
        let report = space.report();
        prop_assert_eq!(report.constraints.iter().map(|constraint| constraint.first).sum::<u64>() + report.valid, report.combinations);
        for (index, config) in found.iter().enumerate() {
            prop_assert_eq!(space.index_of(config), Some(index));
            let near: Vec<usize> = (0..found.len())
                .filter(|&other| config.0.iter().zip(&found[other].0).filter(|(a, b)| a != b).count() == 1)
                .collect();
            prop_assert_eq!(space.neighbours(index), near);
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[-a-c0-9 ()\\[\\],.<>=!+*/%&|^'\"_]{0,40}") {
        let _ = evaluate(&text);
        let _ = parse_toml(&text);
    }

    #[test]
    fn recorded_rows_are_found(rows in prop::collection::btree_set((0i64..4, 0u8..3, any::<bool>()), 0..20)) {
        let names = ["a", "b", "c"].map(str::to_owned);
        // Backwards, so that the rows are not in the space's order.
        let rows: Vec<Vec<Value>> = rows.into_iter().rev()
            .map(|(a, b, c)| vec![Value::Int(a), Value::Text(format!("n{b}")), Value::Bool(c)])
            .collect();
        let (space, indices) = Space::recorded(&names, &rows).unwrap();
        prop_assert_eq!(space.len(), rows.len());
        for (row, index) in rows.iter().zip(indices) {
            prop_assert_eq!(&space.config(index).0, row);
            prop_assert_eq!(space.index_of(&Config(row.clone())), Some(index));
        }
        let twice: Vec<Vec<Value>> = rows.iter().chain(rows.first()).cloned().collect();
        prop_assert_eq!(Space::recorded(&names, &twice).is_err(), !rows.is_empty());
    }
}
