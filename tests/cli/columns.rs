//! Columns on request in every output format, and `ut-decode diff`, which reads them all.

use std::fs;
use std::path::Path;

use crate::support::{TABLES, event, json_of, read, run, run_to, sample, write};
use ut_decoding::output::read::{EventOfFile, HitReader, Names, Values};

const DETECTOR: &str = "layer,side,stave,face,module,sector,strip,board,lane,charge,n_strips,first_strip,flipped";

/// Decodes the events of [`sample`] into `output`.
fn decode(directory: &Path, output: &str, options: &[&str]) {
    run_to(0, directory, &[&["decode", "events.mdf", "--output", output], options, &TABLES].concat());
}

/// Head and rows of a CSV file.
fn table(directory: &Path, name: &str) -> (String, Vec<Vec<String>>) {
    let text = String::from_utf8(read(directory, name)).unwrap();
    let (head, rows) = text.split_once('\n').unwrap();
    (head.to_owned(), rows.lines().map(|row| row.split(',').map(str::to_owned).collect()).collect())
}

/// Everything that a file holds, as text: the names of its columns, and its events.
fn all(path: &Path) -> (Vec<&'static str>, Vec<EventOfFile>) {
    let mut reader = HitReader::open(path, &Names::default()).unwrap();
    let names = reader.columns().iter().map(|column| column.name).collect();
    let (mut events, mut event) = (Vec::new(), EventOfFile::default());
    while reader.next_event(&mut event).unwrap() {
        events.push(event.clone());
    }
    (names, events)
}

#[test]
fn every_format_holds_the_same_columns_and_values() {
    let directory = sample();
    let directory = directory.path();
    let columns = ["--columns", "detector,sector_id,run,event_number"];
    for name in ["hits.csv", "hits.parquet", "hits.npz"] {
        decode(directory, name, &columns);
    }
    let (names, events) = all(&directory.join("hits.csv"));
    assert_eq!((names.len(), events.len()), (5 + 14 + 6, 5));
    assert!(events.iter().all(|event| event.columns.iter().all(|column| column.len() > 100)));
    let at = |name: &str| names.iter().position(|other| *other == name).unwrap();
    let (id, charge) = (at("lhcb_id"), at("charge"));
    for event in &events {
        for (id, layer) in event.columns[id].iter().zip(&event.columns[at("layer")]) {
            assert_eq!(id.unwrap() >> 18 & 3, layer.unwrap());
        }
        assert!(event.columns[charge].iter().all(|charge| (1..=7874).contains(&charge.unwrap())));
    }
    for name in ["hits.parquet", "hits.npz"] {
        let (other_names, other) = all(&directory.join(name));
        assert_eq!(other_names, names, "{name}");
        assert!(other == events, "{name}");
        run_to(0, directory, &["diff", "hits.csv", name]);
    }
    // Without being asked for, nothing changes.
    decode(directory, "plain.csv", &[]);
    let (head, rows) = table(directory, "plain.csv");
    assert_eq!(head, "event,group,lhcb_id,x_at_y_eq0,z_at_y_eq0,y_begin,y_end,dx_dy,weight");
    let (with, rows_with) = table(directory, "hits.csv");
    assert_eq!(with, format!("{head},run,event_number,{DETECTOR},sector_id"));
    assert!(rows.iter().zip(&rows_with).all(|(plain, with)| plain[..] == with[..9]));
    assert_eq!(rows.len(), rows_with.len());
}

#[test]
fn the_output_with_columns_does_not_depend_on_the_threads_or_the_backend() {
    let directory = sample();
    let directory = directory.path();
    for name in ["hits.csv", "hits.parquet", "hits.npz"] {
        let mut outputs = Vec::new();
        for options in [&["--threads", "1"][..], &["--threads", "3"], &["--backend", "reference"]] {
            decode(directory, name, &[&["--columns", "detector", "--batch", "2"], options].concat());
            outputs.push(read(directory, name));
        }
        assert!(outputs[0] == outputs[1], "{name}");
        // The metadata name the backend.
        assert_eq!(outputs[0] == outputs[2], name == "hits.csv", "{name}");
        write(directory, "reference", &outputs[2]);
        decode(directory, name, &["--columns", "detector"]);
        run_to(0, directory, &["diff", name, "reference"]);
    }
    let leftovers = fs::read_dir(directory).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    assert!(leftovers.into_iter().all(|name| !name.starts_with('.')), "temporary files are left");
}

#[test]
fn columns_that_a_backend_does_not_give_or_that_are_not_there_are_refused() {
    let directory = sample();
    let directory = directory.path();
    let refused = |options: &[&str], parts: &[&str]| {
        let (_, err) = run_to(2, directory, &[&["decode", "events.mdf", "-o", "hits.csv"], options, &TABLES].concat());
        assert!(parts.iter().all(|part| err.contains(part)), "{err}");
        assert!(!directory.join("hits.csv").exists());
    };
    refused(&["--columns", "detector", "--backend", "emulated"], &["reference and cpu", "charge", "emulated"]);
    refused(&["--columns", "n_strip"], &["\"n_strip\"", "n_strips"]);
    let places = ["--columns", "board,lane,layer", "--backend", "emulated", "--limit", "1"];
    decode(directory, "hits.csv", &places);
    let (head, _) = table(directory, "hits.csv");
    assert!(head.ends_with(",weight,layer,board,lane"), "{head}");
}

#[test]
fn v4_hits_have_null_where_banks_do_not_tell() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    run_to(0, directory, &["generate", "--events", "2", "--format", "v4", "--output", "."]);
    for name in ["hits.csv", "hits.parquet", "hits.npz"] {
        decode(directory, name, &["--columns", "detector"]);
        let (names, events) = all(&directory.join(name));
        for (i, column) in names.iter().enumerate() {
            let null = ["charge", "n_strips", "first_strip"].contains(column);
            let values = events.iter().flat_map(|event| &event.columns[i]);
            assert!(values.into_iter().all(|value| value.is_none() == null), "{name}, {column}");
        }
    }
    let (_, rows) = table(directory, "hits.csv");
    assert!(rows.iter().all(|row| row[18..21] == ["", "", ""] && row.len() == 22));
}

#[test]
fn a_column_of_a_type_that_is_not_read_is_an_error_and_not_taken_for_absent() {
    let directory = sample();
    let directory = directory.path();
    decode(directory, "hits.npz", &[]);
    let bytes = read(directory, "hits.npz");
    for (from, to) in [("'<u2'", "'>u2'"), ("'<u2'", "'<i2'"), ("'<u2'", "'|O2'")] {
        let mut other = bytes.clone();
        let at = other.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        other[at..at + to.len()].copy_from_slice(to.as_bytes());
        write(directory, "other.npz", &other);
        let (_, err) = run_to(2, directory, &["diff", "hits.npz", "other.npz"]);
        assert!(
            err.contains("other.npz: array group: not a one-dimensional, little-endian array") && err.contains(to),
            "{err}"
        );
    }
}

#[test]
fn a_diff_that_fails_does_not_say_that_the_files_differ() {
    let directory = sample();
    let directory = directory.path();
    decode(directory, "a.csv", &[]);
    let (_, err) = run_to(2, directory, &["diff", "a.csv", "absent.csv"]);
    assert!(err.starts_with("error: absent.csv") && err.matches("No such file").count() == 1, "{err}");
    run_to(2, directory, &["diff", "a.csv", "a.csv", "--json", "absent/diff.json"]);
    run_to(2, directory, &["diff", "a.csv", "a.csv", "--config", "absent.toml"]);
    let tool = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ut-decode"))
        .args(["diff", "a.csv", "a.csv"])
        .current_dir(directory)
        .env("UT_DECODE_CONFIG", "")
        .stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(tool.status.code(), Some(2));
}

#[cfg(unix)]
#[test]
fn diff_compares_files_whose_names_are_not_utf_8() {
    use std::os::unix::ffi::OsStrExt;
    let directory = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"a\xff.csv");
    fs::write(directory.path().join(name), "event,lhcb_id\n0,5\n").unwrap();
    let tool = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ut-decode"))
        .arg("diff")
        .args([name, name])
        .args(["--json", "-"])
        .current_dir(directory.path())
        .env("UT_DECODE_CONFIG", "")
        .output()
        .unwrap();
    assert_eq!(tool.status.code(), Some(0), "{}", String::from_utf8_lossy(&tool.stderr));
    let json: serde_json::Value = serde_json::from_slice(&tool.stdout).unwrap();
    assert_eq!((&json["a"], &json["same"]), (&"a\u{fffd}.csv".into(), &true.into()));
}

#[test]
fn diff_names_ids_that_no_hit_can_have_and_refuses_file_names_that_no_file_can_have() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    write(directory, "odd.csv", b"event,lhcb_id\n0,\n0,5000000000\n");
    write(directory, "one.csv", b"event,lhcb_id\n0,5\n");
    let (json, _) = json_of(1, directory, &["diff", "odd.csv", "one.csv"]);
    let expected = ["id null: only in A", "id 5: only in B", "id 5000000000: only in A"];
    assert_eq!(json["first"], serde_json::json!(expected.map(|what| format!("event 0, {what}"))));
    let rows = format!("event,lhcb_id,file\n0,5,a\n0,5,{}\n", "b".repeat(8193));
    write(directory, "long.csv", rows.as_bytes());
    let (_, err) = run_to(2, directory, &["diff", "long.csv", "one.csv"]);
    assert!(err.contains("long.csv: line 3: a file name of 8193 bytes"), "{err}");
}

#[test]
fn what_diff_finds_is_what_was_changed() {
    let directory = sample();
    let directory = directory.path();
    decode(directory, "a.csv", &["--columns", "charge,layer"]);
    let (head, rows) = table(directory, "a.csv");
    let file = |name: &str, rows: &[Vec<String>]| {
        let rows: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
        write(directory, name, format!("{head}\n{}\n", rows.join("\n")).as_bytes());
    };
    let differ = |name: &str, options: &[&str]| json_of(1, directory, &[&["diff", "a.csv", name], options].concat()).0;
    let (json, _) = json_of(0, directory, &["diff", "a.csv", "a.csv"]);
    assert_eq!((&json["same"], &json["events"]["same"]), (&true.into(), &5.into()));
    let of_layer = |layer: &str| rows.iter().filter(|row| row[9] == layer).count();
    assert_eq!(json["layers"]["UTbV"]["same"], of_layer("2"));

    // A value of each kind.
    let mut changed = rows.clone();
    let x: f32 = changed[0][3].parse().unwrap();
    changed[0][3] = f32::from_bits(x.to_bits() + 3).to_string();
    changed[7][10] = (changed[7][10].parse::<u32>().unwrap() + 40).to_string();
    changed[9][10].clear();
    file("values.csv", &changed);
    let json = differ("values.csv", &[]);
    let columns = &json["columns"];
    assert_eq!((&columns["x_at_y_eq0"]["hits"], &columns["x_at_y_eq0"]["most_ulps"]), (&1.into(), &3.into()));
    assert_eq!((&columns["charge"]["hits"], &columns["charge"]["most"]), (&2.into(), &40.0.into()));
    assert_eq!((&columns["charge"]["nulls"], &columns["dx_dy"]["hits"]), (&1.into(), &0.into()));
    assert_eq!((&json["events"]["different"], &json["layers"]["UTaX"]["different"]), (&1.into(), &3.into()));
    let first = json["first"].as_array().unwrap();
    assert!(first.len() == 3 && first[0].as_str().unwrap().contains("x_at_y_eq0 is "), "{first:?}");
    assert!(first[0].as_str().unwrap().starts_with(&format!("event 0, id {}: ", rows[0][2])), "{first:?}");

    // A hit less, an event less, two hits the other way round.
    let mut fewer = rows.clone();
    let gone = fewer.remove(20);
    fewer.retain(|row| row[0] != "3");
    let n_gone = rows.iter().filter(|row| row[0] == "3").count();
    file("fewer.csv", &fewer);
    let json = differ("fewer.csv", &[]);
    assert_eq!((&json["events"]["only_a"], &json["events"]["different"]), (&1.into(), &1.into()));
    let only_a: u64 = json["layers"].as_object().unwrap().values().map(|layer| layer["only_a"].as_u64().unwrap()).sum();
    assert_eq!(only_a, n_gone as u64 + 1);
    assert_eq!(json["first"][0], format!("event 0, id {}: only in A", gone[2]));
    let (json, _) = json_of(1, directory, &["diff", "fewer.csv", "a.csv", "--first", "1"]);
    assert_eq!((&json["events"]["only_b"], json["first"].as_array().unwrap().len()), (&1.into(), 1));
    let mut turned = rows.clone();
    turned.swap(30, 31);
    file("turned.csv", &turned);
    let json = differ("turned.csv", &[]);
    assert_eq!((&json["events"]["other_order"], &json["columns"]["charge"]["hits"]), (&1.into(), &0.into()));
    run_to(0, directory, &["diff", "a.csv", "turned.csv", "--any-order"]);
    // Also of hits that share an id.
    let mut twice = rows.clone();
    let mut other = twice[30].clone();
    *other.last_mut().unwrap() = "1".to_owned();
    twice.insert(31, other);
    file("twice.csv", &twice);
    let mut swapped = twice.clone();
    swapped.swap(30, 31);
    file("swapped.csv", &swapped);
    run_to(1, directory, &["diff", "twice.csv", "swapped.csv"]);
    run_to(0, directory, &["diff", "twice.csv", "swapped.csv", "--any-order"]);
    run_to(1, directory, &["diff", "twice.csv", "turned.csv", "--any-order"]);

    // Columns that only one has are told, and do not count as a difference.
    decode(directory, "plain.parquet", &[]);
    let (text, _) = run_to(0, directory, &["diff", "a.csv", "plain.parquet"]);
    assert!(
        text.contains("only A has") && text.contains("layer, charge") && text.ends_with("\nno difference\n"),
        "{text}"
    );
    let (text, _) = run_to(1, directory, &["diff", "a.csv", "values.csv"]);
    assert!(text.contains("charge") && text.contains("40") && text.ends_with("\nthe files differ\n"), "{text}");
}

#[test]
fn diff_reads_tables_of_others_and_says_what_is_wrong_with_a_file() {
    let directory = sample();
    let directory = directory.path();
    decode(directory, "a.csv", &[]);
    let (_, rows) = table(directory, "a.csv");
    let mut other = vec!["LHCbID, evt ,\"x\",comment".to_owned()];
    other.extend(rows.iter().map(|row| format!("{},{},{}e0,\"a \"\"b\"\", c\"", row[2], row[0], row[3])));
    write(directory, "other.csv", other.join("\r\n").as_bytes());
    let names = ["--names", "id=LHCbID,event=evt,x_at_y_eq0=x"];
    let (text, _) = run_to(0, directory, &[&["diff", "a.csv", "other.csv"][..], &names].concat());
    assert!(text.contains("compared              event, lhcb_id, x_at_y_eq0\n"), "{text}");
    for (content, parts) in [
        (&b""[..], &["it is empty"][..]),
        (b"x,y\n1,2\n", &["no column event", "none that is known"]),
        (b"event,x_at_y_eq0\n1,2\n", &["no column lhcb_id", "event, x_at_y_eq0", "--names"]),
        (b"event,lhcb_id\n0,12\n1,twelve\n", &["line 3", "lhcb_id is \"twelve\""]),
        (b"event,lhcb_id\n0,1\n,2\n", &["a row has no event"]),
        (b"event,lhcb_id\n0,1,2\n", &["record 1"]),
        (b"event,lhcb_id,weight\n0,1,much\n", &["line 2", "weight is \"much\""]),
        (b"\x1f\x8b\x08\0", &["compressed: unpack it"]),
        (b"\x28\xb5\x2f\xfd", &["compressed: unpack it"]),
        (b"PAR1 and nothing else", &["bad"]),
        (b"PK\x03\x04 and nothing else", &["bad"]),
    ] {
        write(directory, "bad", content);
        for files in [["a.csv", "bad"], ["bad", "a.csv"]] {
            let (out, err) = run_to(2, directory, &[&["diff"], &files[..]].concat());
            assert!(out.is_empty() && err.contains("bad"), "{err}");
            assert!(parts.iter().all(|part| err.contains(part)), "{parts:?}: {err}");
        }
    }
    run_to(2, directory, &["diff", "a.csv", "absent"]);
    // What is read from several places cannot come out of a pipe; reading it twice would wait for ever.
    decode(directory, "a.parquet", &[]);
    let made = std::process::Command::new("mkfifo").arg(directory.join("pipe")).status().unwrap();
    assert!(made.success());
    let (from, to) = (directory.join("a.parquet"), directory.join("pipe"));
    let feed = std::thread::spawn(move || fs::write(to, fs::read(from).unwrap()));
    let (_, err) = run_to(2, directory, &["diff", "pipe", "a.csv"]);
    assert!(err.contains("pipe: Parquet and NumPy files cannot be read from a pipe"), "{err}");
    // The reader may have gone before all was written.
    let _ = feed.join().unwrap();
    run_to(2, directory, &["diff", "a.csv", "a.csv", "--names", "identity=x"]);
    // Cut anywhere, no file is taken for a whole one or ends the program.
    for name in ["a.parquet", "a.npz"] {
        decode(directory, name, &["--columns", "layer"]);
        let bytes = read(directory, name);
        for len in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
            write(directory, "cut", &bytes[..len]);
            let output = run(directory, &["diff", "a.csv", "cut"]);
            assert_eq!(output.status.code(), Some(2), "{name} of {len} bytes");
        }
    }
    // The header of a page of plain values says that they are indices of a dictionary, of which there is none: the library
    // panics.
    let mut bytes = read(directory, "a.parquet");
    let plain = [0x15, 0, 0x15, 6, 0x15, 6];
    let at = bytes.windows(plain.len()).position(|bytes| bytes == plain).unwrap();
    bytes[at + 1] = 16;
    write(directory, "damaged", &bytes);
    let (_, err) = run_to(2, directory, &["diff", "damaged", "a.csv"]);
    assert_eq!(err, "error: damaged: it is damaged\n");
}

#[test]
fn events_of_several_files_are_kept_apart_also_where_the_names_differ() {
    let directory = sample();
    let directory = directory.path();
    fs::copy(directory.join("events.mdf"), directory.join("again.mdf")).unwrap();
    let decode = |first: &str, second: &str, output: &str| {
        run_to(0, directory, &[&["decode", first, second, "--output", output][..], &TABLES].concat());
    };
    for (from, to) in [("events.mdf", "third.mdf"), ("events.mdf", "fourth.mdf")] {
        fs::copy(directory.join(from), directory.join(to)).unwrap();
    }
    decode("events.mdf", "again.mdf", "a.csv");
    decode("third.mdf", "fourth.mdf", "b.npz");
    decode("third.mdf", "fourth.mdf", "b.parquet");
    // The same name twice.
    decode("third.mdf", "third.mdf", "twice.csv");
    for [a, b] in [["a.csv", "b.npz"], ["a.csv", "b.parquet"], ["a.csv", "twice.csv"], ["twice.csv", "twice.csv"]] {
        let (json, err) = json_of(0, directory, &["diff", a, b]);
        assert_eq!(json["events"]["same"], 10);
        assert!(!err.contains("warning"), "{err}");
    }
    let reader = HitReader::open(directory.join("b.npz"), &Names::default()).unwrap();
    assert!(reader.columns().iter().any(|column| column.name == "weight" && column.values == Values::Floats));
}

#[test]
fn diff_says_that_the_last_row_of_a_table_may_be_cut() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let table = "event,lhcb_id,weight\n1,5,0.25\n1,6,0.375";
    write(directory, "whole.csv", format!("{table}\n").as_bytes());
    write(directory, "windows.csv", format!("{}\r\n", table.replace('\n', "\r\n")).as_bytes());
    write(directory, "cut.csv", &table.as_bytes()[..table.len() - 1]);
    let (_, err) = run_to(0, directory, &["diff", "whole.csv", "windows.csv"]);
    assert_eq!(err, "");
    let (_, err) = run_to(1, directory, &["diff", "whole.csv", "cut.csv"]);
    assert_eq!(err, "warning: cut.csv does not end with a newline: its last row may be cut short\n");
}

#[test]
fn diff_matches_files_by_name_in_every_format() {
    let directory = sample();
    let directory = directory.path();
    // The first and the third have no hits, so that tables of text do not know them.
    for name in ["a.mdf", "c.mdf"] {
        write(directory, name, &event(&[]));
    }
    for name in ["b.mdf", "d.mdf", "e.mdf"] {
        fs::copy(directory.join("events.mdf"), directory.join(name)).unwrap();
    }
    let decode = |inputs: &[&str], output: &str| {
        run_to(0, directory, &[&["decode", "--output", output], inputs, &TABLES].concat());
    };
    for output in ["all.csv", "all.npz", "all.parquet"] {
        decode(&["a.mdf", "b.mdf", "c.mdf", "d.mdf", "e.mdf"], output);
    }
    for other in ["all.npz", "all.parquet"] {
        let (json, _) = json_of(0, directory, &["diff", "all.csv", other]);
        assert_eq!((&json["events"]["same"], &json["files"]), (&15.into(), &serde_json::json!([3, 3])), "{other}");
    }
    // Without the file in the middle, in an order that is not that of the names.
    decode(&["e.mdf", "d.mdf", "b.mdf"], "turned.parquet");
    for output in ["part.csv", "part.npz"] {
        decode(&["e.mdf", "b.mdf"], output);
        for (a, b, only) in [("turned.parquet", output, "only_a"), (output, "turned.parquet", "only_b")] {
            let (json, err) = json_of(1, directory, &["diff", a, b]);
            assert_eq!((&json["events"]["same"], &json["events"][only]), (&10.into(), &5.into()), "{a} {b}");
            assert!(!err.contains("warning"), "{err}");
        }
    }
    let (_, err) = run_to(2, directory, &["diff", "all.csv", "turned.parquet"]);
    assert!(err.contains("file e.mdf comes before b.mdf, but after it in all.csv"), "{err}");
}

#[test]
fn diff_warns_where_event_numbers_fall_in_one_file_only() {
    let directory = sample();
    let directory = directory.path();
    decode(directory, "a.csv", &[]);
    let text = fs::read_to_string(directory.join("a.csv")).unwrap();
    let (head, rows) = text.split_once('\n').unwrap();
    let turned: Vec<_> = std::iter::once(head).chain(rows.lines().rev()).collect();
    write(directory, "b.csv", (turned.join("\n") + "\n").as_bytes());
    let (json, err) = json_of(1, directory, &["diff", "a.csv", "b.csv"]);
    assert_eq!(json["files"], serde_json::json!([1, 5]));
    assert!(err.contains("warning: A has events of 1 file, B of 5 files") && err.contains("sort"), "{err}");
    let (json, err) = json_of(0, directory, &["diff", "b.csv", "b.csv"]);
    assert_eq!(json["files"], serde_json::json!([5, 5]));
    assert!(!err.contains("warning"), "{err}");
}

/// NumPy itself reads what was written. Python with NumPy is not everywhere.
#[test]
#[ignore = "needs python3 with numpy (UT_DECODE_PYTHON names it)"]
fn numpy_reads_the_arrays() {
    let directory = sample();
    let directory = directory.path();
    decode(directory, "hits.csv", &["--columns", "detector"]);
    decode(directory, "hits.npz", &["--columns", "detector"]);
    let python = std::env::var("UT_DECODE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = "
import csv, numpy as np
f = np.load('hits.npz')
rows = list(csv.DictReader(open('hits.csv')))
n = len(rows)
for name in rows[0]:
    column = f[name]
    assert column.shape == (n,), name
    assert np.array_equal(column.astype(np.float64), np.array([row[name] for row in rows], column.dtype.type if column.dtype != bool else int).astype(np.float64)), name
assert f['x_at_y_eq0'].dtype == np.float32 and f['lhcb_id'].dtype == np.uint32 and f['flipped'].dtype == bool
groups, offsets = int(f['n_groups']), f['offsets']
assert offsets.shape == (5 * groups + 1,) and offsets[-1] == n
for e in range(5):
    of_event = slice(offsets[e * groups], offsets[(e + 1) * groups])
    assert (f['event'][of_event] == e).all()
    for g in range(groups):
        assert (f['group'][offsets[e * groups + g]:offsets[e * groups + g + 1]] == g).all()
assert list(f['files'][f['file']]) == ['events.mdf'] * n
assert dict(f['metadata'])['grouping'] == 'y-rows' and 'charge_null' not in f
";
    let output = std::process::Command::new(python).args(["-c", script]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
