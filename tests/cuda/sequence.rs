//! A stage of a sequence on the caller's streams, with all memory the caller's: counted, allocated, written.

use ut_decoding::decoder::cuda::{
    CudaDevice, CudaHost, CudaMemory, CudaSequence, CudaStream, Device, DeviceBatch, Rows, SequenceHits, SequenceWork,
};
use ut_decoding::decoder::launch::LaunchParams;
use ut_decoding::decoder::reference::ReferenceDecoder;
use ut_decoding::detector::BankVersion;
use ut_decoding::{DecodeOptions, DetectorTables, EventBatch, Grouping, Layout};
use ut_kernels::report::N_COUNTS;

use crate::fake_driver::well_on_the_fake;
use crate::interop::{Caller, send};
use crate::suite::backends::decode;
use crate::suite::events::{allen_batch, mep_batch};
use crate::{detector, events};

/// As late as possible, and streams that run ahead.
const SEEDS: [[(&str, &str); 1]; 3] = [[("FAKE_CUDA_SEED", "0")], [("FAKE_CUDA_SEED", "1")], [("FAKE_CUDA_SEED", "2")]];

fn stage(caller: &Caller, tables: &DetectorTables) -> CudaSequence {
    let device = caller.device();
    let stream = stream(caller, &device);
    let stage = CudaSequence::new(device, &stream, tables, DecodeOptions::default(), LaunchParams::default());
    let stage = stage.expect("the fake is a GPU");
    for layout in [Layout::Allen, Layout::Mep] {
        stage.prepare(layout).expect("the fake compiles");
    }
    stage
}

fn stream(caller: &Caller, device: &CudaDevice) -> CudaStream {
    // SAFETY: the stream was made in the context of the device, and the tests drop what borrows it first.
    unsafe { device.borrow_stream(caller.stream.cast()) }
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
    /// Puts the copy and the count on the stream, with `less` bytes of work space taken away.
    fn count(
        stage: &mut CudaSequence,
        (device, stream): (&mut CudaDevice, &CudaStream),
        batch: &EventBatch,
        less: usize,
    ) -> Self {
        let (there, input, staged) = send(device, stream, batch);
        let bytes = stage.scratch_bytes(&there).expect("a small batch") - less;
        let scratch = device.allocate(bytes).expect("room");
        let (n_offsets, n_report) = (batch.n_events * stage.n_groups() + 1, batch.n_events * N_COUNTS);
        let results = device.allocate(4 * (n_offsets + n_report)).expect("room");
        let result = device.allocate_host(8).expect("room");
        let work =
            SequenceWork { scratch: (CudaDevice::address(&scratch), bytes), result: CudaDevice::start(&result).cast() };
        let address = CudaDevice::address(&results);
        let hits = SequenceHits {
            offsets: (address, n_offsets),
            report: Some((address + 4 * n_offsets as u64, n_report)),
            ..SequenceHits::default()
        };
        // SAFETY: this keeps all memory until the stream was waited for; each piece is as long as it says.
        unsafe { stage.count(stream, &there, work, &hits) }.expect("it can be launched");
        let memory = vec![input, scratch, results];
        Self { batch: there, work, hits, n_groups: stage.n_groups(), memory, _host: vec![staged, result] }
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
        let memory = device.allocate((28 * n).max(1)).expect("room");
        let address = CudaDevice::address(&memory);
        self.hits.arrays = std::array::from_fn(|array| address + (4 * array * n) as u64);
        self.hits.max_hits = n;
        self.memory.push(memory);
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
        batch: &EventBatch,
        n: usize,
    ) {
        let mut reference = ReferenceDecoder::new(tables, DecodeOptions::default());
        let (expected, report) = decode(&mut reference, tables, batch.view());
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

#[test]
fn hits_go_to_memory_of_exactly_their_size_on_the_callers_stream() {
    let name = "sequence::hits_go_to_memory_of_exactly_their_size_on_the_callers_stream";
    for seed in SEEDS {
        well_on_the_fake(name, &seed, || {
            for version in [BankVersion::V5, BankVersion::V4] {
                let tables = detector(version, Grouping::YRows);
                let caller = Caller::new();
                let mut stage = stage(&caller, &tables);
                let mut device = caller.device();
                let stream = stream(&caller, &device);
                let events = events(version, 7, 3);
                let batches = [allen_batch(&events), mep_batch(&events[1..]), allen_batch(&[]), allen_batch(&[vec![]])];
                // All in flight at the same time, each with memory of its own.
                let mut flying: Vec<_> =
                    batches.iter().map(|b| InFlight::count(&mut stage, (&mut device, &stream), b, 0)).collect();
                let counted: Vec<_> = flying.iter().map(|f| f.result(&mut device, &stream)).collect();
                for (flight, &(n, status)) in flying.iter_mut().zip(&counted) {
                    assert_eq!(status, 0);
                    flight.write(&mut stage, (&mut device, &stream), n);
                }
                for ((flight, batch), &(n, _)) in flying.iter_mut().zip(&batches).zip(&counted) {
                    assert_eq!(flight.result(&mut device, &stream), (n, 0));
                    flight.check((&mut device, &stream), &tables, batch, n);
                }
                drop((flying, stream, stage, device));
            }
        });
    }
}

#[test]
fn what_does_not_fit_is_said_and_not_written() {
    let name = "sequence::what_does_not_fit_is_said_and_not_written";
    well_on_the_fake(name, &[], || {
        let tables = detector(BankVersion::V5, Grouping::YRows);
        let caller = Caller::new();
        let mut stage = stage(&caller, &tables);
        let mut device = caller.device();
        let stream = stream(&caller, &device);
        let batch = allen_batch(&events(BankVersion::V5, 7, 2));
        // No work space for strips.
        let (there, _input, _staged) = send(&mut device, &stream, &batch);
        let needed = stage.scratch_bytes(&there).expect("a small batch");
        let for_strips = batch.raw.len() / 32 * 12 / 32 * 32 * 24;
        let flight = InFlight::count(&mut stage, (&mut device, &stream), &batch, for_strips);
        assert_ne!(flight.result(&mut device, &stream).1, 0);
        drop(flight);
        // Not even for the events.
        let scratch = device.allocate(needed).expect("room");
        let offsets = device.allocate(4 * 145).expect("room");
        let address = CudaDevice::address(&scratch);
        let hits = SequenceHits { offsets: (CudaDevice::address(&offsets), 145), ..SequenceHits::default() };
        for (bytes, hits) in [(64, hits), (needed, SequenceHits { offsets: (hits.offsets.0, 144), ..hits })] {
            let work = SequenceWork { scratch: (address, bytes), result: std::ptr::null_mut() };
            // SAFETY: memory for what is said, kept beyond the call; it is refused.
            let refused = unsafe { stage.count(&stream, &there, work, &hits) }.expect_err("too little").to_string();
            assert!(refused.contains("the work space has 64 bytes") || refused.contains("made for 1"), "{refused}");
        }
        // One hit too few.
        let mut flight = InFlight::count(&mut stage, (&mut device, &stream), &batch, 0);
        let (n, status) = flight.result(&mut device, &stream);
        assert_eq!(status, 0);
        flight.write(&mut stage, (&mut device, &stream), n - 1);
        assert_ne!(flight.result(&mut device, &stream), (n, 0));
        device.synchronize(&stream).expect("it went well");
        drop((flight, scratch, offsets, stream, stage, device));
    });
}
