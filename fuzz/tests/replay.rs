//! Every input that the fuzzer kept, on stable Rust: none may panic, and what must agree agrees.

use std::fs;
use std::path::Path;

use ut_decoding::cli::report::Sums;
use ut_fuzz::TARGETS;

#[test]
fn inputs_that_the_fuzzer_kept_do_no_harm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/fuzz");
    for (name, target) in TARGETS {
        let mut inputs: Vec<_> = fs::read_dir(folder.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{name} has no inputs");
        for input in inputs {
            // The name of the input is what one needs when it panics.
            println!("{}", input.display());
            target(&fs::read(&input).unwrap());
        }
    }
}

#[test]
fn inputs_that_are_empty_or_all_alike_do_no_harm() {
    for (_, target) in TARGETS {
        for n in [0, 1, 2, 3, 64, 1000] {
            for byte in [0, 1, 0x20, 0x7f, 0xff] {
                target(&vec![byte; n]);
            }
        }
    }
}

/// The fuzzer found it: a refused addition had changed the sums, which could be written then, and not read again.
#[test]
fn sums_of_more_than_can_be_counted_stay_as_they_were() {
    let mut json = ut_fuzz::seeds::sums();
    json["view"]["hits"] = (1u64 << 61).into();
    let packed = zstd::bulk::compress(json.to_string().as_bytes(), 1).unwrap();
    let mut sums = Sums::from_bytes(&packed[..], "x").unwrap();
    let before = sums.to_bytes().unwrap();
    let error = sums.add(&sums.clone()).unwrap_err().to_string();
    assert!(error.contains("more than can be counted"), "{error}");
    assert!(sums.to_bytes().unwrap() == before);
}
