//! Parameters that change how fast hits are decoded and never which hits, by name: `place.name`,
//! such as `cpu.simd` or `cluster.block_x`; those without a place say how a decoder is fed. All can
//! be set from outside (`--set cluster.block_x=64`) and found by the tuner; nothing about a launch
//! is hard-wired elsewhere.
//!
//! Each parameter is one entry of the table below. The entry makes the name, the limits, the
//! default, the text for users, the values that the tuner tries, and the method that reads it. The
//! order of the table has a meaning: a backend's parameters are a range of it, from the vector
//! instructions of the CPU over the kernels and the GPU to the ways of feeding a decoder. An entry
//! in the wrong place gives a parameter to the wrong backend.

use simt::WARP_SIZE;
use ut_kernels::ranked::sort_groups::MAX_WARPS;

use super::cpu::Simd;
use super::{Backend, Pipeline};
use ut_data::error::ErrorKind;
use ut_data::input::Layout;

/// Maximum number of threads in a block on any device. CUDA has had this limit since compute
/// capability 2.0.
const MAX_THREADS: u32 = 1024;

/// A parameter. Its values are numbers, some of which have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// `place.name`.
    pub name: &'static str,
    /// Meaning, unit and special values, in words for users.
    pub about: &'static str,
    /// Smallest valid value.
    pub min: u32,
    /// Largest valid value.
    pub max: u32,
    /// Valid values are multiples of this.
    pub step: u32,
    /// Value in `Parameters::default`.
    pub default: u32,
    /// Values worth trying.
    pub candidates: &'static [u32],
    /// Names of the values 0, 1, …; empty if the values are plain numbers.
    pub words: &'static [&'static str],
}

/// Maximum number of threads in a block of `sort_groups`: its shared memory has room for
/// [`MAX_WARPS`] warps.
const MAX_SORT_THREADS: u32 = MAX_WARPS * WARP_SIZE;

/// Numbers of threads that a tuner tries for kernels whose blocks are a row of warps.
const BLOCKS: &[u32] = &[32, 64, 96, 128, 192, 256, 384, 512, 768, 1024];

/// Type that a parameter's values have in the program. The command line, the tuner and the store
/// know only their numbers and words.
trait ParameterValue {
    /// Names of the values 0, 1, …; empty if the values are plain numbers.
    const WORDS: &'static [&'static str] = &[];

    /// Makes the value that a valid number stands for.
    fn of(number: u32) -> Self;
}

impl ParameterValue for u32 {
    fn of(number: u32) -> Self {
        number
    }
}

impl ParameterValue for Simd {
    const WORDS: &'static [&'static str] = &Self::NAMES;

    fn of(number: u32) -> Self {
        Self::ALL[number as usize]
    }
}

impl ParameterValue for Pipeline {
    const WORDS: &'static [&'static str] = &Self::NAMES;

    fn of(number: u32) -> Self {
        Self::ALL[number as usize]
    }
}

impl ParameterValue for Layout {
    const WORDS: &'static [&'static str] = &["allen", "mep"];

    fn of(number: u32) -> Self {
        [Self::Allen, Self::Mep][number as usize]
    }
}

impl ParameterValue for CarveOut {
    fn of(number: u32) -> Self {
        match number {
            0 => Self::Needed,
            1 => Self::Unset,
            percent => Self::Percent(percent as u8),
        }
    }
}

/// Returns the name of a layout in parameters and outputs.
pub const fn layout_name(layout: Layout) -> &'static str {
    <Layout as ParameterValue>::WORDS[layout as usize]
}

/// Makes the table of parameters, and a method of [`Parameters`] that reads each: method, type of
/// the values, name, smallest and largest value, step, default, values worth trying, meaning.
macro_rules! parameters {
    ($($vis:vis $get:ident: $type:ident $name:literal, $min:expr, $max:expr, $step:expr, $default:expr, $candidates:expr, $about:literal;)*) => {
        #[allow(non_camel_case_types, reason = "names of methods")]
        #[derive(Clone, Copy)]
        enum Place { $($get),* }

        static ALL: [Parameter; [$($name),*].len()] = [$(Parameter {
            name: $name, about: $about, min: $min, max: $max, step: $step, default: $default, candidates: $candidates,
            words: <$type as ParameterValue>::WORDS,
        }),*];

        impl Parameters {
            $(#[doc = concat!("Returns `", $name, "`: ", $about, ".")]
            $vis fn $get(&self) -> $type {
                ParameterValue::of(self.values[Place::$get as usize])
            })*
        }
    };
}

parameters! {
    // Of the CPU decoder.
    pub simd: Simd "cpu.simd", 0, 3, 1, 0, &[0, 1, 2, 3],
        "vector instructions: auto (the widest there are), scalar, avx2 or avx512";
    // Of the kernels, in the order in which they run.
    pub count_block_x: u32 "count.block_x", WARP_SIZE, MAX_THREADS, WARP_SIZE, 128, BLOCKS, "threads of a block";
    pub count_bins: u32 "count.bins", 8, 16, 8, 16, &[8, 16], "size classes of the lane list";
    pub scan_block_x: u32 "scan.block_x", WARP_SIZE, MAX_THREADS, WARP_SIZE, 256, BLOCKS, "threads of a block";
    cluster_block_x: u32 "cluster.block_x", 1, MAX_THREADS, 1, 32, &[32, 64, 128, 256],
        "threads of a block in x; x times y is a multiple of 32 and at most 1024";
    cluster_block_y: u32 "cluster.block_y", 1, MAX_THREADS, 1, 4, &[1, 2, 3, 4, 6, 8], "threads of a block in y";
    pub compress_block_x: u32 "compress.block_x", WARP_SIZE, MAX_THREADS, WARP_SIZE, 128, BLOCKS, "threads of a block";
    pub sort_block_x: u32 "sort.block_x", WARP_SIZE, MAX_THREADS, WARP_SIZE, 128, BLOCKS, "threads of a block";
    pub sort_run: u32 "sort.run", WARP_SIZE, 4096, WARP_SIZE, 128, &[32, 64, 96, 128, 256, 512],
        "hits up to which a group is sorted by counting; longer ones are merged from runs of 32";
    pub decode_block_x: u32 "decode.block_x", WARP_SIZE, MAX_THREADS, WARP_SIZE, 128, BLOCKS, "threads of a block";
    pub sort_groups_block_x: u32 "ranked.sort_block_x", WARP_SIZE, MAX_SORT_THREADS, WARP_SIZE, MAX_SORT_THREADS, &[64, 128, 256],
        "threads of a block that sorts groups in which lanes overlap";
    pub sort_groups_grid: u32 "ranked.sort_grid", 0, 64, 1, 0, &[0, 2, 4, 8],
        "blocks per multiprocessor that sort such groups; 0: as many as fit";
    pub unusual_grid: u32 "ranked.unusual_grid", 0, 64, 1, 0, &[0, 1, 4],
        "blocks per multiprocessor that decode unusual events; 0: as many as fit";
    pub make_hits_grid: u32 "ranked.make_hits_grid", 0, 64, 1, 0, &[0, 2, 4, 8, 16],
        "blocks per multiprocessor that make hits of records; 0: as many as fit";
    // Of a GPU. Registers are given out in units of 256 for a warp, hence multiples of 8; a thread
    // has at most 255.
    pub registers: u32 "cuda.registers", 0, 248, 8, 0, &[0, 32, 40, 48, 56, 64],
        "maximum number of registers per thread in all kernels but cluster_unusual; 0: no limit";
    pub carve_out: CarveOut "ranked.carve_out", 0, 100, 1, 0, &[0, 1, 58, 72, 100],
        "share of shared memory that cluster and sort_groups ask for, %, the rest being L1 cache; \
         0: what their resident blocks need; 1: what the driver chooses";
    // How a decoder is fed.
    pub batch: u32 "batch", 1, 1 << 20, 1, 256, &[32, 64, 128, 256, 512, 1024, 2048, 4096], "events of a batch";
    pub layout: Layout "layout", 0, 1, 1, 0, &[0, 1], "layout of a batch: allen (event by event) or mep (bank by bank)";
    pub threads: u32 "threads", 0, 1024, 1, 1, &[1, 2, 4, 8, 16, 32, 64],
        "threads, each with its own decoder; 0: one per core";
    streams: u32 "streams", 1, 64, 1, 3, &[1, 2, 3, 4, 6, 8],
        "streams, each with its own buffers, so that copies and kernels of several batches overlap";
    pub pipeline: Pipeline "pipeline", 0, 1, 1, 0, &[0, 1], "kernels: ranked (five) or allen (seven)";
}

impl Parameter {
    /// Returns true if the parameter can have this value.
    pub const fn is_valid(&self, value: u32) -> bool {
        self.min <= value && value <= self.max && value.is_multiple_of(self.step)
    }

    /// Writes a value as [`parse`](Self::parse) reads it.
    pub fn text(&self, value: u32) -> String {
        self.words
            .get(value as usize)
            .map_or_else(|| value.to_string(), |word| (*word).to_owned())
    }

    /// Reads a value, which may be a word (`avx2`).
    pub fn parse(&self, text: &str) -> Result<u32, ParameterError> {
        let word = self.words.iter().position(|word| *word == text);
        let number = word.map_or_else(|| text.parse().ok(), |word| Some(word as u32));
        if self.name == "pipeline" && text == Pipeline::REPLACED {
            return Err(ParameterError::Other(format!(
                "pipeline = {text}: {} has replaced it",
                Pipeline::Ranked
            )));
        }
        number
            .filter(|&value| self.is_valid(value))
            .ok_or_else(|| self.refused(&text))
    }

    /// Makes the error that the parameter cannot have this value.
    pub fn refused(&self, value: &dyn std::fmt::Display) -> ParameterError {
        let Self {
            name,
            min,
            max,
            step,
            words,
            ..
        } = *self;
        let valid = match step {
            _ if !words.is_empty() => format!("one of {}", words.join(", ")),
            1 => format!("from {min} to {max}"),
            _ => format!("a multiple of {step} from {min} to {max}"),
        };
        ParameterError::Other(format!("{name} = {value}: must be {valid}"))
    }
}

/// Reason that a parameter is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
#[non_exhaustive]
pub enum ParameterError {
    #[error("{of} has no parameter called {name:?}; {}", in_words(known))]
    Unknown {
        of: &'static str,
        name: String,
        known: Vec<&'static str>,
    },
    #[error("{0}")]
    Other(String),
}

impl ParameterError {
    /// Returns the kind: [`ErrorKind::Request`].
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Request
    }
}

fn in_words(known: &[&str]) -> String {
    if known.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", known.join(", "))
    }
}

/// Launch parameters of the kernels, in the order in which they run.
pub fn launch_parameters() -> &'static [Parameter] {
    &ALL[Place::count_block_x as usize..Place::registers as usize]
}

impl Backend {
    /// Returns the parameters that decoders of this backend use.
    pub fn parameters(self) -> &'static [Parameter] {
        match self {
            Self::Reference => &[],
            Self::Cpu => &ALL[..Place::count_block_x as usize],
            Self::Emulated => launch_parameters(),
            Self::Cuda => &ALL[Place::count_block_x as usize..Place::batch as usize],
        }
    }

    /// Returns everything that a measurement may vary: [`Self::parameters`], and the parameters
    /// that say how batches reach the decoders.
    pub fn all_parameters(self) -> impl Iterator<Item = &'static Parameter> {
        let decoders = match self {
            Self::Reference | Self::Cpu => Some(Place::threads),
            Self::Cuda => Some(Place::streams),
            Self::Emulated => None,
        };
        let kernels = self.runs_kernels().then_some(Place::pipeline);
        let feeding = [Some(Place::batch), Some(Place::layout), decoders, kernels];
        self.parameters().iter().chain(
            feeding
                .into_iter()
                .flatten()
                .map(|place| &ALL[place as usize]),
        )
    }

    /// Finds one of [`all_parameters`](Self::all_parameters). The part before the dot may be left
    /// out if it is clear: `simd` is `cpu.simd`.
    pub fn parameter(self, name: &str) -> Result<&'static Parameter, ParameterError> {
        find(
            self.name(),
            &self.all_parameters().collect::<Vec<_>>(),
            name,
        )
    }
}

fn find(
    of: &'static str,
    all: &[&'static Parameter],
    name: &str,
) -> Result<&'static Parameter, ParameterError> {
    if name
        .split_once('.')
        .is_some_and(|(place, _)| place == Pipeline::REPLACED)
    {
        let successor = Pipeline::Ranked;
        return Err(ParameterError::Other(format!(
            "{name}: {successor} has replaced the pipeline fused; its parameters begin with {successor}."
        )));
    }
    let rest = |parameter: &&&Parameter| {
        parameter
            .name
            .split_once('.')
            .is_some_and(|(_, rest)| rest == name)
    };
    let mut short = all.iter().filter(rest);
    let exact = all.iter().find(|parameter| parameter.name == name);
    let found = exact.or_else(|| short.next().filter(|_| short.next().is_none()));
    let known = || all.iter().map(|parameter| parameter.name).collect();
    found.copied().ok_or_else(|| ParameterError::Unknown {
        of,
        name: name.to_owned(),
        known: known(),
    })
}

/// Division of a multiprocessor's memory into shared memory and L1 cache while `cluster` or
/// `sort_groups` runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CarveOut {
    /// As much shared memory as the resident blocks need.
    #[default]
    Needed,
    /// The driver's choice.
    Unset,
    /// Percentage of shared memory, 2 to 100.
    Percent(u8),
}

/// Values of all parameters. A backend reads only the parameters that it has.
///
/// ```
/// use ut_decoders::cpu::Simd;
/// use ut_decoders::{Backend, Parameters};
///
/// let parameters = Parameters::default().with(Backend::Cpu, "batch=512,cpu.simd=scalar")?;
/// assert_eq!((parameters.batch(), parameters.simd()), (512, Simd::Scalar));
/// assert_eq!(parameters.text(["batch", "cpu.simd"]), "batch=512,cpu.simd=scalar");
///
/// let error = parameters.with(Backend::Cpu, "batch=0").unwrap_err();
/// assert!(error.to_string().contains("from 1 to"), "{error}");
/// # Ok::<(), ut_decoders::ParameterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameters {
    values: [u32; ALL.len()],
}

impl Default for Parameters {
    /// Returns the defaults: one decoder; on a GPU three streams.
    fn default() -> Self {
        Self {
            values: std::array::from_fn(|place| ALL[place].default),
        }
    }
}

impl Parameters {
    /// Returns the shape in threads, x and y, of a block of `cluster_and_predecode`.
    pub fn cluster_block(&self) -> (u32, u32) {
        (self.cluster_block_x(), self.cluster_block_y())
    }

    /// Returns the number of decoders, each on its own thread; on a GPU, the number of streams of
    /// one decoder.
    pub fn decoders(&self, backend: Backend) -> usize {
        match backend {
            Backend::Reference | Backend::Cpu if self.threads() == 0 => cores(),
            Backend::Reference | Backend::Cpu => self.threads() as usize,
            Backend::Cuda => self.streams() as usize,
            Backend::Emulated => 1,
        }
    }

    const fn put(mut self, place: Place, value: u32) -> Self {
        self.values[place as usize] = value;
        self
    }

    /// Sets the kernels.
    #[must_use]
    pub const fn with_pipeline(self, pipeline: Pipeline) -> Self {
        self.put(Place::pipeline, pipeline as u32)
    }

    /// Sets the events of a batch and its layout.
    #[must_use]
    pub const fn with_batches(self, events: usize, layout: Layout) -> Self {
        self.put(Place::batch, events as u32)
            .put(Place::layout, layout as u32)
    }

    /// Sets the number of decoders, 0 for one per core.
    #[must_use]
    pub const fn with_threads(self, n: usize) -> Self {
        self.put(Place::threads, n as u32)
    }

    /// Sets the number of decoders, and of streams of a decoder on a GPU.
    #[must_use]
    pub const fn with_decoders(self, n: usize) -> Self {
        self.with_threads(n).put(Place::streams, n as u32)
    }

    /// Takes launches and registers from `tuned`; threads, vector instructions, kernels and batches
    /// stay.
    #[must_use]
    pub fn tuned(mut self, tuned: &Self) -> Self {
        let of_kernels = Place::count_block_x as usize..Place::batch as usize;
        self.values[of_kernels.clone()].copy_from_slice(&tuned.values[of_kernels]);
        self
    }

    /// Returns the value of a parameter by its full name; 0 if it does not exist.
    pub fn get(&self, name: &str) -> u32 {
        ALL.iter()
            .zip(self.values)
            .find(|(parameter, _)| parameter.name == name)
            .map_or(0, |(_, value)| value)
    }

    /// Sets a parameter. [`validate`](Self::validate) checks those that depend on each other.
    pub fn put_value(&mut self, parameter: &Parameter, value: u32) -> Result<(), ParameterError> {
        if !parameter.is_valid(value) {
            return Err(parameter.refused(&value));
        }
        for (_, place) in ALL
            .iter()
            .zip(&mut self.values)
            .filter(|(other, _)| other.name == parameter.name)
        {
            *place = value;
        }
        Ok(())
    }

    /// Sets a launch parameter of the kernels.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), ParameterError> {
        self.put_value(
            find(
                "the set of kernels",
                &launch_parameters().iter().collect::<Vec<_>>(),
                name,
            )?,
            value,
        )
    }

    /// Sets parameters that a measurement may vary from a text like `batch=512,cpu.simd=scalar`.
    pub fn with(mut self, backend: Backend, text: &str) -> Result<Self, ParameterError> {
        let mut given: Vec<&str> = Vec::new();
        for assignment in text
            .split(',')
            .map(str::trim)
            .filter(|assignment| !assignment.is_empty())
        {
            let (name, value) = split(assignment)?;
            let parameter = backend.parameter(name)?;
            if given.contains(&parameter.name) {
                return Err(ParameterError::Other(format!(
                    "{} is given twice",
                    parameter.name
                )));
            }
            given.push(parameter.name);
            self.put_value(parameter, parameter.parse(value)?)?;
        }
        self.validate()?;
        Ok(self)
    }

    /// Writes the values of `names` as [`with`](Self::with) reads them.
    pub fn text<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> String {
        let named = |name: &str| ALL.iter().find(|parameter| parameter.name == name);
        let one = |of: &Parameter| format!("{}={}", of.name, of.text(self.get(of.name)));
        let known = names.into_iter().filter_map(named);
        known.map(one).collect::<Vec<_>>().join(",")
    }

    /// Checks the rules that join several parameters.
    pub fn validate(&self) -> Result<(), ParameterError> {
        let (x, y) = self.cluster_block();
        // Both are at most 1024: the product fits.
        if (x * y).is_multiple_of(WARP_SIZE) && x * y <= MAX_THREADS {
            Ok(())
        } else {
            let names = "cluster.block_x, cluster.block_y";
            let message = format!(
                "a block of {x} x {y} threads ({names}) must be a multiple of 32 and at most 1024"
            );
            Err(ParameterError::Other(message))
        }
    }
}

/// Returns the number of hardware threads that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn split(assignment: &str) -> Result<(&str, &str), ParameterError> {
    let form = || ParameterError::Other(format!("{assignment:?} is not of the form name=value"));
    let parts = assignment.split_once('=').ok_or_else(form)?;
    Ok((parts.0.trim(), parts.1.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_of_every_backend_is_set_and_read_by_name_and_has_its_default() {
        for backend in Backend::ALL {
            for parameter in backend.all_parameters() {
                let read = |parameters: &Parameters| parameters.get(parameter.name);
                assert_eq!(
                    read(&Parameters::default()),
                    parameter.default,
                    "{}",
                    parameter.name
                );
                assert!(parameter.is_valid(parameter.default), "{parameter:?}");
                for &value in parameter.candidates {
                    let mut set = Parameters::default();
                    set.put_value(parameter, value).unwrap();
                    assert_eq!(read(&set), value, "{}", parameter.name);
                    let text = set.text([parameter.name]);
                    if set.validate().is_ok() {
                        assert_eq!(
                            Parameters::default().with(backend, &text),
                            Ok(set),
                            "{text}"
                        );
                    }
                }
            }
        }
        assert_eq!(Parameters::default().pipeline(), Pipeline::default());
    }

    #[test]
    fn texts_are_parsed_and_printed_and_a_unique_last_part_is_enough() {
        let read = |text| Parameters::default().with(Backend::Cpu, text).unwrap();
        let all = ["cpu.simd", "batch", "layout", "threads"];
        assert!(
            Backend::Cpu
                .all_parameters()
                .map(|parameter| parameter.name)
                .eq(all)
        );
        let text = "cpu.simd=auto,batch=256,layout=allen,threads=1";
        assert_eq!(
            (read("").text(all), read(text)),
            (text.to_owned(), Parameters::default())
        );
        assert_eq!(
            read(" batch=1 , layout = mep"),
            Parameters::default().with_batches(1, Layout::Mep)
        );
        assert_eq!(read("simd=scalar"), read("cpu.simd=scalar"));
        let decoders = |text| read(text).decoders(Backend::Cpu);
        assert_eq!((decoders("threads=3"), decoders("threads=0")), (3, cores()));
        let streams = Parameters::default()
            .with(Backend::Cuda, "streams=2,cluster.block_x=64,run=64")
            .unwrap();
        assert_eq!(
            (
                streams.decoders(Backend::Cuda),
                streams.cluster_block(),
                streams.sort_run()
            ),
            (2, (64, 4), 64)
        );
        for pipeline in Pipeline::ALL {
            let named = Parameters::default()
                .with(Backend::Emulated, &format!("pipeline={pipeline}"))
                .unwrap();
            assert_eq!(
                (named.pipeline(), named),
                (pipeline, Parameters::default().with_pipeline(pipeline))
            );
        }
    }

    #[test]
    fn nonsense_is_refused_and_the_choices_are_named() {
        for (backend, text, said) in [
            (
                Backend::Cpu,
                "batch",
                "\"batch\" is not of the form name=value",
            ),
            (
                Backend::Cpu,
                "bach=1",
                "cpu has no parameter called \"bach\"; it has cpu.simd, batch",
            ),
            (Backend::Cpu, "streams=1", "cpu has no parameter"),
            (Backend::Cpu, "pipeline=ranked", "cpu has no parameter"),
            (
                Backend::Cuda,
                "pipeline=x",
                "pipeline = x: must be one of ranked, allen",
            ),
            (
                Backend::Cuda,
                "pipeline=fused",
                "pipeline = fused: ranked has replaced it",
            ),
            (
                Backend::Emulated,
                "fused.strips=3264",
                "fused.strips: ranked has replaced the pipeline fused",
            ),
            (Backend::Emulated, "threads=1", "emulated has no parameter"),
            (Backend::Cpu, "batch=1,batch=2", "batch is given twice"),
            (
                Backend::Cpu,
                "simd=scalar,cpu.simd=scalar",
                "cpu.simd is given twice",
            ),
            (
                Backend::Cpu,
                "batch=0",
                "batch = 0: must be from 1 to 1048576",
            ),
            (
                Backend::Cpu,
                "batch=x",
                "batch = x: must be from 1 to 1048576",
            ),
            (
                Backend::Cpu,
                "threads=-1",
                "threads = -1: must be from 0 to 1024",
            ),
            (
                Backend::Cpu,
                "simd=mmx",
                "cpu.simd = mmx: must be one of auto, scalar, avx2, avx512",
            ),
            (
                Backend::Cpu,
                "layout=x",
                "layout = x: must be one of allen, mep",
            ),
            (
                Backend::Cuda,
                "block_x=64",
                "cuda has no parameter called \"block_x\"; it has count.block_x",
            ),
            (
                Backend::Emulated,
                "count.block_x=33",
                "count.block_x = 33: must be a multiple of 32 from 32 to 1024",
            ),
            (
                Backend::Cuda,
                "cluster.block_x=33",
                "a block of 33 x 4 threads",
            ),
            (
                Backend::Cuda,
                "cluster.block_x=1024",
                "a block of 1024 x 4 threads",
            ),
        ] {
            let error = Parameters::default()
                .with(backend, text)
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(said), "{text}: {error}");
        }
    }

    #[test]
    fn tuned_values_do_not_change_threads_instructions_kernels_and_batches() {
        let by_hand = Parameters::default()
            .with(Backend::Cpu, "batch=3,simd=scalar,threads=5")
            .unwrap();
        let tuned = Parameters::default()
            .with(
                Backend::Cuda,
                "streams=1,sort.run=64,registers=48,pipeline=allen",
            )
            .unwrap();
        let both = by_hand.tuned(&tuned.with(Backend::Cpu, "batch=7,threads=9").unwrap());
        assert_eq!((both.sort_run(), both.registers()), (64, 48));
        assert_eq!(
            (both.threads(), both.simd(), both.batch()),
            (5, Simd::Scalar, 3)
        );
        assert_eq!(
            (both.pipeline(), both.decoders(Backend::Cuda)),
            (Pipeline::Ranked, 3)
        );
    }
}
