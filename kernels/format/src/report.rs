//! Counters of each event, so that nothing is dropped silently (docs/policy.md).

/// One counter of an [`EventReport`]; the names are those of the policy table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum Count {
    /// Banks decoded: of a UT type and ended by none of the troubles below; an empty bank counts.
    Banks,
    /// Hit words (v5) or cluster words (v4) read on connected lanes of decoded banks.
    Strips,
    /// Banks of a type other than 66 (UT) and 68 (UTError): skipped.
    OtherTypes,
    /// Clusters not emitted because their charge was zero (v5).
    ZeroChargeClusters,
    /// Clusters that grew beyond the maximum size (v5).
    OversizedClusters,
    /// UT banks after the first `n_boards` of an event: skipped.
    SurplusBanks,
    /// Banks whose version byte is not the board table's: skipped.
    WrongVersion,
    /// Banks whose sourceID maps to no board of the table: skipped.
    UnknownBoard,
    /// Banks whose board an earlier bank of the event named: decoded all the same.
    RepeatedBoard,
    /// v5 payloads under 24 bytes that claim hits: no hits.
    Short,
    /// v5 banks with a lane count of 255: dropped whole.
    BadHeader,
    /// Payloads shorter than their counts say: dropped whole.
    Truncated,
    /// Hits (v5) or cluster words (v4) of slots that nothing is connected to: skipped.
    UnconnectedHits,
    /// Lanes whose strips do not strictly ascend (v5): clustered all the same.
    UnsortedLanes,
    /// Events whose container was damaged: the rest of the event is given up.
    BrokenEvent,
}

/// Number of counters.
pub const N_COUNTS: usize = 15;

/// Meaning of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An ordinary quantity.
    Size,
    /// S of the policy table: worth knowing, nothing is wrong.
    Statistic,
    /// T of the policy table: something is wrong with the data.
    Trouble,
}

impl Count {
    /// All counters, in the order in which they lie in an [`EventReport`].
    pub const ALL: [Self; N_COUNTS] = [
        Self::Banks,
        Self::Strips,
        Self::OtherTypes,
        Self::ZeroChargeClusters,
        Self::OversizedClusters,
        Self::SurplusBanks,
        Self::WrongVersion,
        Self::UnknownBoard,
        Self::RepeatedBoard,
        Self::Short,
        Self::BadHeader,
        Self::Truncated,
        Self::UnconnectedHits,
        Self::UnsortedLanes,
        Self::BrokenEvent,
    ];

    /// The counter's name in the policy table and in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Banks => "banks",
            Self::Strips => "strips",
            Self::OtherTypes => "other_types",
            Self::ZeroChargeClusters => "zero_charge_clusters",
            Self::OversizedClusters => "oversized_clusters",
            Self::SurplusBanks => "surplus_banks",
            Self::WrongVersion => "wrong_version",
            Self::UnknownBoard => "unknown_board",
            Self::RepeatedBoard => "repeated_board",
            Self::Short => "short",
            Self::BadHeader => "bad_header",
            Self::Truncated => "truncated",
            Self::UnconnectedHits => "unconnected_hits",
            Self::UnsortedLanes => "unsorted_lanes",
            Self::BrokenEvent => "broken_event",
        }
    }

    /// Returns whether the counter is a size, a statistic or a trouble.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Banks | Self::Strips => Kind::Size,
            Self::OtherTypes | Self::ZeroChargeClusters | Self::OversizedClusters => {
                Kind::Statistic
            }
            _ => Kind::Trouble,
        }
    }
}

/// The counters of one event.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "bytemuck", derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct EventReport {
    /// One number a counter, indexed by `Count as usize`.
    pub counts: [u32; N_COUNTS],
}

impl EventReport {
    /// The value of one counter.
    pub const fn get(&self, count: Count) -> u32 {
        self.counts[count as usize]
    }

    /// Adds `n` to one counter; stays at the maximum instead of wrapping.
    pub const fn add(&mut self, count: Count, n: u32) {
        self.counts[count as usize] = self.counts[count as usize].saturating_add(n);
    }

    /// Returns true if any trouble was counted.
    pub fn has_trouble(&self) -> bool {
        Count::ALL
            .iter()
            .any(|&c| c.kind() == Kind::Trouble && self.get(c) > 0)
    }
}
