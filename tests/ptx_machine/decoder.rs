//! The GPU decoder itself, with the machine in place of the GPU: its buffers, arguments and launches are what is tested.

use std::collections::HashMap;
use std::mem::MaybeUninit;

use ut_decoding::backend::cuda::{Argument, Capacity, Device, DeviceDecoder};
use ut_decoding::backend::launch::LaunchParams;
use ut_decoding::backend::plan::Shape;
use ut_decoding::backend::ptx::{Kernel, Unit};
use ut_decoding::{BatchReport, BatchView, DecodeError, DecodeOptions, Decoder, DetectorTables, UtHits};

use crate::ptx_machine::{Launch, Memory, Program};

/// The machine as a device.
#[derive(Default)]
pub struct Machine {
    memory: Memory,
    programs: HashMap<&'static str, Program>,
    turn: u32,
}

impl Device for Machine {
    type Memory = u64;

    fn allocate(&mut self, bytes: usize) -> Result<u64, DecodeError> {
        Ok(self.memory.allocate(bytes))
    }

    fn address(memory: &u64) -> u64 {
        *memory
    }

    unsafe fn write(&mut self, to: &u64, bytes: &[u8]) -> Result<(), DecodeError> {
        self.memory.store(*to, bytes).expect("room for the bytes");
        Ok(())
    }

    unsafe fn read(&mut self, from: &u64, at: usize, bytes: &mut [u8]) -> Result<(), DecodeError> {
        bytes.copy_from_slice(self.memory.fetch(*from + at as u64, bytes.len()).expect("as many bytes"));
        Ok(())
    }

    unsafe fn launch(
        &mut self,
        unit: Unit,
        kernel: Kernel,
        variant: &str,
        shape: Shape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DecodeError> {
        let Shape { grid, block, shared_bytes } = shape;
        let program = self.programs.entry(unit.name).or_insert_with(|| Program::new(unit.text));
        let launch = Launch { grid, block, shared_bytes, turn: self.turn };
        // SAFETY: an argument points to a value of its size that lives as long as it does.
        let bytes = |a: &Argument<'_>| unsafe { copied(a.pointer.cast(), a.size) };
        let arguments: Vec<_> = arguments.iter().map(bytes).collect();
        program.launch(&mut self.memory, &kernel.entry(variant), launch, &arguments);
        Ok(())
    }

    fn synchronize(&mut self) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// The GPU decoder on the machine.
pub struct PtxDecoder(DeviceDecoder<Machine>);

impl PtxDecoder {
    /// Production.
    pub fn new(tables: &DetectorTables, options: DecodeOptions, params: LaunchParams, turn: u32) -> Self {
        Self::on(tables, options, params, turn, None)
    }

    /// A variant of the ladder, for v5 in Allen layout.
    pub fn of_ladder(tables: &DetectorTables, options: DecodeOptions, variant: &str) -> Self {
        Self::on(tables, options, LaunchParams::default(), 0, Some(variant.to_owned()))
    }

    fn on(
        tables: &DetectorTables,
        options: DecodeOptions,
        params: LaunchParams,
        turn: u32,
        rung: Option<String>,
    ) -> Self {
        let machine = Machine { turn, ..Machine::default() };
        let decoder = DeviceDecoder::on("ptx", machine, tables, options, params, Capacity::default(), rung);
        Self(decoder.expect("the machine refuses nothing"))
    }
}

impl Decoder for PtxDecoder {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn decode(&mut self, batch: BatchView<'_>, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError> {
        self.0.decode(batch, hits, report)
    }
}

/// The bytes of an argument as they cross; those of padding are whatever they are.
pub fn bytes_of<T: Copy>(value: &T) -> Vec<u8> {
    // SAFETY: a value of this size.
    unsafe { copied(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// # Safety
/// - `size` bytes can be read from `from`, though not all need be initialised.
unsafe fn copied(from: *const MaybeUninit<u8>, size: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; size];
    // SAFETY:
    // - Both are `size` bytes, the one by the caller's word, and do not overlap.
    // - Copied as bytes that may be uninitialised; the kernels read fields only, never padding.
    unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().cast(), size) };
    bytes
}
