//! A stage of a sequence on the caller's streams, with all memory the caller's: counted, allocated, written.

use cudarc::driver::{result, sys};
use ut_decoding::decoder::cuda::{
    CudaDevice, CudaHost, CudaMemory, CudaSequence, CudaStream, Device, DeviceBatch, HITS_OVERFLOW, NO_SUCH_EVENT,
    Rows, SequenceHits, SequenceWork,
};
use ut_decoding::decoder::parameters::Parameters;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::{BatchView, DecodeError, DecodeOptions, DetectorTables, Grouping, Layout};
use ut_kernels::report::N_COUNTS;
use ut_kernels::status::WRONG_VERSION;

use crate::fake_driver::{on_the_fakes, well_on_the_fake};
use crate::interop::{Caller, send};
use crate::suite::allocations::{ALLOCATIONS, Counting};
use crate::suite::backends::decode;
use crate::suite::events::{allen_batch, changed, mep_batch};
use crate::{detector, events};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Orders of work: as late as possible, and streams that run ahead.
const SEEDS: [[(&str, &str); 1]; 3] = [[("FAKE_CUDA_SEED", "0")], [("FAKE_CUDA_SEED", "1")], [("FAKE_CUDA_SEED", "2")]];

/// A caller, and what it has made: a stage, a device and the stream of both.
fn staged(tables: &DetectorTables) -> (Caller, CudaSequence, CudaDevice, CudaStream) {
    let caller = Caller::new();
    let device = caller.device();
    // SAFETY: the stream was made in the context of the device, and the tests drop what borrows it first.
    let stream = unsafe { device.borrow_stream(caller.stream.cast()) };
    let made = CudaSequence::new(caller.device(), &stream, tables, DecodeOptions::default(), Parameters::default());
    let stage = made.expect("the fake is a GPU");
    for layout in [Layout::Allen, Layout::Mep] {
        stage.prepare(layout).expect("the fake compiles");
    }
    (caller, stage, device, stream)
}

/// A batch on its way to the device, and all memory of its decoding.
struct InFlight {
    batch: DeviceBatch,
    work: SequenceWork,
    hits: SequenceHits,
    n_groups: usize,
    /// Kept: input, scratch, offsets and report, hits.
    memory: Vec<CudaMemory>,
    _host: Vec<CudaHost>,
}

impl InFlight {
    /// Puts the copy and the count on the stream.
    fn count(
        stage: &mut CudaSequence,
        (device, stream): (&mut CudaDevice, &CudaStream),
        batch: &BatchView<'_>,
    ) -> Self {
        let (there, input, staged) = send(device, stream, batch);
        let bytes = stage.scratch_bytes(&there).expect("a small batch");
        let scratch = device.allocate(bytes).expect("room");
        let result = device.allocate_host(8).expect("room");
        let work =
            SequenceWork { scratch: (CudaDevice::address(&scratch), bytes), result: CudaDevice::start(&result).cast() };
        // SAFETY: this keeps all memory until the stream was waited for; each piece is as long as it says.
        unsafe { stage.count(stream, &there, work) }.expect("it can be launched");
        let (n_groups, memory) = (stage.n_groups(), vec![input, scratch]);
        Self { batch: there, work, hits: SequenceHits::default(), n_groups, memory, _host: vec![staged, result] }
    }

    /// Number of hits and status, when the stream has come there.
    fn result(&self, device: &mut CudaDevice, stream: &CudaStream) -> (usize, u32) {
        device.synchronize(stream).expect("it went well");
        // SAFETY: the stream was waited for; two words of memory that this keeps.
        let words = unsafe { std::slice::from_raw_parts(self.work.result, 2) };
        (words[0] as usize, words[1])
    }

    /// Allocates arrays for `n` hits back to back, and puts the writing on the stream.
    fn write(&mut self, stage: &mut CudaSequence, (device, stream): (&mut CudaDevice, &CudaStream), n: usize) {
        let (n_offsets, n_report) = (self.batch.n_events * self.n_groups + 1, self.batch.n_events * N_COUNTS);
        let results = device.allocate(4 * (n_offsets + n_report)).expect("room");
        let memory = device.allocate((28 * n).max(1)).expect("room");
        let (address, results_at) = (CudaDevice::address(&memory), CudaDevice::address(&results));
        self.hits = SequenceHits {
            arrays: std::array::from_fn(|array| address + (4 * array * n) as u64),
            max_hits: n,
            offsets: (results_at, n_offsets),
            report: Some((results_at + 4 * n_offsets as u64, n_report)),
        };
        self.memory.extend([memory, results]);
        // SAFETY: this keeps all memory until the stream was waited for; the batch was counted by `count`.
        unsafe { stage.write(stream, &self.batch, self.work, &self.hits) }.expect("it can be launched");
    }

    /// Words at an address.
    fn read(device: &mut CudaDevice, stream: &CudaStream, at: u64, words: usize) -> Vec<u32> {
        let host = device.allocate_host((4 * words).max(1)).expect("room");
        // SAFETY: as many words on either side, kept until the stream was waited for.
        unsafe { device.read(stream, at, CudaDevice::start(&host), Rows::one(4 * words)) }.expect("it can be copied");
        device.synchronize(stream).expect("it went well");
        // SAFETY: the stream was waited for; so many bytes of memory that is kept here.
        let bytes = unsafe { std::slice::from_raw_parts(CudaDevice::start(&host), 4 * words) };
        bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes"))).collect()
    }

    /// Compares with the reference.
    fn check(
        &mut self,
        (device, stream): (&mut CudaDevice, &CudaStream),
        tables: &DetectorTables,
        batch: BatchView<'_>,
        n: usize,
    ) {
        let mut reference = ReferenceDecoder::new(tables, DecodeOptions::default());
        let (expected, report) = decode(&mut reference, tables, batch);
        assert_eq!(n, expected.len());
        let n_offsets = batch.n_events * self.n_groups + 1;
        assert_eq!(Self::read(device, stream, self.hits.offsets.0, n_offsets), expected.offsets());
        let counts = Self::read(device, stream, self.hits.report.expect("wanted").0, batch.n_events * N_COUNTS);
        assert_eq!(counts, bytemuck::cast_slice::<_, u32>(&report.events));
        let floats = [
            expected.y_begin(),
            expected.y_end(),
            expected.z_at_y_eq0(),
            expected.x_at_y_eq0(),
            expected.dx_dy(),
            expected.weight(),
        ];
        let all: Vec<u32> = floats.into_iter().flatten().map(|x| x.to_bits()).chain(expected.id().to_vec()).collect();
        // One allocation of exactly so many bytes.
        assert!(Self::read(device, stream, self.hits.arrays[0], 7 * n) == all, "hits differ");
    }
}

/// Counts, allocates and writes all of the batches, as many in flight, and compares each with the reference.
fn check_all(tables: &DetectorTables, batches: &[BatchView<'_>]) {
    let (_caller, mut stage, mut device, stream) = staged(tables);
    // All in flight at the same time, each with memory of its own.
    let mut flying: Vec<_> =
        batches.iter().map(|batch| InFlight::count(&mut stage, (&mut device, &stream), batch)).collect();
    let counted: Vec<_> = flying.iter().map(|flight| flight.result(&mut device, &stream)).collect();
    for (flight, &(n, status)) in flying.iter_mut().zip(&counted) {
        assert_eq!(status, 0);
        flight.write(&mut stage, (&mut device, &stream), n);
    }
    for ((flight, &batch), &(n, _)) in flying.iter_mut().zip(batches).zip(&counted) {
        let status = if batch.version == Some(3) { WRONG_VERSION } else { 0 };
        assert_eq!(flight.result(&mut device, &stream), (n, status));
        flight.check((&mut device, &stream), tables, batch, n);
    }
    drop((flying, stream, stage, device));
}

#[test]
fn hits_go_to_memory_of_exactly_their_size_on_the_callers_stream() {
    on_the_fakes(&SEEDS, || {
        for version in [BankVersion::V5, BankVersion::V4] {
            let tables = detector(version, Grouping::YRows);
            let mut events = events(version, 7, 3);
            let mep = mep_batch(&events[1..]);
            // One event for the second kernel.
            let twice = events[1][0].clone();
            events[1].push(twice);
            let batches = [allen_batch(&events), mep, allen_batch(&[]), allen_batch(&[vec![]])];
            check_all(&tables, &batches.each_ref().map(|batch| batch.view()));
        }
    });
}

#[test]
fn a_list_of_events_an_interval_and_one_version_for_all_banks_are_taken() {
    on_the_fakes(&SEEDS, || {
        let version = BankVersion::V5;
        let tables = detector(version, Grouping::YRows);
        let events = events(version, 3, 4);
        for batch in [allen_batch(&events), mep_batch(&events)] {
            let all = batch.view();
            let interval = BatchView { first_event: 1, n_events: 3, ..all };
            check_all(
                &tables,
                &[
                    BatchView { selected: Some(&[3, 0, 3]), ..all },
                    BatchView { selected: Some(&[]), ..all },
                    BatchView { selected: Some(&[2]), ..interval },
                    BatchView { versions: None, version: Some(version.byte()), ..interval },
                    // Banks of another version are counted, and have no hits.
                    BatchView { versions: None, version: Some(3), ..all },
                    // Events that the arrays do not have are broken.
                    BatchView { first_event: 3, n_events: 2, ..all },
                    BatchView { first_event: usize::MAX, n_events: 1, ..all },
                ],
            );
        }
    });
}

#[test]
fn nothing_is_allocated_for_the_second_batch() {
    well_on_the_fake(&[], || {
        let tables = detector(BankVersion::V5, Grouping::YRows);
        let (_caller, mut stage, mut device, stream) = staged(&tables);
        let batch = mep_batch(&events(BankVersion::V5, 7, 2));
        let view = BatchView { selected: Some(&[1, 0]), ..batch.view() };
        // Memory of everything.
        let mut flight = InFlight::count(&mut stage, (&mut device, &stream), &view);
        let (n, _) = flight.result(&mut device, &stream);
        flight.write(&mut stage, (&mut device, &stream), n);
        let on_device = result::mem_get_info().expect("the fake says it").0;
        let before = ALLOCATIONS.get();
        assert!(before > 0, "allocations are counted");
        let bytes = stage.scratch_bytes(&flight.batch).expect("a small batch");
        assert_eq!(bytes, flight.work.scratch.1);
        // SAFETY: as in `InFlight`, whose memory is used again in the order of the stream.
        unsafe {
            stage.count(&stream, &flight.batch, flight.work).expect("it can be launched");
            stage.write(&stream, &flight.batch, flight.work, &flight.hits).expect("it can be launched");
        }
        assert_eq!(ALLOCATIONS.get(), before, "on the host");
        assert_eq!(result::mem_get_info().expect("the fake says it").0, on_device, "on the device");
        assert_eq!(flight.result(&mut device, &stream), (n, 0));
        flight.check((&mut device, &stream), &tables, view, n);
        drop((flight, stream, stage, device));
    });
}

#[test]
fn a_listed_event_that_is_not_there_is_said_and_the_others_are_decoded() {
    well_on_the_fake(&[], || {
        let tables = detector(BankVersion::V5, Grouping::YRows);
        let (_caller, mut stage, mut device, stream) = staged(&tables);
        let batch = mep_batch(&events(BankVersion::V5, 7, 2));
        let list = [2, 1, u32::MAX];
        let view = BatchView { selected: Some(&list), ..batch.view() };
        let mut flight = InFlight::count(&mut stage, (&mut device, &stream), &view);
        let (n, status) = flight.result(&mut device, &stream);
        assert_eq!(status, NO_SUCH_EVENT);
        flight.write(&mut stage, (&mut device, &stream), n);
        assert_eq!(flight.result(&mut device, &stream), (n, 0));
        flight.check((&mut device, &stream), &tables, BatchView { selected: Some(&[1]), ..view }, n);
        drop((flight, stream, stage, device));
    });
}

#[test]
fn what_was_put_on_the_stream_before_the_device_failed_is_done_when_that_is_said() {
    well_on_the_fake(&[("FAKE_CUDA_REFUSE", "cuLaunchKernel")], || {
        let tables = detector(BankVersion::V5, Grouping::YRows);
        let (_caller, mut stage, mut device, stream) = staged(&tables);
        let (there, _input, _staged) = send(&mut device, &stream, &allen_batch(&events(BankVersion::V5, 7, 1)).view());
        let bytes = stage.scratch_bytes(&there).expect("a small batch");
        let scratch = device.allocate(bytes).expect("room");
        let work = SequenceWork { scratch: (CudaDevice::address(&scratch), bytes), result: std::ptr::null_mut() };
        // SAFETY: memory for the batch and the work space, kept beyond the stream's end.
        let error = unsafe { stage.count(&stream, &there, work) }.expect_err("no kernel is launched").to_string();
        assert!(error.contains("NOT_SUPPORTED"), "{error}");
        // The status word was to be set to 0.
        // SAFETY: the stream lives.
        assert_eq!(unsafe { sys::cuStreamQuery(stream.raw().cast()) }, sys::CUresult::CUDA_SUCCESS);
        drop((scratch, stream, stage, device));
    });
}

#[test]
fn tables_that_leave_no_room_for_a_list_of_events_decode_whole_batches() {
    well_on_the_fake(&[], || {
        let tables = changed(BankVersion::V5, |_, geometry| {
            geometry.sectors.iter_mut().zip(1u16..).for_each(|(sector, more)| sector.dy += 0.001 * f32::from(more));
        });
        let batch = allen_batch(&events(BankVersion::V5, 7, 2));
        check_all(&tables, &[batch.view()]);
        let (_caller, mut stage, _device, stream) = staged(&tables);
        let there = DeviceBatch { n_events: 2, selected: Some((0, 1)), ..DeviceBatch::default() };
        let work = SequenceWork { scratch: (0, usize::MAX), result: std::ptr::null_mut() };
        // SAFETY: none of it is there: it is refused before anything is put on the stream.
        let counted = unsafe { stage.count(&stream, &there, work) };
        for refused in [stage.scratch_bytes(&there).map(|_| ()), counted] {
            assert!(matches!(refused, Err(DecodeError::NoList { .. })), "{refused:?}");
        }
        drop((stream, stage));
    });
}

#[test]
fn room_for_more_hits_than_32_bits_can_count_is_room_enough() {
    well_on_the_fake(&[], || {
        let tables = detector(BankVersion::V5, Grouping::YRows);
        let (_caller, mut stage, mut device, stream) = staged(&tables);
        let batch = allen_batch(&events(BankVersion::V5, 7, 1));
        let mut flight = InFlight::count(&mut stage, (&mut device, &stream), &batch.view());
        let (n, _) = flight.result(&mut device, &stream);
        flight.write(&mut stage, (&mut device, &stream), n);
        let hits = SequenceHits { max_hits: 1 << 32, ..flight.hits };
        // SAFETY: none: there is memory for the hits that were counted alone; no others are written.
        unsafe { stage.write(&stream, &flight.batch, flight.work, &hits) }.expect("it can be launched");
        assert_eq!(flight.result(&mut device, &stream), (n, 0));
        flight.check((&mut device, &stream), &tables, batch.view(), n);
        drop((flight, stream, stage, device));
    });
}

#[test]
fn what_does_not_fit_is_said_and_not_written() {
    well_on_the_fake(&[], || {
        let tables = detector(BankVersion::V5, Grouping::YRows);
        let (_caller, mut stage, mut device, stream) = staged(&tables);
        let batch = allen_batch(&events(BankVersion::V5, 7, 2));
        let (there, _input, _staged) = send(&mut device, &stream, &batch.view());
        let needed = stage.scratch_bytes(&there).expect("a small batch");
        let (scratch, offsets) = (device.allocate(needed).expect("room"), device.allocate(4 * 145).expect("room"));
        let work =
            |bytes| SequenceWork { scratch: (CudaDevice::address(&scratch), bytes), result: std::ptr::null_mut() };
        // SAFETY: memory for what is said, kept beyond the call; it is refused.
        let refused = unsafe { stage.count(&stream, &there, work(needed - 1)) }.expect_err("too little").to_string();
        assert!(refused.contains(&format!("needs {needed}")), "{refused}");
        let offsets_at = CudaDevice::address(&offsets);
        let one_short = SequenceHits { offsets: (offsets_at, 144), ..SequenceHits::default() };
        let no_report =
            SequenceHits { offsets: (offsets_at, 145), report: Some((offsets_at, 29)), ..SequenceHits::default() };
        for hits in [one_short, no_report, SequenceHits::default()] {
            // SAFETY: memory for the batch and the work space, kept beyond the call; it is refused before the hits are looked at.
            let refused = unsafe { stage.write(&stream, &there, work(needed), &hits) }.expect_err("too few places");
            assert!(matches!(refused, DecodeError::TooManyEvents { events: 2, .. }), "{refused}");
        }
        // One hit too few; then enough, without another count.
        let mut flight = InFlight::count(&mut stage, (&mut device, &stream), &batch.view());
        let (n, status) = flight.result(&mut device, &stream);
        assert_eq!(status, 0);
        flight.write(&mut stage, (&mut device, &stream), n - 1);
        assert_eq!(flight.result(&mut device, &stream), (n, HITS_OVERFLOW));
        flight.write(&mut stage, (&mut device, &stream), n);
        assert_eq!(flight.result(&mut device, &stream), (n, 0));
        flight.check((&mut device, &stream), &tables, batch.view(), n);
        drop((flight, scratch, offsets, stream, stage, device));
    });
}
