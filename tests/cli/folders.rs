//! Folders as inputs: of the files that `generate` makes, only the events are decoded.

use crate::support::{TABLES, json_of, run_to, sample, says};

#[test]
fn a_folder_of_generate_is_an_input_without_its_tables() {
    let directory = &sample();
    run_to(
        0,
        directory,
        "generate --events 3 --corrupt truncated=0.1 --output made",
    );
    let (json, err) = json_of(0, directory, "decode made");
    assert_eq!((&json["events"], &json["files"]), (&3.into(), &1.into()));
    assert!(
        err.contains(
            "made: left out boards.bin, faults.json, geometry.bin: tables and JSON hold no events"
        ),
        "{err}"
    );
    run_to(0, directory, "convert made --output made.mep");
    let (json, _) = json_of(0, directory, ("decode made.mep", TABLES));
    assert_eq!(json["events"], 3);
    says(
        1,
        directory,
        "decode made/boards.bin",
        "made/boards.bin: a boards file",
    );
    std::fs::remove_file(directory.join("made/events.mdf")).unwrap();
    says(
        1,
        directory,
        "decode made",
        "made: there is no file with events in this folder",
    );
}
