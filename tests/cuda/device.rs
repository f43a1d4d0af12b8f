//! Facts about a device, and devices that fail.

use ut_decoding::decoder::cuda::Readback;
use ut_decoding::detector::BankVersion;
use ut_decoding::{BatchReport, Decoder, UtHits};

use crate::fake_driver::{FakeDriver, complaints, on_the_fake, on_the_fakes};
use crate::suite::events::allen_batch;
use crate::{Checked, KERNELS, events, says};

#[test]
fn a_failing_device_is_an_error_and_does_not_end_the_program() {
    let output = on_the_fake(&[], &|| {
        let mut decoder = Checked::v5();
        let batch = allen_batch(&events(BankVersion::V5, 1, 1));
        let gone = decoder.upload(batch.view()).unwrap().batch();
        // SAFETY: none: it was given back. The fake notices, and nothing else is there to suffer.
        let submitted = unsafe { decoder.submit_resident(&gone, Readback::None) };
        let collected = submitted.and_then(|ticket| decoder.collect_resident(ticket));
        says(collected, "CUDA_ERROR_ILLEGAL_ADDRESS");
        says(
            decoder.submit(batch.view(), Readback::Hits),
            "CUDA_ERROR_ILLEGAL_ADDRESS",
        );
    });
    let found = output.map(|output| complaints(&output));
    assert!(found.is_none_or(|found| found.iter().any(|line| line.contains("went wrong"))));
}

/// Kernels in the order of launch.
const LAUNCHES: [(&str, &str); 2] = [
    (
        "allen",
        "count_hits prefix_sum_tiles prefix_sum_offsets cluster_and_predecode prefix_sum_tiles prefix_sum_offsets \
         compress_and_make_keys find_permutation decode_in_order",
    ),
    (
        "ranked",
        "cluster cluster_unusual sort_groups scan make_hits",
    ),
];

#[test]
fn kernels_are_timed_in_the_order_of_launch() {
    on_the_fakes(&LAUNCHES.map(|(pipeline, _)| [(KERNELS, pipeline)]), || {
        let pipeline = std::env::var(KERNELS).unwrap_or_default();
        let (_, launches) = *LAUNCHES
            .iter()
            .find(|(name, _)| pipeline == *name)
            .expect("one of them");
        let mut decoder = Checked::v5();
        decoder.time_kernels(true);
        decoder.compare(&allen_batch(&events(BankVersion::V5, 1, 1)));
        let times = decoder.take_times().expect("they were recorded");
        assert_eq!(
            times
                .iter()
                .map(|(kernel, _)| kernel.name())
                .collect::<Vec<_>>()
                .join(" "),
            launches
        );
        assert!(times.iter().all(|(_, time)| *time > 0.0), "{times:?}");
        assert!(decoder.take_times().expect("nothing is there").is_empty());
    });
}

#[test]
fn the_reason_for_an_unusable_gpu_is_reported() {
    let cases: [(&[(&str, &str)], &str); 7] = [
        (
            &[("FAKE_CUDA_REFUSE", "cuDriverGetVersion")],
            "failed to tell its version: CUDA_ERROR_NOT_SUPPORTED",
        ),
        (
            &[("FAKE_CUDA_REFUSE", "cuDeviceGetCount")],
            "failed to count its devices: CUDA_ERROR_NOT_SUPPORTED",
        ),
        (
            &[("FAKE_CUDA_REFUSE", "cuDeviceGetName")],
            "failed to describe a device: CUDA_ERROR_NOT_SUPPORTED",
        ),
        (&[("FAKE_CUDA_DEVICES", "0")], "finds no GPU"),
        (
            &[("FAKE_CUDA_VERSION", "12030")],
            "it supports CUDA 12.3, but 12.4 is needed",
        ),
        (
            &[("FAKE_CUDA_CAPABILITY", "70")],
            "is of compute capability 7.0",
        ),
        (&[("FAKE_CUDA_MEMORY", "1000")], "do not fit"),
    ];
    let fake = FakeDriver::new();
    for (settings, words) in cases {
        let output = fake.run_tool(
            settings,
            "throughput --events 1 --duration 0 --backend cuda",
        );
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains(words), "{words:?} is not in {err}");
    }
}

#[test]
fn a_device_whose_memory_is_used_up_says_so_and_the_decoder_recovers() {
    let memory = (3 << 20).to_string();
    let output = on_the_fake(&[("FAKE_CUDA_MEMORY", &memory)], &|| {
        let mut decoder = Checked::v5();
        let large = allen_batch(&events(BankVersion::V5, 1, 60));
        let mut hits =
            UtHits::with_capacity(60, decoder.tables.n_groups(), large.view().max_hits());
        says(
            decoder.decode(large.view(), &mut hits, &mut BatchReport::new()),
            "do not fit",
        );
        decoder.compare(&allen_batch(&events(BankVersion::V5, 1, 1)));
    });
    assert!(output.is_none_or(|output| complaints(&output).is_empty()));
}
