//! Columns on request in every output format.

use std::path::Path;

use crate::support::{Line, TABLES, read, run_to, sample};
use crate::table;

const DETECTOR: &str =
    "layer,side,stave,face,module,sector,strip,board,lane,charge,n_strips,first_strip,flipped";

/// Decodes the events of [`sample`] into `output`.
fn decode(directory: &Path, output: &str, options: impl Line) {
    run_to(
        0,
        directory,
        (
            format!("decode events.mdf --output {output}"),
            options,
            TABLES,
        ),
    );
}

fn csv(directory: &Path, name: &str) -> (String, Vec<Vec<String>>) {
    let text = String::from_utf8(read(directory, name)).unwrap();
    let (head, rows) = text.split_once('\n').unwrap();
    (
        head.to_owned(),
        rows.lines()
            .map(|row| row.split(',').map(str::to_owned).collect())
            .collect(),
    )
}

#[test]
fn every_format_holds_the_same_columns_and_values() {
    let directory = &sample();
    let columns = "--columns detector,sector_id,run,event_number,file";
    for name in ["hits.csv", "hits.parquet"] {
        decode(directory, name, columns);
    }
    let all = table::read(&directory.join("hits.csv"));
    let column = |name: &str| {
        all[name]
            .iter()
            .map(|value| value.as_ref().unwrap().parse::<u64>().unwrap())
    };
    assert_eq!(all.len(), 6 + 14 + 6);
    for event in 0..5 {
        assert!(column("event").filter(|other| *other == event).count() > 100);
    }
    assert!(
        column("lhcb_id")
            .zip(column("layer"))
            .all(|(id, layer)| id >> 18 & 3 == layer)
    );
    assert!(column("charge").all(|charge| (1..=7874).contains(&charge)));
    assert!(table::read(&directory.join("hits.parquet")) == all);
    // Without being asked for, nothing changes.
    decode(directory, "plain.csv", "");
    let (head, rows) = csv(directory, "plain.csv");
    assert_eq!(
        head,
        "event,group,lhcb_id,x_at_y_eq0,z_at_y_eq0,y_begin,y_end,dx_dy,weight"
    );
    let (with, rows_with) = csv(directory, "hits.csv");
    assert_eq!(
        with,
        format!("{head},file,run,event_number,{DETECTOR},sector_id")
    );
    assert!(
        rows.iter()
            .zip(&rows_with)
            .all(|(plain, with)| plain[..] == with[..9])
    );
    assert_eq!(rows.len(), rows_with.len());
}

#[test]
fn unknown_columns_and_columns_that_a_backend_lacks_are_refused() {
    let directory = &sample();
    let refused = |options: &str, parts: &[&str]| {
        let (_, err) = run_to(
            2,
            directory,
            ("decode events.mdf -o hits.csv", options, TABLES),
        );
        assert!(parts.iter().all(|part| err.contains(part)), "{err}");
        assert!(!directory.join("hits.csv").exists());
    };
    refused(
        "--columns detector --backend emulated",
        &["reference and cpu", "charge", "emulated"],
    );
    refused("--columns n_strip", &["\"n_strip\"", "n_strips"]);
    decode(
        directory,
        "hits.csv",
        "--columns board,lane,layer --backend emulated --limit 1",
    );
    let (head, _) = csv(directory, "hits.csv");
    assert!(head.ends_with(",weight,layer,board,lane"), "{head}");
}
