//! Things that safe code must not be able to do to a GPU: refused with an error, and nothing of the decoder suffers.

use std::sync::Arc;

use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cuda::{Capacity, CudaConfig, CudaDecoder, CudaDevice, Device, HostHits, Readback, Source};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::detector::BankVersion;
use ut_decoding::{Backend, BatchReport, DecodeOptions, Decoder, DetectorTables, EventBatch, Grouping, UtHits};

use crate::fake_driver::{complaints, on_the_fake, well_on_the_fake};
use crate::suite::events::{allen_batch, mep_batch};
use crate::{collect_as_reference, compare, cuda, detector, events};

const OPTIONS: fn() -> DecodeOptions = DecodeOptions::default;

fn tables() -> DetectorTables {
    detector(BankVersion::V5, Grouping::YRows)
}

fn batch() -> EventBatch {
    allen_batch(&events(BankVersion::V5, 1, 1))
}

/// Tables, a batch, and a decoder for it.
fn small() -> (DetectorTables, EventBatch, CudaDecoder) {
    let tables = tables();
    let decoder = cuda(&tables, OPTIONS());
    (tables, batch(), decoder)
}

fn on_gpu(ordinal: usize, tables: &DetectorTables) -> CudaDecoder {
    CudaDecoder::new(tables, OPTIONS(), CudaConfig { ordinal, ..CudaConfig::default() }).expect("the stand-in is a GPU")
}

#[test]
fn a_batch_on_another_gpu_is_refused_and_one_of_another_decoder_of_the_gpu_is_decoded() {
    well_on_the_fake(&[("FAKE_CUDA_DEVICES", "2")], || {
        let (tables, batch) = (tables(), batch());
        let [mut here, mut beside, mut there] = [0, 0, 1].map(|ordinal| on_gpu(ordinal, &tables));
        let resident = there.upload(batch.view()).unwrap();
        let refused = |error: String| assert!(error.contains("memory of another device"), "{error}");
        refused(here.submit(&resident, Readback::Hits).unwrap_err().to_string());
        refused(here.repeat_resident(&[Arc::clone(&resident)], 1).unwrap_err().to_string());
        refused(here.decode_all([&resident], |_: HostHits<'_>| Ok(())).unwrap_err().to_string());
        // It goes on as if nothing had been asked.
        compare(&mut here, &tables, OPTIONS(), batch.view());
        let ticket = there.submit(&resident, Readback::Hits).unwrap();
        collect_as_reference(&mut there, ticket, &tables, OPTIONS(), &batch);
        let shared = here.upload(batch.view()).unwrap();
        let pinned = there.pin(batch.view()).unwrap();
        // Both outlive the decoder that made them.
        drop((here, there));
        let ticket = beside.submit(&shared, Readback::Hits).unwrap();
        collect_as_reference(&mut beside, ticket, &tables, OPTIONS(), &batch);
        let ticket = beside.submit(&pinned, Readback::Hits).unwrap();
        collect_as_reference(&mut beside, ticket, &tables, OPTIONS(), &batch);
    });
}

#[test]
fn a_rung_of_the_ladder_is_refused_for_v4() {
    well_on_the_fake(&[], || {
        let config = || CudaConfig {
            rung: Some("v5_allen__rung6".to_owned()),
            pipeline: Pipeline::Allen,
            ..CudaConfig::default()
        };
        let error = CudaDecoder::new(&detector(BankVersion::V4, Grouping::YRows), OPTIONS(), config())
            .err()
            .expect("v4 tables");
        assert!(error.to_string().contains("decodes v5 banks"), "{error}");
        assert!(CudaDecoder::new(&tables(), OPTIONS(), config()).is_ok());
    });
}

#[test]
fn a_ticket_is_good_for_one_decoder() {
    well_on_the_fake(&[], || {
        let (tables, batch) = (tables(), batch());
        let [mut one, mut two] = [cuda(&tables, OPTIONS()), cuda(&tables, OPTIONS())];
        // The same place in either.
        let [first, second] = [&mut one, &mut two].map(|d| d.submit(batch.view(), Readback::Hits).unwrap());
        let error = two.collect(first).unwrap_err().to_string();
        assert!(error.contains("another decoder"), "{error}");
        collect_as_reference(&mut two, second, &tables, OPTIONS(), &batch);
        let late = two.submit(batch.view(), Readback::None).unwrap();
        drop(two);
        let error = one.collect_resident(late).unwrap_err().to_string();
        assert!(error.contains("another decoder"), "{error}");
    });
}

#[test]
fn streams_whose_tickets_were_lost_are_free_after_discarding() {
    well_on_the_fake(&[], || {
        let (tables, batch, mut decoder) = small();
        let tickets: Vec<_> =
            (0..decoder.streams()).map(|_| decoder.submit(batch.view(), Readback::Hits).unwrap()).collect();
        let kept = tickets.into_iter().next().expect("there is a stream");
        let busy = decoder.submit(batch.view(), Readback::Hits).unwrap_err().to_string();
        assert!(busy.contains("collect one"), "{busy}");
        decoder.discard_all().unwrap();
        let error = decoder.collect(kept).unwrap_err().to_string();
        assert!(error.contains("discarded"), "{error}");
        // A stream that is in use again does not know the old ticket either.
        let tickets: Vec<_> =
            (0..decoder.streams()).map(|_| decoder.submit(batch.view(), Readback::Hits).unwrap()).collect();
        for ticket in tickets.into_iter().rev() {
            collect_as_reference(&mut decoder, ticket, &tables, OPTIONS(), &batch);
        }
    });
}

#[test]
fn decoder_and_tickets_go_to_another_thread_together() {
    well_on_the_fake(&[("FAKE_CUDA_SEED", "4")], || {
        let (tables, batch, mut decoder) = small();
        let resident = decoder.upload(batch.view()).unwrap();
        let tickets = [0, 1].map(|_| decoder.submit(&resident, Readback::Hits).unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for ticket in tickets {
                    collect_as_reference(&mut decoder, ticket, &tables, OPTIONS(), &batch);
                }
                drop(decoder);
            });
        });
        // The batch is given back by a thread that has no context of its own.
        std::thread::spawn(move || drop(resident)).join().unwrap();
    });
}

#[test]
fn a_batch_that_fails_on_its_way_is_given_back_after_the_copies_from_it() {
    let memory = (2 << 20).to_string();
    for seed in ["0", "1"] {
        well_on_the_fake(&[("FAKE_CUDA_MEMORY", &memory), ("FAKE_CUDA_SEED", seed)], || {
            let (tables, small) = (tables(), batch());
            let mut decoder = cuda(&tables, OPTIONS());
            let large = allen_batch(&events(BankVersion::V5, 1, 60));
            // The decoder has the only reference: its copy to the device is in flight when there is no room for hits.
            let only = decoder.pin(large.view()).unwrap();
            let error = decoder.submit(Source::Pinned(only), Readback::Hits).unwrap_err().to_string();
            assert!(error.contains("do not fit"), "{error}");
            let error = decoder.submit(large.view(), Readback::Hits).unwrap_err().to_string();
            assert!(error.contains("do not fit"), "{error}");
            compare(&mut decoder, &tables, OPTIONS(), small.view());
        });
    }
}

#[test]
fn a_capacity_that_no_batch_can_have_is_refused() {
    well_on_the_fake(&[], || {
        let tables = tables();
        let max = usize::MAX;
        for (capacity, what) in [
            (Capacity { hits: max, ..Capacity::default() }, "1073741823 are the most"),
            // As much as 32 bits can count, but no whole line of words more.
            (Capacity { hits: (1 << 32) - 31, ..Capacity::default() }, "1073741823 are the most"),
            (Capacity { hits: 1 << 30, ..Capacity::default() }, "1073741823 are the most"),
            (Capacity { bytes: max, ..Capacity::default() }, "4 GiB"),
            (Capacity { events: max, ..Capacity::default() }, "too many"),
        ] {
            let made = CudaDecoder::new(&tables, OPTIONS(), CudaConfig { capacity, ..CudaConfig::default() });
            let error = made.err().expect("it cannot be").to_string();
            assert!(error.contains(what), "{capacity:?}: {error}");
        }
    });
}

#[test]
fn a_batch_without_hits_has_seven_empty_arrays() {
    well_on_the_fake(&[], || {
        let (tables, batch, mut decoder) = small();
        for batch in [&allen_batch(&[]), &allen_batch(&[vec![]]), &batch, &allen_batch(&[vec![]]), &mep_batch(&[])] {
            // On the same stream each time.
            let ticket = decoder.submit(batch.view(), Readback::Hits).unwrap();
            let hits = decoder.collect(ticket).unwrap();
            assert!((0..7).all(|i| hits.array(i).len() == hits.len()));
            assert_eq!(hits.offsets().len(), batch.n_events * tables.n_groups() + 1);
        }
    });
}

#[test]
fn hits_that_do_not_fit_are_an_error() {
    well_on_the_fake(&[], || {
        let (tables, batch, mut decoder) = small();
        let mut hits = UtHits::with_capacity(1, tables.n_groups(), 3);
        let error = decoder.decode(batch.view(), &mut hits, &mut BatchReport::new()).unwrap_err().to_string();
        assert!(error.contains("were made for"), "{error}");
        compare(&mut decoder, &tables, OPTIONS(), batch.view());
    });
}

#[test]
fn a_stream_of_another_gpu_is_refused() {
    well_on_the_fake(&[("FAKE_CUDA_DEVICES", "2")], || {
        let [mut here, mut there] = [0, 1].map(|ordinal| CudaDevice::new(ordinal, 0).unwrap());
        let (foreign, own) = (there.stream().unwrap(), here.stream().unwrap());
        let event = here.record(&own).unwrap();
        for error in [here.record(&foreign).err(), here.wait(&foreign, &event).err(), here.synchronize(&foreign).err()]
        {
            let error = error.expect("it is refused").to_string();
            assert!(error.contains("not one of GPU 0"), "{error}");
        }
        here.synchronize(&own).unwrap();
        assert!(here.elapsed_ms(&event, &event).is_ok());
    });
}

#[test]
fn a_block_that_the_compiled_kernel_cannot_have_is_refused_with_what_to_do() {
    well_on_the_fake(&[("FAKE_CUDA_MAX_THREADS", "128")], || {
        let (tables, batch) = (tables(), batch());
        let config = |block: &str| {
            let mut launch = Parameters::default();
            launch.set_from(Backend::Emulated, block).unwrap();
            CudaConfig { pipeline: Pipeline::Fused, launch, ..CudaConfig::default() }
        };
        let mut decoder = CudaDecoder::new(&tables, OPTIONS(), config("fused.block_x=160")).unwrap();
        let error = decoder.submit(batch.view(), Readback::Hits).unwrap_err().to_string();
        for what in ["fused cannot run in blocks of 160 threads", "at most 128", "--set KERNEL.block_x"] {
            assert!(error.contains(what), "{what:?} is not in {error}");
        }
        let mut decoder = CudaDecoder::new(&tables, OPTIONS(), config("fused.block_x=128")).unwrap();
        compare(&mut decoder, &tables, OPTIONS(), batch.view());
    });
}

#[test]
fn kernels_are_compiled_once_for_all_decoders_of_a_gpu() {
    let output = on_the_fake(&[], &|| {
        let (tables, batch) = (tables(), batch());
        let kept = CudaDevice::new(0, 0).unwrap();
        for registers in [0, 0, 40, 0, 40] {
            let limit = format!("cuda.registers={registers}");
            let launch = Parameters::default().with(Backend::Cuda, &limit).unwrap();
            let config = CudaConfig { launch, pipeline: Pipeline::Fused, ..CudaConfig::default() };
            let mut decoder = CudaDecoder::new(&tables, OPTIONS(), config).unwrap();
            compare(&mut decoder, &tables, OPTIONS(), batch.view());
        }
        drop(kept);
    });
    if let Some(output) = output {
        assert_eq!(complaints(&output), [""; 0]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // One for each limit of registers.
        assert_eq!(said.matches("note: a module is compiled").count(), 2, "{said}");
    }
}

#[test]
fn a_driver_of_cuda_12_4_does() {
    well_on_the_fake(&[("FAKE_CUDA_VERSION", "12040")], || {
        let (tables, batch, mut decoder) = small();
        compare(&mut decoder, &tables, OPTIONS(), batch.view());
        let resident = decoder.upload(batch.view()).unwrap();
        assert!(decoder.repeat_resident(&[resident], 2).unwrap() > 0.0);
    });
}
