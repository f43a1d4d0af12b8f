//! The fused kernel's tables: the [lanes](super::lane_columns) in the records that it reads.

use ut_kernels::fused::hit_tables::{
    BoardRecord, CLASS_SHIFT, ClassRecord, HitTables, LaneRecord, MAX_BOARDS, MAX_CLASSES, MAX_GROUPS, MAX_RANKS,
};
use ut_kernels::ranked::lane_tables as fused;

use super::lane_columns::LaneColumns;
use super::placer::Placer;
use ut_data::detector::{BankVersion, LANES_PER_BOARD};

/// Bits of an `LHCbID` for a channel of the UT.
const UT_CHANNEL: u32 = 3 << 28;

#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "as in `HitTables`")]
pub struct HitRecords {
    pub boards: Vec<BoardRecord>,
    pub lanes: Vec<LaneRecord>,
    pub groups: Vec<u16>,
    pub classes: Vec<ClassRecord>,
    pub n_groups: u32,
    pub fits: bool,
    pub overlaps: bool,
}

impl HitRecords {
    /// Makes the records; `overlaps`: the lanes of most groups overlap. Tables that do not fit give none, and leave
    /// every event to the kernel that needs none.
    pub fn new(lanes: &LaneColumns, version: BankVersion, overlaps: bool) -> Self {
        let n_groups = lanes.first_ranks.len() - 1;
        let (class_of, classes) = classes(lanes, version);
        let fits = n_groups <= MAX_GROUPS as usize
            && lanes.chan_ids.len() <= MAX_RANKS as usize
            && lanes.strips_per_hybrid.len() <= MAX_BOARDS as usize
            && classes.len() <= MAX_CLASSES as usize
            && lanes.chan_ids.iter().all(|&id| id < 1 << CLASS_SHIFT)
            && lanes.strips_per_hybrid.iter().all(|&strips| u16::try_from(strips).is_ok());
        if !fits {
            let n_groups = n_groups as u32;
            return Self { boards: vec![], lanes: vec![], groups: vec![], classes: vec![], n_groups, fits, overlaps };
        }
        let boards = lanes.strips_per_hybrid.iter().zip(lanes.ranks.chunks_exact(LANES_PER_BOARD));
        let boards = boards.map(|(&strips, ranks)| BoardRecord {
            ranks: std::array::from_fn(|lane| ranks[lane]),
            strips_per_hybrid: strips as u16,
            spare: 0,
        });
        let records = (0..lanes.chan_ids.len()).map(|rank| LaneRecord {
            id: UT_CHANNEL | lanes.chan_ids[rank] | class_of[usize::from(lanes.classes[rank])] << CLASS_SHIFT,
            p0_x: lanes.p0_x[rank],
            p0_y: lanes.p0_y[rank],
            p0_z: lanes.p0_z[rank],
        });
        let groups = lanes.first_ranks.windows(2).enumerate();
        let groups = groups.flat_map(|(group, ranks)| (ranks[0]..ranks[1]).map(move |_| group as u16));
        Self {
            boards: boards.collect(),
            lanes: records.collect(),
            groups: groups.collect(),
            classes,
            n_groups: n_groups as u32,
            fits,
            overlaps,
        }
    }

    pub(crate) fn placed<'t, 'v>(&'t self, by: &mut impl Placer<'t, 'v>) -> HitTables<'v> {
        HitTables {
            boards: by.place(&self.boards),
            lanes: by.place(&self.lanes),
            groups: by.place(&self.groups),
            classes: by.place(&self.classes),
            n_groups: self.n_groups,
            fits: u32::from(self.fits),
            overlaps: u32::from(self.overlaps),
        }
    }
}

/// Merges classes of the rank tables that agree in what this kernel reads; also returns the new number of each.
fn classes(lanes: &LaneColumns, version: BankVersion) -> (Vec<u32>, Vec<ClassRecord>) {
    let mut of_class = Vec::new();
    let mut classes: Vec<[u32; 8]> = Vec::new();
    for class in lanes.constants.chunks_exact(fused::CLASS_WORDS as usize) {
        let &[x, y, z, dy, dx_dy, weight, first_strip, flags] = class else { unreachable!("eight words") };
        // The rank says if a lane is reversed.
        let class = match version {
            BankVersion::V4 => [x, y, z, dy, dx_dy, weight, first_strip, 0],
            BankVersion::V5 => [x, y, z, dy, dx_dy, weight, 0, flags & fused::CLASS_FLIPPED],
        };
        let place = classes.iter().position(|&other| other == class).unwrap_or_else(|| {
            classes.push(class);
            classes.len() - 1
        });
        of_class.push(place as u32);
    }
    let record = |class: &[u32; 8]| {
        let [dp0di_x, dp0di_y, dp0di_z, dy, dx_dy, weight, ..] = class.map(f32::from_bits);
        let [.., first_strip, flipped] = *class;
        ClassRecord { dp0di_x, dp0di_y, dp0di_z, dy, dx_dy, weight, first_strip, flipped }
    };
    (of_class, classes.iter().map(record).collect())
}
