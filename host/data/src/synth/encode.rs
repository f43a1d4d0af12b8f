//! Encoders of bank payloads (`docs/format.md`), which decoders read back.
//!
//! They share only the places of the count bytes with the decoders. So a layout that is wrong on
//! one side shows as a difference, and is not wrong on both sides alike.
//!
//! *Example.* Hit 0 of lane 0 of a v5 bank is at byte 8 + 2 · 2 · 5 = 28, because lanes run
//! backwards in a row: lane 5 comes first. A bank with one or two hits in its fullest lane has 8
//! bytes of header and 24 bytes of row, since the last row goes without its eight bytes for no
//! lane.

use ut_format::bank::COUNT_BYTES;

use crate::detector::LANES_PER_BOARD;

/// Maximum number of hits in a lane of a v5 bank: the count byte 255 marks a bad bank.
pub const MAX_HITS_OF_LANE: usize = 254;

/// Number of bytes of a v5 bank's header.
const V5_HEADER: usize = 8;

/// Number of u16 in a row of a v5 bank.
const ROW: usize = 16;

/// A strip with its ADC count: strip of the sector, 0…511, and ADC, 0…31.
pub type Strip = (u16, u8);

/// A cluster word of a v4 bank with what the front end sends along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct V4Cluster {
    /// Channel of the board, 0…3071: hybrid · 512 + strip.
    pub channel: u16,
    /// Position beyond the channel in quarter strips, 0…3.
    pub fraction: u8,
    /// True if the cluster is wider than two strips.
    pub wide: bool,
    /// True if the charge is above the spill-over threshold.
    pub high_threshold: bool,
    /// Charge of the two neighbouring strips.
    pub neighbour_sum: i8,
    /// ADC counts of one to four strips, 0…127 each.
    pub adc: Vec<u8>,
}

/// Returns the payload of a v5 bank with these hits in its lanes 0…5, in the order given; without
/// hits the header alone.
///
/// # Panics
/// If a lane has more than [`MAX_HITS_OF_LANE`] hits, a strip is beyond 511 or an ADC count beyond
/// 31.
pub fn encode_v5(lanes: [&[Strip]; LANES_PER_BOARD]) -> Vec<u8> {
    let most = lanes.iter().map(|hits| hits.len()).max().unwrap_or(0);
    assert!(
        most <= MAX_HITS_OF_LANE,
        "a lane has at most {MAX_HITS_OF_LANE} hits"
    );
    let rows = most.div_ceil(2);
    // A row's last four u16 belong to no lane; the last row goes without them, so header and rows
    // take 32 bytes per row.
    let mut payload = vec![0; V5_HEADER.max(2 * ROW * rows)];
    for (lane, hits) in lanes.iter().enumerate() {
        payload[COUNT_BYTES[lane]] = hits.len() as u8;
        for (i, &(strip, adc)) in hits.iter().enumerate() {
            assert!(
                strip < 512 && adc < 32,
                "strip {strip} or ADC {adc} out of range"
            );
            let word = strip << 5 | u16::from(adc);
            let at = V5_HEADER + 2 * (ROW * (i / 2) + 2 * (LANES_PER_BOARD - 1 - lane) + i % 2);
            payload[at..at + 2].copy_from_slice(&word.to_le_bytes());
        }
    }
    payload
}

/// Returns the payload of a v4 bank with these clusters, in the order given; `pcn` is the pipeline
/// column number.
///
/// # Panics
/// If there are more than 65535 clusters, a channel is beyond 4095 (12 bits; a board has 3072), a
/// fraction is beyond 3, a cluster has no ADC counts or more than four, or an ADC count is beyond
/// 127.
pub fn encode_v4(clusters: &[V4Cluster], pcn: u8) -> Vec<u8> {
    let n = u16::try_from(clusters.len()).expect("the header counts up to 65535 clusters");
    let mut payload = (u32::from(n) | u32::from(pcn) << 16).to_le_bytes().to_vec();
    for cluster in clusters {
        assert!(
            cluster.channel < 4096 && cluster.fraction < 4,
            "channel or fraction out of range"
        );
        let word = u16::from(cluster.fraction)
            | cluster.channel << 2
            | u16::from(cluster.wide) << 14
            | u16::from(cluster.high_threshold) << 15;
        payload.extend(word.to_le_bytes());
    }
    payload.resize(payload.len().next_multiple_of(4), 0);
    for V4Cluster {
        neighbour_sum, adc, ..
    } in clusters
    {
        let (last, first) = adc.split_last().expect("a cluster has at least one strip");
        assert!(
            adc.len() <= 4 && adc.iter().all(|&a| a < 128),
            "at most four ADC counts of 7 bits"
        );
        payload.push(neighbour_sum.to_le_bytes()[0]);
        payload.extend(first);
        payload.push(last | 0x80);
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v4_clusters_have_words_padding_and_adc_tail() {
        let cluster = V4Cluster {
            channel: 3071,
            fraction: 2,
            wide: false,
            high_threshold: true,
            neighbour_sum: -1,
            adc: vec![19, 18],
        };
        assert_eq!(encode_v4(&[], 128), [0, 0, 128, 0]);
        let word = (0x8000 + 3071 * 4 + 2_u16).to_le_bytes();
        assert_eq!(
            encode_v4(&[cluster], 128),
            [1, 0, 128, 0, word[0], word[1], 0, 0, 0xFF, 19, 0x92]
        );
    }
}
