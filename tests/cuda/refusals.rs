//! Things that safe code must not be able to do to a GPU: refused with an error, and nothing of the
//! decoder suffers.

use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cuda::{CudaConfig, CudaDecoder, CudaDevice, HostHits, Readback, Source};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::detector::BankVersion;
use ut_decoding::{BatchReport, DecodeError, DecodeOptions, Decoder, EventBatch, Grouping, UtHits};

use crate::fake_driver::{complaints, on_the_fake, well_on_the_fake};
use crate::suite::events::{allen_batch, mep_batch};
use crate::{Checked, detector, events, says};

fn batch() -> EventBatch {
    allen_batch(&events(BankVersion::V5, 1, 1))
}

fn with(config: CudaConfig) -> Checked {
    Checked::with(detector(BankVersion::V5, Grouping::YRows), config)
}

fn made(version: BankVersion, config: CudaConfig) -> Result<CudaDecoder, DecodeError> {
    CudaDecoder::new(
        &detector(version, Grouping::YRows),
        DecodeOptions::default(),
        config,
    )
}

#[test]
fn a_batch_on_another_gpu_is_refused_and_one_of_another_decoder_of_the_gpu_is_decoded() {
    well_on_the_fake(&[("FAKE_CUDA_DEVICES", "2")], || {
        let batch = batch();
        let on_gpu = |ordinal| with(CudaConfig::default().with_gpu(ordinal));
        let [mut here, mut beside, mut there] = [0, 0, 1].map(on_gpu);
        let resident = there.upload(batch.view()).unwrap();
        let of_another = "memory of another device";
        says(here.submit(&resident, Readback::Hits), of_another);
        says(
            here.decode_all([&resident], |_: HostHits<'_>| Ok(())),
            of_another,
        );
        // A refused call changes nothing.
        here.compare(&batch);
        let ticket = there.submit(&resident, Readback::Hits).unwrap();
        there.check(ticket, &batch);
        let shared = here.upload(batch.view()).unwrap();
        let pinned = there.pin(batch.view()).unwrap();
        // Both outlive the decoder that made them.
        drop((here, there));
        let ticket = beside.submit(&shared, Readback::Hits).unwrap();
        beside.check(ticket, &batch);
        let ticket = beside.submit(&pinned, Readback::Hits).unwrap();
        beside.check(ticket, &batch);
    });
}

#[test]
fn a_rung_of_the_ladder_is_refused_for_v4() {
    well_on_the_fake(&[], || {
        let config = || {
            CudaConfig::default()
                .with_pipeline(Pipeline::Allen)
                .with_rung("v5_allen__rung6")
        };
        says(made(BankVersion::V4, config()), "decodes v5 banks");
        with(config());
    });
}

#[test]
fn a_ticket_belongs_to_one_decoder() {
    well_on_the_fake(&[], || {
        let batch = batch();
        let [mut one, mut two] = [Checked::v5(), Checked::v5()];
        // Both tickets have the same place.
        let [first, second] =
            [&mut one, &mut two].map(|d| d.submit(batch.view(), Readback::Hits).unwrap());
        says(two.collect(first), "another decoder");
        two.check(second, &batch);
        let late = two.submit(batch.view(), Readback::None).unwrap();
        drop(two);
        says(one.collect_resident(late), "another decoder");
    });
}

#[test]
fn streams_whose_tickets_were_lost_are_free_after_discarding() {
    well_on_the_fake(&[], || {
        let (batch, mut decoder) = (batch(), Checked::v5());
        let tickets: Vec<_> = (0..decoder.streams())
            .map(|_| decoder.submit(batch.view(), Readback::Hits).unwrap())
            .collect();
        let kept = tickets.into_iter().next().expect("there is a stream");
        says(decoder.submit(batch.view(), Readback::Hits), "collect one");
        decoder.discard_all().unwrap();
        says(decoder.collect(kept), "discarded");
        // A stream that is in use again does not know the old ticket either.
        let tickets: Vec<_> = (0..decoder.streams())
            .map(|_| decoder.submit(batch.view(), Readback::Hits).unwrap())
            .collect();
        for ticket in tickets.into_iter().rev() {
            decoder.check(ticket, &batch);
        }
    });
}

#[test]
fn decoder_and_tickets_go_to_another_thread_together() {
    well_on_the_fake(&[("FAKE_CUDA_SEED", "4")], || {
        let (batch, mut decoder) = (batch(), Checked::v5());
        let resident = decoder.upload(batch.view()).unwrap();
        let tickets = [0, 1].map(|_| decoder.submit(&resident, Readback::Hits).unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for ticket in tickets {
                    decoder.check(ticket, &batch);
                }
                drop(decoder);
            });
        });
        // The batch is dropped on a thread that has no current context.
        std::thread::spawn(move || drop(resident)).join().unwrap();
    });
}

#[test]
fn a_failed_batch_is_released_only_after_its_copies() {
    let memory = (3 << 20).to_string();
    for seed in ["0", "1"] {
        well_on_the_fake(
            &[("FAKE_CUDA_MEMORY", &memory), ("FAKE_CUDA_SEED", seed)],
            || {
                let (small, mut decoder) = (batch(), Checked::v5());
                let large = allen_batch(&events(BankVersion::V5, 1, 60));
                // The decoder has the only reference: its copy to the device is in flight when
                // there is no room for hits.
                let only = decoder.pin(large.view()).unwrap();
                says(
                    decoder.submit(Source::Pinned(only), Readback::Hits),
                    "do not fit",
                );
                says(decoder.submit(large.view(), Readback::Hits), "do not fit");
                decoder.compare(&small);
            },
        );
    }
}

#[test]
fn a_batch_without_hits_has_seven_empty_arrays() {
    well_on_the_fake(&[], || {
        let (batch, mut decoder) = (batch(), Checked::v5());
        let n_groups = decoder.tables.n_groups();
        for batch in [
            &allen_batch(&[]),
            &allen_batch(&[vec![]]),
            &batch,
            &allen_batch(&[vec![]]),
            &mep_batch(&[]),
        ] {
            // On the same stream each time.
            let ticket = decoder.submit(batch.view(), Readback::Hits).unwrap();
            let hits = decoder.collect(ticket).unwrap();
            assert!((0..7).all(|i| hits.array(i).len() == hits.len()));
            assert_eq!(hits.offsets().len(), batch.n_events * n_groups + 1);
        }
    });
}

#[test]
fn hits_that_do_not_fit_are_an_error() {
    well_on_the_fake(&[], || {
        let (batch, mut decoder) = (batch(), Checked::v5());
        let mut hits = UtHits::with_capacity(1, decoder.tables.n_groups(), 3);
        says(
            decoder.decode(batch.view(), &mut hits, &mut BatchReport::new()),
            "were made for",
        );
        decoder.compare(&batch);
    });
}

#[test]
fn a_block_too_large_for_the_compiled_kernel_is_refused_with_a_remedy() {
    well_on_the_fake(&[("FAKE_CUDA_MAX_THREADS", "128")], || {
        let batch = batch();
        let in_blocks = |block: &str| {
            let launch = Parameters::default()
                .with(
                    ut_decoding::Backend::Emulated,
                    &format!("scan.block_x=128,{block}"),
                )
                .unwrap();
            with(CudaConfig::of(&launch).with_pipeline(Pipeline::Allen))
        };
        let mut decoder = in_blocks("count.block_x=160");
        let error = decoder
            .submit(batch.view(), Readback::Hits)
            .unwrap_err()
            .to_string();
        for what in [
            "count_hits cannot run in blocks of 160 threads",
            "at most 128",
            "--set KERNEL.block_x",
        ] {
            assert!(error.contains(what), "{what:?} is not in {error}");
        }
        in_blocks("count.block_x=128").compare(&batch);
    });
}

#[test]
fn kernels_are_compiled_once_for_all_decoders_of_a_gpu() {
    let output = on_the_fake(&[], &|| {
        let batch = batch();
        let kept = CudaDevice::new(0, 0).unwrap();
        for registers in [0, 0, 40, 0, 40] {
            let limit = format!("cuda.registers={registers}");
            let launch = Parameters::default()
                .with(ut_decoding::Backend::Cuda, &limit)
                .unwrap();
            with(CudaConfig::of(&launch)).compare(&batch);
        }
        drop(kept);
    });
    if let Some(output) = output {
        assert_eq!(complaints(&output), [""; 0]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // One for each limit of registers.
        assert_eq!(
            said.matches("note: a module is compiled").count(),
            2,
            "{said}"
        );
    }
}

#[test]
fn the_driver_of_cuda_12_4_is_sufficient() {
    well_on_the_fake(&[("FAKE_CUDA_VERSION", "12040")], || {
        let (batch, mut decoder) = (batch(), Checked::v5());
        decoder.compare(&batch);
    });
}
