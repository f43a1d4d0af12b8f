//! Optional columns: detector quantities of a hit, and the origin of its event. `docs/columns.md`
//! describes them.

use std::str::FromStr;

use crate::detector::{ChannelId, DetectorTables, LhcbId};
use crate::hits::{Cluster, UtHits};
use crate::named;

/// Missing value. No column has it as an ordinary value.
pub const NULL: u16 = u16::MAX;

/// Column with a detector quantity of each hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DetectorColumn {
    /// Layer, 0…3: UTaX, UTaU, UTbV, UTbX.
    Layer,
    /// Side: 0 is C, 1 is A.
    Side,
    /// Stave of the half-layer, counted from the beam.
    Stave,
    /// Face of the stave, 0 or 1.
    Face,
    /// Module of the stave, 0…7.
    Module,
    /// Sector of the module, 0 or 1.
    Sector,
    /// Strip in the hit's `LHCbID`, which is not always the first one.
    Strip,
    /// Index of the board that reads the strip, by the tables.
    Board,
    /// Lane of that board, 0…5.
    Lane,
    /// Sum of the ADC counts of the cluster's strips.
    Charge,
    /// Number of strips of the cluster.
    NStrips,
    /// Lowest strip of the cluster.
    FirstStrip,
    /// True if the sector's strips are numbered against x.
    Flipped,
    /// Sector id, 0…1047. `detector` does not include it.
    SectorId,
}

/// Type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Unsigned integer of 8 bits.
    U8,
    /// Unsigned integer of 16 bits.
    U16,
    /// 0 or 1.
    Bool,
}

named!("column" DetectorColumn: Layer "layer", Side "side", Stave "stave", Face "face", Module "module",
    Sector "sector",
    Strip "strip", Board "board", Lane "lane", Charge "charge", NStrips "n_strips", FirstStrip "first_strip",
    Flipped "flipped", SectorId "sector_id");

impl DetectorColumn {
    /// Columns that `detector` stands for, in the order of the outputs.
    pub const DETECTOR: &[Self] = Self::ALL.split_at(Self::SectorId as usize).0;

    /// Returns true if the hits must have been decoded [with clusters](UtHits::with_clusters).
    pub const fn needs_clusters(self) -> bool {
        matches!(self, Self::Charge | Self::NStrips | Self::FirstStrip)
    }

    /// Returns true if a value may be missing: of clusters for v4 banks, of boards where the tables
    /// do not know the hit.
    pub const fn may_be_null(self) -> bool {
        self.needs_clusters()
            || matches!(
                self,
                Self::Board | Self::Lane | Self::Flipped | Self::SectorId
            )
    }

    /// Returns the type of the values.
    pub const fn kind(self) -> ColumnType {
        match self {
            Self::Strip | Self::Charge | Self::FirstStrip | Self::SectorId => ColumnType::U16,
            Self::Flipped => ColumnType::Bool,
            _ => ColumnType::U8,
        }
    }

    /// Returns the column for a batch: the value of each hit, or [`NULL`]. `tables` must be the
    /// tables of the decoder.
    pub fn values(self, tables: &DetectorTables, hits: &UtHits) -> Vec<u16> {
        let of_id = |value: fn(ChannelId) -> u16| of_hits(hits, value);
        let place = |channel| Some(&tables.places()[usize::from(tables.sector_of(channel)?)]);
        let lane = |channel| place(channel)?.lane_of(channel.strip());
        let clusters = hits.clusters();
        let of_cluster = |value: fn(Cluster) -> u16| match clusters {
            Some(clusters) => clusters.iter().map(|&cluster| value(cluster)).collect(),
            None => vec![NULL; hits.len()],
        };
        match self {
            Self::Layer => of_id(|channel| channel.layer().into()),
            Self::Side => of_id(|channel| channel.side().into()),
            Self::Stave => of_id(|channel| channel.stave().into()),
            Self::Face => of_id(|channel| channel.face().into()),
            Self::Module => of_id(|channel| channel.module().into()),
            Self::Sector => of_id(|channel| channel.sector().into()),
            Self::Strip => of_id(ChannelId::strip),
            Self::Board => of_hits(hits, |channel| {
                lane(channel).map_or(NULL, |lane| lane.board.into())
            }),
            Self::Lane => of_hits(hits, |channel| {
                lane(channel).map_or(NULL, |lane| lane.lane.into())
            }),
            Self::Charge => of_cluster(Cluster::charge),
            Self::NStrips => of_cluster(|cluster| cluster.n_strips().into()),
            Self::FirstStrip => of_cluster(Cluster::first_strip),
            Self::Flipped => of_hits(hits, |channel| {
                place(channel).map_or(NULL, |place| place.flipped.into())
            }),
            Self::SectorId => of_hits(hits, |channel| tables.sector_of(channel).unwrap_or(NULL)),
        }
    }
}

fn of_hits(hits: &UtHits, value: impl Fn(ChannelId) -> u16) -> Vec<u16> {
    hits.id()
        .iter()
        .map(|&id| value(LhcbId(id).channel()))
        .collect()
}

/// Columns that every output has.
const PLAIN: [&str; 9] = [
    "event",
    "group",
    "lhcb_id",
    "x_at_y_eq0",
    "z_at_y_eq0",
    "y_begin",
    "y_end",
    "dx_dy",
    "weight",
];

/// Optional columns of an output.
///
/// ```
/// use ut_data::output::{Columns, DetectorColumn};
///
/// let columns: Columns = "run,layer,charge".parse()?;
/// assert!(columns.run && !columns.file);
/// assert_eq!(columns.detector, [DetectorColumn::Layer, DetectorColumn::Charge]);
/// assert_eq!(columns.needs_clusters(), Some(DetectorColumn::Charge));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Write the run number. Parquet files always have it.
    pub run: bool,
    /// Write the event number. Parquet files always have it.
    pub event_number: bool,
    /// Write the name of the file. Parquet files always have it, and CSV files of several inputs.
    pub file: bool,
    /// Detector quantities, in the order of [`DetectorColumn::ALL`].
    pub detector: Vec<DetectorColumn>,
}

impl Columns {
    /// Returns the first column that needs hits decoded [with clusters](UtHits::with_clusters).
    pub fn needs_clusters(&self) -> Option<DetectorColumn> {
        self.detector
            .iter()
            .copied()
            .find(|column| column.needs_clusters())
    }
}

/// Reads names separated by commas; `detector` stands for [`DetectorColumn::DETECTOR`].
impl FromStr for Columns {
    type Err = String;

    fn from_str(names: &str) -> Result<Self, String> {
        let (mut columns, mut wanted) = (Self::default(), Vec::new());
        for name in names.split(',').map(str::trim) {
            match name {
                "run" => columns.run = true,
                "event_number" => columns.event_number = true,
                "file" => columns.file = true,
                "detector" => wanted.extend(DetectorColumn::DETECTOR),
                name if PLAIN.contains(&name) => {}
                name => {
                    let Ok(column) = name.parse() else {
                        return Err(format!(
                            "no column is called \"{name}\": possible are detector, run, \
                             event_number, file, {}, or one that every \
                             output has",
                            DetectorColumn::NAMES.join(", ")
                        ));
                    };
                    wanted.push(column);
                }
            }
        }
        columns.detector = DetectorColumn::ALL
            .into_iter()
            .filter(|column| wanted.contains(column))
            .collect();
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::{Columns, DetectorColumn};

    #[test]
    fn columns_are_selected_by_name_or_as_a_set_in_a_fixed_order() {
        let detector = Columns {
            detector: DetectorColumn::DETECTOR.to_vec(),
            ..Columns::default()
        };
        assert_eq!("detector".parse(), Ok(detector.clone()));
        assert_eq!("charge, detector,layer,event".parse(), Ok(detector));
        let expected = vec![
            DetectorColumn::Layer,
            DetectorColumn::Charge,
            DetectorColumn::SectorId,
        ];
        let some = Columns {
            run: true,
            event_number: true,
            detector: expected,
            ..Columns::default()
        };
        assert_eq!(
            "sector_id,charge,run,layer,event_number,charge".parse(),
            Ok(some.clone())
        );
        assert_eq!(some.needs_clusters(), Some(DetectorColumn::Charge));
        assert_eq!(
            "board,lane".parse::<Columns>().unwrap().needs_clusters(),
            None
        );
        for (list, name) in [
            ("", "\"\""),
            ("layer,", "\"\""),
            ("detectors", "\"detectors\""),
            ("Layer", "\"Layer\""),
        ] {
            assert!(
                list.parse::<Columns>().unwrap_err().contains(name),
                "{list}"
            );
        }
    }
}
