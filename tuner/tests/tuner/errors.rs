//! Kinds of errors, which callers match.

use std::process::Command;

use tuner::ErrorKind::{Busy, Device as OfDevice, File, Format, Program, Request};
use tuner::chain::file::ChainFile;
use tuner::online::{Options, Tuner};
use tuner::process::ProcessDevice;
use tuner::program::{ProgramDevice, Reading};
use tuner::read_space;

use crate::prelude::*;
use crate::store::Folder;

#[test]
fn errors_are_classified_by_what_a_caller_can_do() {
    let folder = Folder::new();
    let file = folder.path("file.toml");
    for kind in [File, Format] {
        let errors = [
            read_space(&file).unwrap_err(),
            ChainFile::read(&file).unwrap_err(),
        ];
        assert_eq!(errors.map(|error| error.kind()), [kind; 2]);
        std::fs::write(&file, "no space, no chain, no store").unwrap();
    }
    says(read_space(&file).unwrap_err(), "file.toml: ");
    let store = folder.store();
    let _measuring = store.measure_alone().unwrap();
    for (error, kind) in [
        (Store::open(&file).err(), Format),
        (Store::open(&folder.path(".")).err(), File),
        (store.measure_alone().err(), Busy),
    ] {
        let error = error.unwrap();
        assert_eq!((error.kind(), Error::from(error).kind()), (kind, kind));
    }
    let space = SpaceBuilder::new().ints("tile", [8, 16]).build().unwrap();
    let missing = Command::new(folder.path("missing"));
    let mut missing = ProcessDevice::new("missing", missing, Duration::from_secs(10));
    for (error, kind) in [
        (
            SpaceBuilder::new().ints("tile", [8, 8]).build().err(),
            Request,
        ),
        ("soon".parse::<Budget>().err(), Request),
        (Tuner::new(Vec::new(), 0, Options::default()).err(), Request),
        (
            ProgramDevice::new(&space, "mm {tiles}").validate().err(),
            Program,
        ),
        (Reading::regex("(").err(), Program),
        (missing.start().err(), OfDevice),
    ] {
        assert_eq!(error.map(|error| error.kind()), Some(kind));
    }
}
