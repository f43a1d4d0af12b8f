//! How a GPU is measured: its kernels alone, with the copies in, with the copies in and out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Spread;
use super::contest::{Contents, Job, Variant};
use super::sample::{Expected, Sample};
use crate::backend::cuda::{CudaConfig, CudaDecoder, CudaDevice, Resident};
use crate::backend::ptx::Kernel;
use crate::backend::{DecodeError, DecodeOptions};
use crate::detector::DetectorTables;
use crate::input::EventBatch;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Raw banks that lie on the device, hits that stay there: the kernels alone.
    DeviceResident,
    /// Raw banks from the host's memory, hits that stay on the device, as in a sequence of a trigger.
    HitsOnDevice,
    /// Raw banks from the host's memory, hits and reports back to it.
    EndToEnd,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::DeviceResident, Self::HitsOnDevice, Self::EndToEnd];

    /// As in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeviceResident => "device-resident",
            Self::HitsOnDevice => "hits-on-device",
            Self::EndToEnd => "end-to-end",
        }
    }
}

/// What is decoded, and how.
#[derive(Clone, Copy, Debug)]
pub struct OnGpu<'a> {
    /// The events.
    pub sample: &'a Sample,
    /// The detector.
    pub tables: &'a DetectorTables,
    /// Clustering.
    pub options: DecodeOptions,
    /// Which GPU, launch parameters, rung.
    pub config: &'a CudaConfig,
    /// Streams, each with a decoder, buffers and a thread of its own.
    pub streams: usize,
}

/// Hits that stay on the device cannot be compared; their number is, over each pass.
#[derive(Clone, Copy)]
struct Hits {
    found: u64,
    expected: u64,
}

impl Hits {
    fn add(&mut self, i: usize, batches: usize, hits: usize) -> Result<(), DecodeError> {
        self.found = if i == 0 { 0 } else { self.found } + hits as u64;
        if i + 1 < batches || self.found == self.expected {
            return Ok(());
        }
        let Self { found, expected } = *self;
        let message = format!("a pass left {found} hits on the device, where {expected} were read back before");
        Err(DecodeError::Device { backend: "cuda", message })
    }
}

struct KernelsAlone {
    resident: Resident<CudaDevice>,
    hits: Hits,
}

impl Job for KernelsAlone {
    fn batches(&self) -> usize {
        self.resident.batches()
    }

    fn batch(&mut self, i: usize) -> Result<(), DecodeError> {
        let hits = self.resident.decode(i)?.len;
        self.hits.add(i, self.batches(), hits)
    }
}

struct CopiesIn {
    decoder: CudaDecoder,
    batches: Vec<EventBatch>,
    hits: Hits,
}

impl Job for CopiesIn {
    fn batches(&self) -> usize {
        self.batches.len()
    }

    fn batch(&mut self, i: usize) -> Result<(), DecodeError> {
        let hits = self.decoder.decode_and_leave(self.batches[i].view())?.len;
        self.hits.add(i, self.batches(), hits)
    }
}

/// Kernels that a pass launches by the same name, and how long they take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelTime {
    /// The kernel.
    pub kernel: String,
    /// Nanoseconds an event, over all its launches of a pass.
    pub ns_per_event: Spread,
    /// Its share of all kernels' time, 0…1, by the medians.
    pub share: f64,
}

impl OnGpu<'_> {
    fn decoder(&self) -> Result<CudaDecoder, DecodeError> {
        CudaDecoder::new(self.tables, self.options, self.config.clone())
    }

    /// What is measured in a mode, not warmed up. A first pass goes the whole way, and is held against `expected`; the inner
    /// error says what differs.
    ///
    /// # Errors
    /// When the GPU cannot decode the sample.
    pub fn variant(&self, mode: Mode, expected: Option<&Expected>) -> Result<Result<Variant, String>, DecodeError> {
        match self.end_to_end(expected)? {
            Ok(whole) if mode != Mode::EndToEnd => self.part(mode, whole.contents).map(Ok),
            whole => Ok(whole),
        }
    }

    /// All three modes in the order of [`Mode::ALL`], not warmed up; the first pass is held against `expected`.
    ///
    /// # Errors
    /// As [`variant`](Self::variant).
    pub fn modes(&self, expected: Option<&Expected>) -> Result<Result<[Variant; 3], String>, DecodeError> {
        Ok(match self.end_to_end(expected)? {
            Ok(whole) => Ok([
                self.part(Mode::DeviceResident, whole.contents)?,
                self.part(Mode::HitsOnDevice, whole.contents)?,
                whole,
            ]),
            Err(difference) => Err(difference),
        })
    }

    fn end_to_end(&self, expected: Option<&Expected>) -> Result<Result<Variant, String>, DecodeError> {
        let decoder = || Ok(Box::new(self.decoder()?) as _);
        Variant::cold(self.sample, self.tables, self.streams, decoder, expected)
    }

    /// A part of the way. `contents`: of a pass, as it was read back.
    fn part(&self, mode: Mode, contents: Contents) -> Result<Variant, DecodeError> {
        let hits = Hits { found: 0, expected: contents.hits };
        let batches = &self.sample.batches;
        let job = |_| -> Result<Box<dyn Job>, DecodeError> {
            let decoder = self.decoder()?;
            Ok(if mode == Mode::DeviceResident {
                Box::new(KernelsAlone { resident: Resident::new(decoder, batches)?, hits })
            } else {
                Box::new(CopiesIn { decoder, batches: batches.clone(), hits })
            })
        };
        Ok(Variant::of((0..self.streams.max(1)).map(job).collect::<Result<_, _>>()?, contents))
    }

    /// How long each kernel takes, by the device's own clock, over `passes` passes on one stream after a first one that is
    /// not counted.
    ///
    /// # Errors
    /// When the GPU cannot decode the sample.
    pub fn kernel_times(&self, passes: usize) -> Result<Vec<KernelTime>, DecodeError> {
        let mut resident = Resident::new(self.decoder()?, &self.sample.batches)?;
        let pass = |resident: &mut Resident<CudaDevice>| -> Result<(), DecodeError> {
            (0..resident.batches()).try_for_each(|i| resident.decode(i).map(|_| ()))
        };
        pass(&mut resident)?;
        resident.device().time_kernels(true);
        let mut times: BTreeMap<Kernel, Vec<f64>> = BTreeMap::new();
        let events = self.sample.events.max(1) as f64;
        for place in 0..passes {
            pass(&mut resident)?;
            for (kernel, ms) in resident.device().take_times()? {
                let of = times.entry(kernel).or_default();
                of.resize(place + 1, 0.0);
                of[place] += f64::from(ms) * 1e6 / events;
            }
        }
        let spreads: Vec<(Kernel, Spread)> =
            times.into_iter().map(|(kernel, times)| (kernel, Spread::of(&times))).collect();
        let all: f64 = spreads.iter().map(|(_, spread)| spread.median).sum();
        let time = |(kernel, ns_per_event): (Kernel, Spread)| KernelTime {
            kernel: kernel.name().to_owned(),
            ns_per_event,
            share: if all > 0.0 { ns_per_event.median / all } else { 0.0 },
        };
        Ok(spreads.into_iter().map(time).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_with_another_number_of_hits_is_found_out() {
        let mut hits = Hits { found: 0, expected: 7 };
        for _ in 0..2 {
            assert!(hits.add(0, 2, 3).is_ok() && hits.add(1, 2, 4).is_ok());
        }
        assert!(hits.add(0, 2, 3).is_ok());
        let error = hits.add(1, 2, 5).unwrap_err().to_string();
        assert!(error.contains("8 hits") && error.contains('7'), "{error}");
        assert!(Hits { found: 0, expected: 1 }.add(0, 1, 0).is_err());
    }
}
