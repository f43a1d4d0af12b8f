//! A decoder in a context and on a stream that the caller has made.

use std::ffi::c_void;

use cudarc::driver::{result, sys};
use ut_decoding::decoder::Pipeline;
use ut_decoding::decoder::cuda::{
    CudaDecoder, CudaDevice, CudaHost, CudaMemory, CudaStream, Device, DeviceBatch, DeviceConfig, HitMemory, Readback,
    Rows,
};
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::{DecodeOptions, DetectorTables, EventBatch, Grouping};

use ut_kernels::report::N_COUNTS;

use crate::fake_driver::well_on_the_fake;
use crate::suite::backends::decode;
use crate::suite::events::{allen_batch, mep_batch};
use crate::{RUNS, collect_as_reference, detector, events, pipeline};

/// The caller's side: a context that is held once, and a stream in it.
pub struct Caller {
    pub context: *mut c_void,
    pub stream: sys::CUstream,
}

impl Caller {
    pub fn new() -> Self {
        result::init().unwrap();
        let device = result::device::get(0).unwrap();
        // SAFETY: the device was given just now; the context lives until it is released below.
        let context = unsafe { result::primary_ctx::retain(device) }.unwrap();
        let mut stream = std::ptr::null_mut();
        // SAFETY: the context was made just now; a place of ours.
        unsafe {
            result::ctx::set_current(context).unwrap();
            sys::cuStreamCreate(&raw mut stream, 1).result().unwrap();
        }
        Self { context: context.cast(), stream }
    }

    pub fn device(&self) -> CudaDevice {
        // SAFETY: the tests drop devices before the caller.
        unsafe { CudaDevice::in_context(self.context, 0) }.unwrap()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let device = result::device::get(0).unwrap();
        // SAFETY: made by `new`, and given back only here.
        unsafe {
            result::ctx::set_current(self.context.cast()).unwrap();
            sys::cuStreamDestroy_v2(self.stream).result().unwrap();
            result::primary_ctx::release(device).unwrap();
        }
    }
}

/// Puts the copy of a batch on the stream, and does not wait for it.
pub fn send(device: &mut CudaDevice, stream: &CudaStream, batch: &EventBatch) -> (DeviceBatch, CudaMemory, CudaHost) {
    let words = [&batch.offsets[..], &batch.sizes, &batch.types, batch.versions.as_deref().unwrap_or_default()];
    let mut bytes = Vec::new();
    let mut put = |part: &[u8]| {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(part);
        (bytes.len() - part.len()) as u64
    };
    let places = words.map(|words| (put(bytemuck::cast_slice(words)), words.len()));
    let raw = put(&batch.raw);
    let (memory, host) = (device.allocate(bytes.len()).unwrap(), device.allocate_host(bytes.len()).unwrap());
    let address = CudaDevice::address(&memory);
    // SAFETY: as many bytes on either side, which the caller keeps until the stream was waited for.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), CudaDevice::start(&host), bytes.len());
        device.write(stream, address, CudaDevice::start(&host), bytes.len()).unwrap();
    }
    let [offsets, sizes, types, versions] = places.map(|(at, len)| (address + at, len));
    let there = DeviceBatch {
        layout: batch.layout,
        n_events: batch.n_events,
        raw: (address + raw, batch.raw.len()),
        offsets,
        sizes,
        types,
        versions: batch.versions.is_some().then_some(versions),
    };
    (there, memory, host)
}

#[test]
fn a_batch_that_is_still_on_its_way_on_the_callers_stream_is_decoded_after_it() {
    let name = "interop::a_batch_that_is_still_on_its_way_on_the_callers_stream_is_decoded_after_it";
    for run in RUNS {
        well_on_the_fake(name, &run, || {
            let tables = detector(BankVersion::V5, Grouping::YRows);
            let caller = Caller::new();
            let (mut device, graph) = (caller.device(), pipeline().1);
            // SAFETY:
            // - `caller.stream` is a stream that `Caller::new` made in `caller.context`, the context of `device`;
            // - `caller` is declared before the decoder and the streams, and so dropped after them.
            let [mine, decoders] = [0, 1].map(|_| unsafe { device.borrow_stream(caller.stream.cast()) });
            let config = DeviceConfig { pipeline: pipeline().0, ..DeviceConfig::default() };
            let options = DecodeOptions::default();
            let on = caller.device().with_graphs(graph);
            assert_eq!(on.raw_context(), caller.context);
            let mut decoder = CudaDecoder::on_streams(on, vec![decoders], &tables, options, config).unwrap();
            assert_eq!(decoder.streams(), 1);
            let events = events(BankVersion::V5, 5, 2);
            for batch in [allen_batch(&events), mep_batch(&events), allen_batch(&events)] {
                let (there, memory, host) = send(&mut device, &mine, &batch);
                // SAFETY: the memory is kept until the batch was collected.
                let ticket = unsafe { decoder.submit_resident(&there, Readback::Hits) }.unwrap();
                collect_as_reference(&mut decoder, ticket, &tables, options, &batch);
                drop((memory, host));
            }
            // With a batch in flight.
            let _ = decoder.submit(allen_batch(&events).view(), Readback::Hits).unwrap();
            drop((decoder, mine, device));
        });
    }
}

#[test]
fn streams_of_another_context_and_none_at_all_are_refused() {
    let name = "interop::streams_of_another_context_and_none_at_all_are_refused";
    well_on_the_fake(name, &[("FAKE_CUDA_DEVICES", "2")], || {
        let tables = detector(BankVersion::V5, Grouping::YRows);
        let mut other = CudaDevice::new(1, 0).unwrap();
        for (streams, what) in [(vec![other.stream().unwrap()], "not one of GPU 0"), (vec![], "needs a stream")] {
            let device = CudaDevice::new(0, 0).unwrap();
            let config = DeviceConfig::default();
            let made = CudaDecoder::on_streams(device, streams, &tables, DecodeOptions::default(), config);
            let error = made.err().expect("it is refused").to_string();
            assert!(error.contains(what), "{error}");
        }
    });
}

/// Hits as seven arrays of words, ends of groups and counters, of the events whose bit is set.
fn expected(tables: &DetectorTables, batch: &EventBatch, selected: u32) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let mut reference = ReferenceDecoder::new(tables, DecodeOptions::default());
    let (hits, report) = decode(&mut reference, tables, batch.view());
    let bits = |floats: &[f32]| floats.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let floats = [hits.y_begin(), hits.y_end(), hits.z_at_y_eq0(), hits.x_at_y_eq0(), hits.dx_dy(), hits.weight()];
    let mut arrays = vec![Vec::new(); 7];
    let (mut offsets, mut counts) = (Vec::new(), Vec::new());
    for event in 0..batch.n_events {
        let ends = &hits.offsets()[event * tables.n_groups()..][..=tables.n_groups()];
        let (start, end, first) = (ends[0] as usize, ends[tables.n_groups()] as usize, arrays[6].len() as u32);
        let is_selected = selected >> event & 1 == 1;
        offsets.extend(ends[..tables.n_groups()].iter().map(|end| first + if is_selected { end - ends[0] } else { 0 }));
        counts.extend(report.events[event].counts.map(|n| if is_selected { n } else { 0 }));
        if is_selected {
            for (array, floats) in arrays.iter_mut().zip(floats) {
                array.extend(bits(&floats[start..end]));
            }
            arrays[6].extend(&hits.id()[start..end]);
        }
    }
    offsets.push(arrays[6].len() as u32);
    (arrays.concat(), offsets, counts)
}

#[test]
fn hits_are_counted_and_then_written_back_to_back_into_the_callers_memory() {
    let name = "interop::hits_are_counted_and_then_written_back_to_back_into_the_callers_memory";
    well_on_the_fake(name, &[], || {
        let tables = detector(BankVersion::V5, Grouping::YRows);
        let caller = Caller::new();
        let mut device = caller.device();
        // SAFETY:
        // - `caller.stream` is a stream that `Caller::new` made in `caller.context`, the context of `device`;
        // - `caller` is declared before the decoder and the streams, and so dropped after them.
        let [mine, decoders] = [0, 1].map(|_| unsafe { device.borrow_stream(caller.stream.cast()) });
        let config = DeviceConfig { pipeline: Pipeline::Fused, ..DeviceConfig::default() };
        let options = DecodeOptions::default();
        let mut decoder = CudaDecoder::on_streams(caller.device(), vec![decoders], &tables, options, config).unwrap();
        let mut events = events(BankVersion::V5, 5, 4);
        // One event for the second kernel.
        let twice = events[1][0].clone();
        events[1].push(twice);
        for batch in [allen_batch(&events), mep_batch(&[events[0].clone(), events[2].clone()])] {
            let (there, memory, host) = send(&mut device, &mine, &batch);
            for selected in [None, Some(0b1010), Some(0b0111), Some(0)] {
                let (hits, offsets, counts) = expected(&tables, &batch, selected.unwrap_or(u32::MAX));
                let words = 1 + hits.len() + offsets.len() + counts.len();
                let (to, back) = (device.allocate(4 * words).unwrap(), device.allocate_host(4 * words).unwrap());
                let address = CudaDevice::address(&to);
                // SAFETY: pinned memory of a word at least, a word on the device, and nothing else uses either meanwhile.
                unsafe {
                    CudaDevice::start(&back).cast::<[u8; 4]>().write(selected.unwrap_or(0).to_ne_bytes());
                    device.write(&mine, address, CudaDevice::start(&back), 4).unwrap();
                }
                // SAFETY: the memory is kept until the stream was waited for, below.
                let counted = unsafe { decoder.count(&there, selected.map(|_| address)) }.unwrap();
                assert_eq!(7 * counted.hits(), hits.len());
                let busy = decoder.submit(batch.view(), Readback::None).expect_err("the stream is kept");
                assert!(busy.to_string().contains("all streams"), "{busy}");
                let at = |words: usize| address + 4 * words as u64;
                let (places, report) = (1 + hits.len(), 1 + hits.len() + offsets.len());
                let memory = HitMemory { hits: at(1), offsets: at(places), report: at(report) };
                // SAFETY: allocated above, as many words; the stream is waited for before anything is given back.
                unsafe {
                    decoder.write(counted, &memory).unwrap();
                    device.read(&mine, address, CudaDevice::start(&back), Rows::one(4 * words)).unwrap();
                }
                device.synchronize(&mine).unwrap();
                // SAFETY: as many words, and the stream was waited for.
                let found = unsafe { std::slice::from_raw_parts(CudaDevice::start(&back).cast::<[u8; 4]>(), words) };
                let found: Vec<u32> = found.iter().map(|&word| u32::from_ne_bytes(word)).collect();
                assert_eq!(counts.len(), batch.n_events * N_COUNTS);
                assert_eq!(found[1..], [hits, offsets, counts].concat(), "{:?}, {selected:?}", batch.layout);
            }
            // What was counted can be forgotten.
            // SAFETY: `there` is the batch in memory of the device that is kept until `discard_all` has waited.
            let counted = unsafe { decoder.count(&there, None) }.unwrap();
            decoder.discard_all().unwrap();
            let memory_of_nothing = HitMemory { hits: 0, offsets: 0, report: 0 };
            // SAFETY: nothing is launched.
            let error = unsafe { decoder.write(counted, &memory_of_nothing) }.expect_err("it was discarded");
            assert!(error.to_string().contains("discarded"), "{error}");
            drop((memory, host));
        }
        drop((decoder, mine, device));
    });
}

#[test]
fn a_decoder_of_the_other_pipeline_does_not_count() {
    well_on_the_fake("interop::a_decoder_of_the_other_pipeline_does_not_count", &[], || {
        let tables = detector(BankVersion::V5, Grouping::YRows);
        let config = DeviceConfig { pipeline: Pipeline::Allen, ..DeviceConfig::default() };
        let device = CudaDevice::new(0, 0).unwrap();
        let mut decoder =
            CudaDecoder::on("cuda", device, &tables, DecodeOptions::default(), config).expect("the fake is a GPU");
        let resident = decoder.upload(allen_batch(&events(BankVersion::V5, 1, 1)).view()).unwrap();
        // SAFETY: it lives until the end, and nothing is launched.
        let error = unsafe { decoder.count(&resident.batch(), None) }.expect_err("it has the other pipeline");
        assert!(error.to_string().contains("fused pipeline"), "{error}");
    });
}
