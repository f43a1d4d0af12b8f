//! Replays the inputs that were kept from fuzzing: no target may panic.

use std::fs;
use std::path::Path;

use ut_fuzz::TARGETS;

#[test]
fn kept_inputs_do_not_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/fuzz");
    for (name, target) in TARGETS {
        let mut inputs: Vec<_> = fs::read_dir(folder.join(name))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{name} has no inputs");
        for input in inputs {
            // If the target panics, this line says on which input.
            println!("{}", input.display());
            target(&fs::read(&input).unwrap());
        }
        for n in [0, 1, 2, 3, 64, 1000] {
            for byte in [0, 1, 0x20, 0x7f, 0xff] {
                target(&vec![byte; n]);
            }
        }
    }
}
