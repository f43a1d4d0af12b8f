//! Kinds of errors, which callers match.

use std::time::Duration;

use tuner::budget::Budget;
use tuner::chain::file::ChainFile;
use tuner::online::{Options, Tuner};
use tuner::process::ProcessDevice;
use tuner::program::{ProgramDevice, Reading};
use tuner::store::Store;
use tuner::{Error, ErrorKind, SpaceBuilder, read_space};

#[test]
fn errors_are_classified_by_what_a_caller_can_do() {
    let kind = |error: Error| error.kind();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.toml");
    assert_eq!(
        read_space(&file).map_err(kind).unwrap_err(),
        ErrorKind::File
    );
    assert_eq!(
        ChainFile::read(&file).map_err(kind).unwrap_err(),
        ErrorKind::File
    );
    std::fs::write(&file, "no space, no chain, no store").unwrap();
    let error = read_space(&file).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Format && error.to_string().contains("file.toml: "),
        "{error}"
    );
    assert_eq!(
        ChainFile::read(&file).map_err(kind).unwrap_err(),
        ErrorKind::Format
    );
    let error = Store::open(&file).unwrap_err();
    assert_eq!(
        (error.kind(), Error::from(error).kind()),
        (ErrorKind::Format, ErrorKind::Format)
    );
    assert_eq!(
        Store::open(folder.path()).unwrap_err().kind(),
        ErrorKind::File
    );

    let space = SpaceBuilder::new().ints("tile", [8, 16]).build().unwrap();
    assert_eq!(
        SpaceBuilder::new()
            .ints("tile", [8, 8])
            .build()
            .unwrap_err()
            .kind(),
        ErrorKind::Request
    );
    assert_eq!(
        "soon".parse::<Budget>().map_err(kind).unwrap_err(),
        ErrorKind::Request
    );
    assert_eq!(
        Tuner::new(Vec::new(), 0, Options::default())
            .err()
            .map(kind),
        Some(ErrorKind::Request)
    );
    assert_eq!(
        ProgramDevice::new(&space, "mm {tiles}")
            .validate()
            .map_err(kind),
        Err(ErrorKind::Program)
    );
    assert_eq!(
        Reading::regex("(").map_err(kind).unwrap_err(),
        ErrorKind::Program
    );
    let missing = std::process::Command::new(folder.path().join("missing"));
    let mut device = ProcessDevice::new("missing", missing, Duration::from_secs(10));
    assert_eq!(device.start().map_err(kind), Err(ErrorKind::Device));

    let store = Store::open(&folder.path().join("tune.sqlite")).unwrap();
    let _measuring = store.measure_alone().unwrap();
    assert_eq!(store.measure_alone().unwrap_err().kind(), ErrorKind::Busy);
}
