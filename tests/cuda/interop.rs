//! A decoder in a context and on a stream that the caller has made.

use std::ffi::c_void;

use cudarc::driver::{result, sys};
use ut_decoding::decoder::cuda::{
    CudaConfig, CudaDecoder, CudaDevice, CudaHost, CudaMemory, CudaSequence, CudaStream,
    DeviceBatch, Readback,
};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::detector::BankVersion;
use ut_decoding::{BatchView, DecodeOptions, Grouping};

use crate::fake_driver::{complaints, on_the_fake, on_the_fakes, well_on_the_fake};
use crate::suite::events::{allen_batch, mep_batch};
use crate::{Checked, RUNS, detector, events, pipeline, says};

/// The caller's side: a context that is held once, and a stream in it.
pub struct Caller {
    ordinal: i32,
    pub context: *mut c_void,
    pub stream: sys::CUstream,
}

impl Caller {
    pub fn new() -> Self {
        Self::on(0)
    }

    fn on(ordinal: i32) -> Self {
        result::init().unwrap();
        let device = result::device::get(ordinal).unwrap();
        // SAFETY: the device was given just now; the context lives until it is released below.
        let context = unsafe { result::primary_ctx::retain(device) }.unwrap();
        let mut stream = std::ptr::null_mut();
        // SAFETY: the context was made just now; a place of ours.
        unsafe {
            result::ctx::set_current(context).unwrap();
            sys::cuStreamCreate(&raw mut stream, 1).result().unwrap();
        }
        Self {
            ordinal,
            context: context.cast(),
            stream,
        }
    }

    pub fn device(&self) -> CudaDevice {
        // SAFETY: the tests drop devices before the caller.
        unsafe { CudaDevice::in_context(self.context, 0) }.unwrap()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let device = result::device::get(self.ordinal).unwrap();
        // SAFETY: made by `new`, and given back only here.
        unsafe {
            result::ctx::set_current(self.context.cast()).unwrap();
            sys::cuStreamDestroy_v2(self.stream).result().unwrap();
            result::primary_ctx::release(device).unwrap();
        }
    }
}

/// Puts the copy of a batch on the stream, and does not wait for it.
pub fn send(
    device: &CudaDevice,
    stream: &CudaStream,
    batch: &BatchView<'_>,
) -> (DeviceBatch, CudaMemory, CudaHost) {
    let optional = [batch.versions, batch.selected].map(Option::unwrap_or_default);
    let words = [
        batch.offsets,
        batch.sizes,
        batch.types,
        optional[0],
        optional[1],
    ];
    let mut bytes = Vec::new();
    let mut put = |part: &[u8]| {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(part);
        (bytes.len() - part.len()) as u64
    };
    let places = words.map(|words| (put(bytemuck::cast_slice(words)), words.len()));
    let raw = put(batch.raw);
    let (memory, host) = (
        device.allocate(bytes.len()).unwrap(),
        device.allocate_host(bytes.len()).unwrap(),
    );
    let address = memory.address();
    // SAFETY: as many bytes on either side, which the caller keeps until the stream was waited for.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), host.start(), bytes.len());
        stream.write(address, host.start(), bytes.len()).unwrap();
    }
    let [offsets, sizes, types, versions, selected] = places.map(|(at, len)| (address + at, len));
    let there = DeviceBatch {
        layout: batch.layout,
        n_events: batch.n_events,
        first_event: batch.first_event,
        selected: batch.selected.map(|_| selected),
        raw: (address + raw, batch.raw.len()),
        offsets,
        sizes,
        types,
        versions: batch.versions.map(|_| versions),
        version: batch.version,
    };
    (there, memory, host)
}

#[test]
fn a_batch_being_copied_on_the_callers_stream_is_decoded_afterwards() {
    on_the_fakes(&RUNS, || {
        let tables = detector(BankVersion::V5, Grouping::YRows);
        let caller = Caller::new();
        let device = caller.device();
        // SAFETY:
        // - `caller.stream` is a stream that `Caller::new` made in `caller.context`, the context of
        //   `device`;
        // - `caller` is declared before the decoder and the streams, and so dropped after them.
        let [mine, decoders] =
            [0, 1].map(|_| unsafe { device.borrow_stream(caller.stream.cast()) });
        let config = CudaConfig::default().with_pipeline(pipeline());
        let on = caller.device();
        assert_eq!(on.raw_context(), caller.context);
        let decoder = CudaDecoder::on_streams(
            on,
            vec![decoders],
            &tables,
            DecodeOptions::default(),
            config,
        )
        .unwrap();
        let mut decoder = Checked { tables, decoder };
        assert_eq!(decoder.streams(), 1);
        let events = events(BankVersion::V5, 5, 2);
        for batch in [
            allen_batch(&events),
            mep_batch(&events),
            allen_batch(&events),
        ] {
            let (there, memory, host) = send(&device, &mine, &batch.view());
            // SAFETY: the memory is kept until the batch was collected.
            let ticket = unsafe { decoder.submit_resident(&there, Readback::Hits) }.unwrap();
            decoder.check(ticket, &batch);
            drop((memory, host));
        }
        // With a batch in flight.
        let _ = decoder
            .submit(allen_batch(&events).view(), Readback::Hits)
            .unwrap();
        drop((decoder, mine, device));
    });
}

#[test]
fn an_old_gpu_is_refused_and_a_newer_one_in_the_same_machine_is_used() {
    well_on_the_fake(
        &[
            ("FAKE_CUDA_DEVICES", "2"),
            ("FAKE_CUDA_CAPABILITY", "70,90"),
        ],
        || {
            for ordinal in [0, 1] {
                let caller = Caller::on(ordinal);
                // SAFETY: `caller` holds its context, which it has made current, and is dropped
                // after everything that was made in that context.
                let made = unsafe {
                    [
                        CudaDevice::in_context(caller.context, 0),
                        CudaDevice::in_current_context(0),
                    ]
                };
                for made in made {
                    match made {
                        Ok(device) => assert_eq!(
                            (ordinal, device.gpu().ordinal, device.gpu().capability),
                            (1, 1, (9, 0))
                        ),
                        Err(error) => assert!(
                            ordinal == 0 && error.to_string().contains("GPU 0"),
                            "{ordinal}: {error}"
                        ),
                    }
                }
            }
        },
    );
}

#[test]
fn foreign_and_default_streams_and_no_streams_are_refused() {
    well_on_the_fake(&[("FAKE_CUDA_DEVICES", "2")], || {
        let (tables, options) = (
            detector(BankVersion::V5, Grouping::YRows),
            DecodeOptions::default(),
        );
        let gpu = || CudaDevice::new(0, 0).unwrap();
        let other = CudaDevice::new(1, 0).unwrap();
        let theirs = other.stream().unwrap();
        let made = CudaSequence::new(gpu(), &theirs, &tables, options, Parameters::default());
        says(made, "not one of GPU 0");
        // SAFETY: `CU_STREAM_PER_THREAD`, one of the default streams, used on this thread only.
        let default = unsafe { gpu().borrow_stream(std::ptr::without_provenance_mut(2)) };
        for (streams, what) in [
            (vec![theirs], "not one of GPU 0"),
            (vec![], "needs a stream"),
            (vec![default], "per-thread default stream"),
        ] {
            says(
                CudaDecoder::on_streams(gpu(), streams, &tables, options, CudaConfig::default()),
                what,
            );
        }
    });
}

/// Does `work` while the stream is captured, by which whatever waits for it fails.
fn captured(stream: sys::CUstream, work: impl FnOnce()) {
    let (mode, mut graph) = (
        sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
        std::ptr::null_mut(),
    );
    // SAFETY: the stream lives.
    unsafe { sys::cuStreamBeginCapture_v2(stream, mode) }
        .result()
        .unwrap();
    work();
    // SAFETY: the stream lives; a place of ours.
    let ended = unsafe { sys::cuStreamEndCapture(stream, &raw mut graph) };
    assert_eq!(ended, sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    // Work that was put on the stream before goes on.
    // SAFETY: the stream lives.
    unsafe { sys::cuStreamSynchronize(stream) }
        .result()
        .unwrap();
}

#[test]
fn memory_of_a_stream_that_cannot_be_waited_for_is_not_freed() {
    let output = on_the_fake(&[], &|| {
        let (tables, options) = (
            detector(BankVersion::V5, Grouping::YRows),
            DecodeOptions::default(),
        );
        let caller = Caller::new();
        let device = caller.device();
        // SAFETY:
        // - `caller.stream` is a stream that `Caller::new` made in `caller.context`, the context of
        //   `device`;
        // - `caller` is declared before the decoder and the stream, and so dropped after them.
        // - It is captured while a batch is in flight: to show that no memory is lost to others by
        //   it.
        let stream = unsafe { device.borrow_stream(caller.stream.cast()) };
        let config = CudaConfig::default();
        let decoder =
            CudaDecoder::on_streams(device, vec![stream], &tables, options, config).unwrap();
        let mut decoder = Checked { tables, decoder };
        let batch = allen_batch(&events(BankVersion::V5, 5, 1));
        let pinned = decoder.pin(batch.view()).unwrap();
        let ticket = decoder.submit(&pinned, Readback::Hits).unwrap();
        captured(caller.stream, || {
            assert!(decoder.collect(ticket).is_err());
            drop(pinned);
            says(
                decoder.submit(batch.view(), Readback::Hits),
                "CAPTURE_UNSUPPORTED",
            );
        });
        let ticket = decoder.submit(batch.view(), Readback::Hits).unwrap();
        decoder.check(ticket, &batch);
        let _ = decoder.submit(batch.view(), Readback::Hits).unwrap();
        captured(caller.stream, || drop(decoder));
    });
    if let Some(output) = output {
        let found = complaints(&output);
        assert!(
            !found.iter().any(|line| line.contains("failed")),
            "{found:?}"
        );
    }
}
