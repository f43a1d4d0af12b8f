//! Modes of a measurement on a GPU: kernels only, as a stage of a sequence, with copies to the
//! device, and with copies to and from it.
//!
//! `device-resident`, `hits-on-device` and `end-to-end` each add one part of the way, so that their
//! differences name the bottleneck. If `hits-on-device` is slower than `device-resident`, the link
//! to the GPU limits; if `end-to-end` is slower still, the way back does, since a hit has 28 bytes
//! and a strip two. `sequence` is what a framework sees: the host waits once per batch for the
//! number of hits.
//!
//! The first pass of a decoder is compared with the reference, bit for bit. Later passes are
//! compared by their number of hits only: copying the hits back for a comparison would be a part of
//! the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Spread;
use super::sample::{Expected, Sample};
use super::timing::{Contents, Job, Variant};
use ut_data::detector::DetectorTables;
use ut_data::input::EventBatch;
use ut_data::named;
use ut_decoders::cuda::{CudaConfig, CudaDecoder, CudaSequenceDecoder, PinnedBatch, ResidentBatch};
use ut_decoders::ptx::Kernel;
use ut_decoders::{DecodeError, DecodeOptions, Decoder, Pipeline};

/// Stretch of the way from raw banks to hits that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Only the kernels: raw banks and hits stay on the device.
    DeviceResident,
    /// As a stage of a trigger sequence, which always runs [`Pipeline::Ranked`]: raw banks and hits
    /// stay on the device, but the host waits for the number of hits, and then gives the memory to
    /// which they are written.
    Sequence,
    /// Raw banks come from pinned memory of the host, hits stay on the device.
    HitsOnDevice,
    /// Raw banks come from pinned memory of the host, hits and reports go back there.
    EndToEnd,
}

named!("mode" Mode: DeviceResident "device-resident", Sequence "sequence", HitsOnDevice "hits-on-device",
    EndToEnd "end-to-end");

impl Mode {
    /// Returns the modes in which a pipeline can run, in the order of [`Mode::ALL`].
    pub const fn of(pipeline: Pipeline) -> &'static [Self] {
        match pipeline {
            Pipeline::Ranked => &Self::ALL,
            Pipeline::Allen => &[Self::DeviceResident, Self::HitsOnDevice, Self::EndToEnd],
        }
    }
}

/// Work for a GPU.
#[derive(Clone, Copy, Debug)]
pub struct OnGpu<'a> {
    /// Events to decode.
    pub sample: &'a Sample,
    /// Tables of the detector.
    pub tables: &'a DetectorTables,
    /// Clustering options.
    pub options: DecodeOptions,
    /// Kernels, launch parameters and GPU.
    pub config: &'a CudaConfig,
    /// Number of streams, each with a batch in flight.
    pub streams: usize,
}

type Resident = Vec<Arc<ResidentBatch>>;

type Pinned = Vec<Arc<PinnedBatch>>;

/// A decoder, and the place of the batches and of their results.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Way {
    Resident(CudaDecoder, Resident),
    Sequence(CudaSequenceDecoder, Resident),
    Leaving(CudaDecoder, Pinned),
    Whole(CudaDecoder, Pinned),
}

/// A decoder with a batch in flight on each of its streams.
struct Streaming {
    way: Way,
    /// Number of hits of a pass. Hits that stay on the device are compared by their number only.
    hits: usize,
}

impl Streaming {
    /// Decodes these batches, and returns the number of hits.
    fn decode(&mut self, batches: impl Iterator<Item = usize>) -> Result<usize, DecodeError> {
        let mut found = 0;
        let mut add = |hits: usize| {
            found += hits;
            Ok(())
        };
        match &mut self.way {
            Way::Resident(to, all) => {
                to.decode_all_and_leave(batches.map(|i| &all[i]), |hits| add(hits.len))
            }
            Way::Sequence(to, all) => to.decode_all(batches.map(|i| &all[i])).and_then(add),
            Way::Leaving(to, all) => {
                to.decode_all_and_leave(batches.map(|i| &all[i]), |hits| add(hits.len))
            }
            Way::Whole(to, all) => to.decode_all(batches.map(|i| &all[i]), |hits| add(hits.len())),
        }?;
        Ok(found)
    }
}

impl Job for Streaming {
    fn batches(&self) -> usize {
        match &self.way {
            Way::Resident(_, all) | Way::Sequence(_, all) => all.len(),
            Way::Leaving(_, all) | Way::Whole(_, all) => all.len(),
        }
    }

    fn batch(&mut self, i: usize) -> Result<(), DecodeError> {
        self.decode(std::iter::once(i)).map(|_| ())
    }

    fn passes(&mut self, n: usize) -> Result<(), DecodeError> {
        let batches = self.batches();
        let (found, expected) = (self.decode((0..n).flat_map(|_| 0..batches))?, n * self.hits);
        if found == expected {
            return Ok(());
        }
        let message =
            format!("{n} passes made {found} hits, but {expected} were expected from the first");
        Err(DecodeError::Device {
            backend: "cuda",
            message,
        })
    }
}

/// Time of the kernels of one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelTime {
    /// Name of the kernel.
    pub kernel: String,
    /// Nanoseconds per event, over all launches of a pass.
    pub ns_per_event: Spread,
    /// Share of the time of all kernels, 0…1, by the medians.
    pub share: f64,
}

/// Returns the number of passes over which kernels are timed in a measurement of `duration`.
pub fn kernel_passes(duration: Duration) -> usize {
    if duration.is_zero() { 1 } else { 10 }
}

impl OnGpu<'_> {
    fn decoder(&self) -> Result<CudaDecoder, DecodeError> {
        CudaDecoder::new(
            self.tables,
            self.options,
            self.config.clone().with_streams(self.streams),
        )
    }

    fn sequence(&self) -> Result<CudaSequenceDecoder, DecodeError> {
        CudaSequenceDecoder::new(
            self.tables,
            self.options,
            &self.config.clone().with_streams(self.streams),
        )
    }

    /// Prepares the measurement of a mode, not warmed up. A first pass is compared with `expected`;
    /// the inner error is the difference.
    pub fn variant(
        &self,
        mode: Mode,
        expected: Option<&Expected>,
    ) -> Result<Result<Variant, String>, DecodeError> {
        match self.contents(mode, expected)? {
            Ok(contents) => self.streaming(mode, contents).map(Ok),
            Err(difference) => Ok(Err(difference)),
        }
    }

    /// Prepares several modes, as [`variant`](Self::variant) does for one.
    pub fn modes(
        &self,
        modes: &[Mode],
        expected: Option<&Expected>,
    ) -> Result<Result<Vec<Variant>, String>, DecodeError> {
        // One decoder has all modes but the sequence.
        let mut contents = Contents::default();
        for &mode in modes
            .iter()
            .filter(|mode| matches!(mode, Mode::Sequence | Mode::EndToEnd))
        {
            match self.contents(mode, expected)? {
                Ok(of_pass) => contents = of_pass,
                Err(difference) => return Ok(Err(difference)),
            }
        }
        modes
            .iter()
            .map(|&mode| self.streaming(mode, contents))
            .collect::<Result<_, _>>()
            .map(Ok)
    }

    /// Decodes a first pass, and returns its contents.
    fn contents(
        &self,
        mode: Mode,
        expected: Option<&Expected>,
    ) -> Result<Result<Contents, String>, DecodeError> {
        let decoder = || -> Result<Box<dyn Decoder>, DecodeError> {
            Ok(if mode == Mode::Sequence {
                Box::new(self.sequence()?)
            } else {
                Box::new(self.decoder()?)
            })
        };
        Ok(
            Variant::checked(self.sample, self.tables, 1, decoder, expected)?
                .map(|variant| variant.contents),
        )
    }

    fn streaming(&self, mode: Mode, contents: Contents) -> Result<Variant, DecodeError> {
        let views = self.sample.batches.iter().map(EventBatch::view);
        let way = match mode {
            Mode::DeviceResident => {
                let mut decoder = self.decoder()?;
                let all = views
                    .map(|batch| decoder.upload(batch))
                    .collect::<Result<_, _>>()?;
                Way::Resident(decoder, all)
            }
            Mode::Sequence => {
                let mut decoder = self.sequence()?;
                let all = views
                    .map(|batch| decoder.upload(batch))
                    .collect::<Result<_, _>>()?;
                Way::Sequence(decoder, all)
            }
            Mode::HitsOnDevice | Mode::EndToEnd => {
                let mut decoder = self.decoder()?;
                let all = views
                    .map(|batch| decoder.pin(batch))
                    .collect::<Result<_, _>>()?;
                if mode == Mode::EndToEnd {
                    Way::Whole(decoder, all)
                } else {
                    Way::Leaving(decoder, all)
                }
            }
        };
        let job = Streaming {
            way,
            hits: contents.hits as usize,
        };
        Ok(Variant::of(vec![Box::new(job)], contents))
    }

    /// Measures the time of each kernel by the device's clock, over `passes` passes with one batch
    /// in flight. One pass before them does not count.
    ///
    /// The streams of a normal measurement overlap kernels of different batches, and the time of a
    /// kernel then depends on what runs next to it. With one batch in flight the times add up, but
    /// their sum can be more than a batch takes with several streams.
    pub fn kernel_times(&self, passes: usize) -> Result<Vec<KernelTime>, DecodeError> {
        let config = self.config.clone().with_streams(1);
        let mut decoder = CudaDecoder::new(self.tables, self.options, config)?;
        let batches = self
            .sample
            .batches
            .iter()
            .map(|batch| decoder.upload(batch.view()));
        let batches = batches.collect::<Result<Vec<_>, _>>()?;
        let pass = |decoder: &mut CudaDecoder| decoder.decode_all_and_leave(&batches, |_| Ok(()));
        pass(&mut decoder)?;
        decoder.time_kernels(true);
        let mut times: BTreeMap<Kernel, Vec<f64>> = BTreeMap::new();
        let events = self.sample.events.max(1) as f64;
        for place in 0..passes {
            pass(&mut decoder)?;
            for (kernel, ms) in decoder.take_times()? {
                let of = times.entry(kernel).or_default();
                of.resize(place + 1, 0.0);
                of[place] += f64::from(ms) * 1e6 / events;
            }
        }
        let spreads: Vec<(Kernel, Spread)> = times
            .into_iter()
            .map(|(kernel, times)| (kernel, Spread::of(&times)))
            .collect();
        let all: f64 = spreads.iter().map(|(_, spread)| spread.median).sum();
        let time = |(kernel, ns_per_event): (Kernel, Spread)| KernelTime {
            kernel: kernel.name().to_owned(),
            ns_per_event,
            share: if all > 0.0 {
                ns_per_event.median / all
            } else {
                0.0
            },
        };
        Ok(spreads.into_iter().map(time).collect())
    }
}
