//! The kernels one after the other on a device: buffers, arguments, launches, read-back.
//!
//! No kernel waits for the host: totals stay on the device, where each kernel holds them against the buffers. Only when
//! all have run does the host look at the status word and, should the strips have been more than there was room for
//! (fragments that overlap: no reader makes them), grow the buffers and run again.
//!
//! What a device is, is left to [`Device`], so that this very file is tested without a GPU, on the interpreter of the
//! committed PTX.

use std::ffi::c_void;
use std::marker::PhantomData;

use ut_kernels::bank::layout::Batch;
use ut_kernels::block::{Global, GlobalMut, Plain};
use ut_kernels::cluster_and_predecode::{ClusterInput, ClusterOutput};
use ut_kernels::clustering::ClusterOptions;
use ut_kernels::compress_and_make_keys::GroupRanges;
use ut_kernels::count_hits::CountOutput;
use ut_kernels::decode_in_order::DecodeInput;
use ut_kernels::hit::{Cluster, HitArrays};
use ut_kernels::report::N_COUNTS;
use ut_kernels::status;
use ut_kernels::switches::BatchLayout;
use ut_kernels::tables::Tables;

use crate::backend::launch::LaunchParams;
use crate::backend::plan::{DeviceTables, Plan, Shape, add_meta, cluster_options, too_many_hits};
use crate::backend::ptx::{Kernel, Unit};
use crate::backend::{BatchReport, DecodeError, DecodeOptions, Decoder, UtHits};
use crate::detector::DetectorTables;
use crate::input::{BatchView, Layout};

/// An argument of a kernel: a value that is copied when the kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    /// Where it is.
    pub pointer: *const c_void,
    /// Its bytes, padding included.
    pub size: usize,
    value: PhantomData<&'a ()>,
}

impl<'a> Argument<'a> {
    /// This value.
    pub const fn of<T: Copy>(value: &'a T) -> Self {
        Self { pointer: std::ptr::from_ref(value).cast(), size: size_of::<T>(), value: PhantomData }
    }
}

/// A device with memory of its own, which does what it is told in order.
pub trait Device: Send {
    /// A piece of its memory, aligned to 256 bytes, given back when dropped.
    type Memory: Send;

    /// Some memory; what it holds is not defined.
    ///
    /// # Errors
    /// When there is not enough.
    fn allocate(&mut self, bytes: usize) -> Result<Self::Memory, DecodeError>;

    /// Where it is on the device.
    fn address(memory: &Self::Memory) -> u64;

    /// Copies `bytes` to the beginning of `to`, which has room for them.
    ///
    /// # Safety
    /// - `bytes` stays where and as it is until the next [`synchronize`](Self::synchronize).
    ///
    /// # Errors
    /// What the device said.
    unsafe fn write(&mut self, to: &Self::Memory, bytes: &[u8]) -> Result<(), DecodeError>;

    /// Copies from byte `at` of `from` on, which has as many.
    ///
    /// # Safety
    /// - `bytes` stays where it is, and nobody looks at it, until the next [`synchronize`](Self::synchronize).
    ///
    /// # Errors
    /// What the device said.
    unsafe fn read(&mut self, from: &Self::Memory, at: usize, bytes: &mut [u8]) -> Result<(), DecodeError>;

    /// Launches an entry of a unit.
    ///
    /// # Safety
    /// - The arguments are those of the entry, and keep what `ut_kernels` asks of a launch.
    ///
    /// # Errors
    /// What the device said.
    unsafe fn launch(
        &mut self,
        unit: Unit,
        kernel: Kernel,
        variant: &str,
        shape: Shape,
        arguments: &[Argument<'_>],
    ) -> Result<(), DecodeError>;

    /// Waits until everything is done.
    ///
    /// # Errors
    /// What went wrong since the last time.
    fn synchronize(&mut self) -> Result<(), DecodeError>;

    /// Prepares for a batch: called from the thread that then makes the other calls.
    ///
    /// # Errors
    /// What the device said.
    fn begin(&mut self) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// How much is made room for before the first batch. What is not enough is grown when a batch needs more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Events of a batch.
    pub events: usize,
    /// Bytes of a batch's `raw`.
    pub bytes: usize,
    /// Strips, and so hits, of a batch.
    pub hits: usize,
}

/// Device memory that is grown when more is needed.
struct Buffer<D: Device> {
    memory: Option<D::Memory>,
    bytes: usize,
}

impl<D: Device> Buffer<D> {
    const fn new() -> Self {
        Self { memory: None, bytes: 0 }
    }

    /// Makes it hold `bytes` at least; what it held is lost when it grows. Nothing on the device uses it any more.
    fn reserve(&mut self, device: &mut D, bytes: usize) -> Result<(), DecodeError> {
        let bytes = bytes.max(1).next_multiple_of(256);
        if bytes > self.bytes {
            // First given back: both need not fit.
            self.memory = None;
            self.bytes = 0;
            self.memory = Some(device.allocate(bytes)?);
            self.bytes = bytes;
        }
        Ok(())
    }

    fn filled<T: bytemuck::NoUninit>(device: &mut D, data: &[T]) -> Result<Self, DecodeError> {
        let mut buffer = Self::new();
        buffer.write(device, data)?;
        device.synchronize()?;
        Ok(buffer)
    }

    /// Reserves room, and copies; the caller synchronises before it returns to whoever owns `data`.
    fn write<T: bytemuck::NoUninit>(&mut self, device: &mut D, data: &[T]) -> Result<(), DecodeError> {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        self.reserve(device, bytes.len())?;
        match &self.memory {
            // SAFETY: callers synchronise, whether or not all goes well, before `data` can change.
            Some(memory) if !bytes.is_empty() => unsafe { device.write(memory, bytes) },
            _ => Ok(()),
        }
    }

    /// Copies elements from the `first` on; the caller synchronises before it looks at them.
    fn read<T: bytemuck::Pod>(&self, device: &mut D, first: usize, data: &mut [T]) -> Result<(), DecodeError> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(data);
        match &self.memory {
            // SAFETY: callers synchronise, whether or not all goes well, before anybody looks at `data`.
            Some(memory) if !bytes.is_empty() => unsafe { device.read(memory, first * size_of::<T>(), bytes) },
            _ => Ok(()),
        }
    }

    fn address(&self) -> u64 {
        self.memory.as_ref().map_or(0, D::address)
    }

    /// A view of `len` elements for kernels, which the host never follows.
    fn global<T: Plain>(&self, len: usize) -> Global<'static, T> {
        debug_assert!(len * size_of::<T>() <= self.bytes);
        // SAFETY: device memory of at least this length, which `reserve` saw to; kernels that read through this view do
        // not write there.
        unsafe { Global::new(self.address() as usize as *const T, len as u32) }
    }

    fn global_mut<T: Plain>(&self, len: usize) -> GlobalMut<'static, T> {
        debug_assert!(len * size_of::<T>() <= self.bytes);
        // SAFETY: as for `global`; all accesses of a launch are the kernels'.
        unsafe { GlobalMut::new(self.address() as usize as *mut T, len as u32, 0) }
    }

    /// Part `part` of several arrays of `len` elements in one buffer.
    fn part<T: Plain>(&self, part: usize, len: usize) -> GlobalMut<'static, T> {
        debug_assert!((part + 1) * len * size_of::<T>() <= self.bytes);
        // SAFETY: as for `global_mut`; the parts do not overlap.
        unsafe { GlobalMut::new((self.address() as usize + part * len * size_of::<T>()) as *mut T, len as u32, 0) }
    }
}

/// A batch in device memory.
#[derive(Clone, Copy, Debug)]
pub struct DeviceBatch {
    /// Which of the two layouts.
    pub layout: Layout,
    /// Number of events.
    pub n_events: usize,
    /// Where [`BatchView::raw`] is, which may be any address, and its bytes.
    pub raw: (u64, usize),
    /// Where [`BatchView::offsets`] is, a multiple of 4, and its words.
    pub offsets: (u64, usize),
    /// The same of [`BatchView::sizes`].
    pub sizes: (u64, usize),
    /// The same of [`BatchView::types`].
    pub types: (u64, usize),
    /// The same of [`BatchView::versions`].
    pub versions: Option<(u64, usize)>,
}

impl DeviceBatch {
    fn view(&self) -> Batch<'static> {
        // SAFETY: the host never follows these; whoever made the batch promised that the device can.
        let words = |(address, len): (u64, usize)| unsafe { Global::new(address as usize as *const u32, len as u32) };
        Batch {
            // SAFETY: as above.
            raw: unsafe { Global::new(self.raw.0 as usize as *const u8, self.raw.1 as u32) },
            offsets: words(self.offsets),
            sizes: words(self.sizes),
            types: words(self.types),
            versions: words(self.versions.unwrap_or((self.types.0, 0))),
            has_versions: u32::from(self.versions.is_some()),
        }
    }

    fn most_words(&self) -> usize {
        let words = [self.offsets, self.sizes, self.types, self.versions.unwrap_or_default()];
        words.map(|(_, len)| len).into_iter().max().unwrap_or(0)
    }
}

/// Hits that stay on the device, until the next batch: seven arrays, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceHits {
    /// Hits of the batch.
    pub len: usize,
    /// Address of the first array: `y_begin`, then `y_end`, `z_at_y_eq0`, `x_at_y_eq0`, `dx_dy`, `weight`, `id`.
    pub address: u64,
    /// Distance of the arrays, in elements of four bytes.
    pub stride: usize,
    /// Address of the `n_events * n_groups + 1` ends of groups.
    pub offsets: u64,
    /// Address of the counters, `N_COUNTS` words an event.
    pub report: u64,
}

/// Decodes on a device.
pub struct DeviceDecoder<D: Device> {
    name: &'static str,
    device: D,
    tables: DeviceTables,
    on_device: [Buffer<D>; 6],
    options: ClusterOptions,
    flip_origin: f32,
    params: LaunchParams,
    /// A rung of the ladder in place of production, for v5 in Allen layout.
    rung: Option<String>,
    /// raw, offsets, sizes, types, versions.
    batch: [Buffer<D>; 5],
    work: Work<D>,
    /// Room for strips in the buffers of `work`, in elements.
    strips: usize,
}

/// The work buffers, which only grow.
struct Work<D: Device> {
    strip_counts: Buffer<D>,
    strip_offsets: Buffer<D>,
    cluster_counts: Buffer<D>,
    hit_offsets: Buffer<D>,
    tile_totals: Buffer<D>,
    items: Buffer<D>,
    n_items: Buffer<D>,
    report: Buffer<D>,
    status: Buffer<D>,
    clusters: Buffer<D>,
    keys: Buffer<D>,
    permutation: Buffer<D>,
    scratch: Buffer<D>,
    hits: Buffer<D>,
}

/// Arrays of hits.
const N_ARRAYS: usize = 7;

impl<D: Device> Work<D> {
    const fn new() -> Self {
        Self {
            strip_counts: Buffer::new(),
            strip_offsets: Buffer::new(),
            cluster_counts: Buffer::new(),
            hit_offsets: Buffer::new(),
            tile_totals: Buffer::new(),
            items: Buffer::new(),
            n_items: Buffer::new(),
            report: Buffer::new(),
            status: Buffer::new(),
            clusters: Buffer::new(),
            keys: Buffer::new(),
            permutation: Buffer::new(),
            scratch: Buffer::new(),
            hits: Buffer::new(),
        }
    }

    fn reserve_events(&mut self, device: &mut D, plan: &Plan) -> Result<(), DecodeError> {
        let (counters, events) = (plan.counters as usize, plan.events as usize);
        let words = size_of::<u32>();
        self.strip_counts.reserve(device, counters * words)?;
        self.strip_offsets.reserve(device, (counters + 1) * words)?;
        self.cluster_counts.reserve(device, counters * words)?;
        self.hit_offsets.reserve(device, (counters + 1) * words)?;
        self.tile_totals.reserve(device, plan.tiles() as usize * words)?;
        self.items.reserve(device, plan.items * size_of::<u64>())?;
        self.n_items.reserve(device, events * words)?;
        self.report.reserve(device, events * N_COUNTS * words)?;
        self.status.reserve(device, words)
    }

    fn reserve_strips(&mut self, device: &mut D, strips: usize) -> Result<(), DecodeError> {
        self.clusters.reserve(device, strips * size_of::<Cluster>())?;
        self.keys.reserve(device, strips * size_of::<u64>())?;
        self.permutation.reserve(device, strips * size_of::<u32>())?;
        self.scratch.reserve(device, strips * size_of::<u32>())?;
        self.hits.reserve(device, N_ARRAYS * strips * size_of::<u32>())
    }
}

impl<D: Device> DeviceDecoder<D> {
    /// A decoder on `device`, called `name`, with room for `capacity`. `rung`: a variant of [`Unit::LADDER`] to be
    /// launched in place of production on v5 batches in Allen layout.
    ///
    /// # Errors
    /// When the launch parameters contradict each other, the tables are too large, or the device refuses.
    pub fn on(
        name: &'static str,
        mut device: D,
        tables: &DetectorTables,
        options: DecodeOptions,
        params: LaunchParams,
        capacity: Capacity,
        rung: Option<String>,
    ) -> Result<Self, DecodeError> {
        let failure = |message| DecodeError::Device { backend: name, message };
        params.validate().map_err(|error| failure(error.to_string()))?;
        let tables = DeviceTables::new(name, tables)?;
        tables.check_size(name, capacity.events, capacity.bytes, 0)?;
        device.begin()?;
        let on_device = [
            Buffer::filled(&mut device, &tables.slots)?,
            Buffer::filled(&mut device, &tables.board_lanes)?,
            Buffer::filled(&mut device, &tables.groups)?,
            Buffer::filled(&mut device, &tables.sectors)?,
            Buffer::filled(&mut device, &tables.strips_per_hybrid)?,
            Buffer::filled(&mut device, &tables.layer_groups)?,
        ];
        let mut decoder = Self {
            name,
            device,
            tables,
            on_device,
            options: cluster_options(&options),
            flip_origin: options.flip.origin(),
            params,
            rung,
            batch: [const { Buffer::new() }; 5],
            work: Work::new(),
            strips: 0,
        };
        if capacity != Capacity::default() {
            let plan = Plan::new(&decoder.tables, params, capacity.events.max(1));
            decoder.work.reserve_events(&mut decoder.device, &plan)?;
            decoder.batch[0].reserve(&mut decoder.device, capacity.bytes)?;
            decoder.reserve_strips(capacity.hits)?;
        }
        Ok(decoder)
    }

    /// The device.
    pub const fn device(&mut self) -> &mut D {
        &mut self.device
    }

    fn failure(&self, message: String) -> DecodeError {
        DecodeError::Device { backend: self.name, message }
    }

    fn reserve_strips(&mut self, strips: usize) -> Result<(), DecodeError> {
        if strips > self.strips {
            self.strips = 0;
            self.work.reserve_strips(&mut self.device, strips)?;
            self.strips = strips;
        }
        Ok(())
    }

    fn device_tables(&self) -> Tables<'static> {
        let [slots, board_lanes, groups, sectors, strips_per_hybrid, layer_groups] = &self.on_device;
        let tables = &self.tables;
        Tables {
            slots: slots.global(tables.slots.len()),
            board_lanes: board_lanes.global(tables.board_lanes.len()),
            groups: groups.global(tables.groups.len()),
            sectors: sectors.global(tables.sectors.len()),
            strips_per_hybrid: strips_per_hybrid.global(tables.strips_per_hybrid.len()),
            layer_groups: layer_groups.global(tables.layer_groups.len()),
            n_groups: tables.n_groups,
        }
    }

    /// Unit and variant for a layout.
    fn variant(&self, layout: Layout) -> (Unit, String) {
        if let (Layout::Allen, Some(rung)) = (layout, &self.rung) {
            return (Unit::LADDER, rung.clone());
        }
        let layout = match layout {
            Layout::Allen => BatchLayout::Allen,
            Layout::Mep => BatchLayout::Mep,
        };
        let unit = Unit::production(self.tables.version, layout);
        (unit, unit.name.to_owned())
    }

    fn prefix_sum(
        &mut self,
        plan: &Plan,
        (unit, variant): (Unit, &str),
        counts: Global<'_, u32>,
        offsets: GlobalMut<'_, u32>,
    ) -> Result<(), DecodeError> {
        let tiles = plan.tiles() as usize;
        let (totals_mut, totals) =
            (self.work.tile_totals.global_mut::<u32>(tiles), self.work.tile_totals.global(tiles));
        let totals: Global<'_, u32> = totals;
        let kernel = Kernel::PrefixSumTiles;
        let arguments = [Argument::of(&counts), Argument::of(&offsets), Argument::of(&totals_mut)];
        // SAFETY: the arguments of `prefix_sum_tiles`, on buffers that `reserve_events` made for this plan.
        unsafe { self.device.launch(unit, kernel, variant, plan.shape(kernel), &arguments) }?;
        let kernel = Kernel::PrefixSumOffsets;
        let arguments = [Argument::of(&plan.counters), Argument::of(&totals), Argument::of(&offsets)];
        // SAFETY: the arguments of `prefix_sum_offsets`, on the same buffers.
        unsafe { self.device.launch(unit, kernel, variant, plan.shape(kernel), &arguments) }
    }

    /// All kernels, without waiting for any.
    fn launch_all(&mut self, plan: &Plan, batch: &DeviceBatch) -> Result<(), DecodeError> {
        let (unit, variant) = self.variant(batch.layout);
        let variant = variant.as_str();
        let tables = self.device_tables();
        let (counters, events) = (plan.counters as usize, plan.events as usize);
        let (raw_batch, strips) = (batch.view(), self.strips);
        let (options, flip_origin, run) = (self.options, self.flip_origin, self.params.sort_run());
        self.work.status.write(&mut self.device, &[0u32])?;

        let work = &self.work;
        let output = CountOutput {
            strip_counts: work.strip_counts.global_mut(counters),
            items: work.items.global_mut(plan.items),
            n_items: work.n_items.global_mut(events),
            report: work.report.global_mut(events * N_COUNTS),
        };
        let bins8 = unit.bins8();
        let count_variant = if self.rung.is_none() && self.params.count_bins() == 8 { &bins8 } else { variant };
        let arguments = [Argument::of(&raw_batch), Argument::of(&tables), Argument::of(&output)];
        let shape = |kernel| plan.shape(kernel);
        let kernel = Kernel::CountHits;
        // SAFETY: the entry's arguments, as `ut_kernels::nvptx::entries` has them, on buffers of the plan's sizes.
        unsafe { self.device.launch(unit, kernel, count_variant, shape(kernel), &arguments) }?;
        let offsets = work.strip_offsets.global_mut(counters + 1);
        let counts = work.strip_counts.global(counters);
        self.prefix_sum(plan, (unit, variant), counts, offsets)?;

        let work = &self.work;
        let input = ClusterInput {
            raw: raw_batch.raw,
            items: work.items.global(plan.items),
            n_items: work.n_items.global(events),
            strip_offsets: work.strip_offsets.global(counters + 1),
        };
        let output = ClusterOutput {
            clusters: work.clusters.global_mut(strips),
            cluster_counts: work.cluster_counts.global_mut(counters),
            report: work.report.global_mut(events * N_COUNTS),
            status: work.status.global_mut(1),
        };
        let arguments = [Argument::of(&options), Argument::of(&input), Argument::of(&tables), Argument::of(&output)];
        let kernel = Kernel::ClusterAndPredecode;
        // SAFETY: as above; the kernel itself holds the strips against `clusters`.
        unsafe { self.device.launch(unit, kernel, variant, shape(kernel), &arguments) }?;
        let offsets = work.hit_offsets.global_mut(counters + 1);
        let counts = work.cluster_counts.global(counters);
        self.prefix_sum(plan, (unit, variant), counts, offsets)?;

        let work = &self.work;
        let ranges = GroupRanges {
            strip_offsets: work.strip_offsets.global(counters + 1),
            hit_offsets: work.hit_offsets.global(counters + 1),
            clusters: work.clusters.global(strips),
        };
        let keys = work.keys.global_mut::<u64>(strips);
        let arguments = [Argument::of(&flip_origin), Argument::of(&ranges), Argument::of(&tables), Argument::of(&keys)];
        let kernel = Kernel::CompressAndMakeKeys;
        // SAFETY: as above.
        unsafe { self.device.launch(unit, kernel, variant, shape(kernel), &arguments) }?;

        let keys = work.keys.global::<u64>(strips);
        let (permutation, scratch) =
            (work.permutation.global_mut::<u32>(strips), work.scratch.global_mut::<u32>(strips));
        let arguments = [
            Argument::of(&flip_origin),
            Argument::of(&run),
            Argument::of(&ranges),
            Argument::of(&tables),
            Argument::of(&keys),
            Argument::of(&permutation),
            Argument::of(&scratch),
        ];
        let kernel = Kernel::FindPermutation;
        // SAFETY: as above.
        unsafe { self.device.launch(unit, kernel, variant, shape(kernel), &arguments) }?;

        let input = DecodeInput {
            hit_offsets: work.hit_offsets.global(counters + 1),
            permutation: work.permutation.global(strips),
            clusters: work.clusters.global(strips),
        };
        let output = HitArrays {
            y_begin: work.hits.part(0, strips),
            y_end: work.hits.part(1, strips),
            z_at_y_eq0: work.hits.part(2, strips),
            x_at_y_eq0: work.hits.part(3, strips),
            dx_dy: work.hits.part(4, strips),
            weight: work.hits.part(5, strips),
            id: work.hits.part(6, strips),
        };
        let status = work.status.global_mut::<u32>(1);
        let arguments = [
            Argument::of(&flip_origin),
            Argument::of(&input),
            Argument::of(&tables),
            Argument::of(&output),
            Argument::of(&status),
        ];
        let kernel = Kernel::DecodeInOrder;
        // SAFETY: as above; hits are never more than strips.
        unsafe { self.device.launch(unit, kernel, variant, shape(kernel), &arguments) }
    }

    /// Decodes a batch that lies on the device, and leaves the hits there.
    ///
    /// # Safety
    /// - The addresses of `batch` are of this device's memory, and readable for as many elements as it says.
    /// - Nobody writes there meanwhile.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub unsafe fn decode_resident(&mut self, batch: &DeviceBatch) -> Result<DeviceHits, DecodeError> {
        self.device.begin()?;
        let done = self.run(batch);
        // Whatever happened, nothing is under way when this returns.
        let waited = self.device.synchronize();
        done.and_then(|hits| waited.map(|()| hits))
    }

    fn run(&mut self, batch: &DeviceBatch) -> Result<DeviceHits, DecodeError> {
        self.tables.check_size(self.name, batch.n_events, batch.raw.1, batch.most_words())?;
        if batch.n_events == 0 {
            return Ok(DeviceHits { len: 0, address: 0, stride: 0, offsets: 0, report: 0 });
        }
        let plan = Plan::new(&self.tables, self.params, batch.n_events);
        self.work.reserve_events(&mut self.device, &plan)?;
        // Two bytes a strip: enough for every batch that a reader makes.
        self.reserve_strips(batch.raw.1 / 2)?;
        let last = plan.counters as usize;
        loop {
            self.launch_all(&plan, batch)?;
            let (mut found, mut strips, mut hits) = ([0u32], [0u32], [0u32]);
            let read = (|| {
                self.work.status.read(&mut self.device, 0, &mut found)?;
                self.work.strip_offsets.read(&mut self.device, last, &mut strips)?;
                self.work.hit_offsets.read(&mut self.device, last, &mut hits)
            })();
            let waited = self.device.synchronize();
            read.and(waited)?;
            let ([found], [strips], [hits]) = (found, strips, hits);
            if strips == u32::MAX {
                return Err(self.failure("the batch has more strips than 32 bits can count".to_owned()));
            }
            if found & status::STRIPS_OVERFLOW != 0 && strips as usize > self.strips {
                self.reserve_strips(strips as usize)?;
                continue;
            }
            if found != 0 || hits > strips {
                return Err(self.failure(format!(
                    "the device reports status {found} with {strips} strips and {hits} hits, which cannot be"
                )));
            }
            return Ok(DeviceHits {
                len: hits as usize,
                address: self.work.hits.address(),
                stride: self.strips,
                offsets: self.work.hit_offsets.address(),
                report: self.work.report.address(),
            });
        }
    }

    /// Copies a batch to the device, where it stays until the next one is. Returns when it is there.
    ///
    /// # Errors
    /// When it is too large, or what the device said.
    pub fn upload(&mut self, batch: BatchView<'_>) -> Result<DeviceBatch, DecodeError> {
        let versions = batch.versions.unwrap_or(&[]);
        let words = [batch.offsets, batch.sizes, batch.types, versions];
        let most_words = words.map(<[u32]>::len).into_iter().max().unwrap_or(0);
        self.tables.check_size(self.name, batch.n_events, batch.raw.len(), most_words)?;
        self.device.begin()?;
        let [raw, buffers @ ..] = &mut self.batch;
        let device = &mut self.device;
        let written = raw
            .write(device, batch.raw)
            .and_then(|()| buffers.iter_mut().zip(words).try_for_each(|(to, words)| to.write(device, words)));
        let waited = self.device.synchronize();
        written.and(waited)?;
        let place = |i: usize, len| (self.batch[i].address(), len);
        Ok(DeviceBatch {
            layout: batch.layout,
            n_events: batch.n_events,
            raw: place(0, batch.raw.len()),
            offsets: place(1, batch.offsets.len()),
            sizes: place(2, batch.sizes.len()),
            types: place(3, batch.types.len()),
            versions: batch.versions.map(|versions| place(4, versions.len())),
        })
    }
}

impl<D: Device> Decoder for DeviceDecoder<D> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decode(&mut self, batch: BatchView<'_>, hits: &mut UtHits, report: &mut BatchReport) -> Result<(), DecodeError> {
        let n_groups = self.tables.n_groups as usize;
        let on_device = self.upload(batch)?;
        let arrays = hits.begin(batch.n_events, n_groups)?;
        report.reset(batch.n_events);
        if batch.n_events == 0 {
            return Ok(());
        }
        // SAFETY: `upload` put the batch into buffers of this decoder.
        let found = unsafe { self.decode_resident(&on_device) }?;
        let capacity = arrays.id.len();
        let n = found.len.min(capacity);
        let device = &mut self.device;
        let (work, strips) = (&self.work, self.strips);
        let floats = [arrays.y_begin, arrays.y_end, arrays.z_at_y_eq0, arrays.x_at_y_eq0, arrays.dx_dy, arrays.weight];
        let counters: &mut [u32] = bytemuck::cast_slice_mut(&mut report.events);
        let offsets: &mut [u32] = arrays.offsets;
        let read = (|| {
            work.hit_offsets.read(device, 0, offsets)?;
            work.report.read(device, 0, counters)?;
            for (part, array) in floats.into_iter().enumerate() {
                work.hits.read(device, part * strips, &mut array[..n])?;
            }
            work.hits.read(device, (N_ARRAYS - 1) * strips, &mut arrays.id[..n])
        })();
        let waited = self.device.synchronize();
        read.and(waited)?;
        if found.len > capacity {
            return Err(too_many_hits(offsets, n_groups, capacity));
        }
        for (event, counts) in report.events.iter_mut().enumerate() {
            add_meta(&batch, event, counts);
        }
        Ok(())
    }
}
