//! UT banks in words, for `inspect`: the payload, and its oddities. No detector is needed.

use std::fmt::Write as _;

use ut_format::bank::COUNT_BYTES;
use ut_format::bank::board_of;

use ut_data::detector::{BankVersion, LANES_PER_BOARD};

/// Number of channels of a hybrid in v4.
const CHANNELS: u16 = 512;

#[derive(Default)]
pub struct Words {
    /// Hits (v5) or clusters (v4) of each lane, as announced (v5) or found (v4).
    pub lanes: [usize; LANES_PER_BOARD],
    pub remarks: Vec<String>,
    pub text: String,
}

pub fn source_in_words(source_id: u32) -> String {
    if source_id >> 11 == 0 {
        return format!("board {source_id} (simulation numbering)");
    }
    let side = match source_id >> 11 {
        5 => "A side".to_owned(),
        6 => "C side".to_owned(),
        other => format!("sub-detector {other}, which is not the UT"),
    };
    let board =
        board_of(source_id).map_or_else(|| "no board".to_owned(), |board| format!("board {board}"));
    format!(
        "{board} (Run 3 numbering: {side}, TELL40 {}, data flow {})",
        source_id & 0xFF,
        source_id >> 10 & 1
    )
}

impl Words {
    pub fn of(version: BankVersion, payload: &[u8]) -> Self {
        match version {
            BankVersion::V4 => Self::of_v4(payload),
            BankVersion::V5 => Self::of_v5(payload),
        }
    }

    fn of_v5(payload: &[u8]) -> Self {
        let mut words = Self::default();
        let counts = COUNT_BYTES.map(|at| payload.get(at).map_or(0, |&n| usize::from(n)));
        words.lanes = counts;
        let most = counts.into_iter().max().unwrap_or_default();
        words.line(format_args!(
            "header, hits of lanes 0 to 5: {}",
            list(counts)
        ));
        if let &[_, _, b2, b3, ..] = payload {
            words.line(format_args!("header, bytes 2 and 3: 0x{b2:02x} 0x{b3:02x}"));
        }
        if payload.len() < 24 {
            if most > 0 {
                words.remark(format!(
                    "{} bytes: too short for any hit, but {most} in a lane announced",
                    payload.len()
                ));
            }
            return words;
        }
        if most == 255 {
            words.remark("a lane count of 255: the bank is bad and dropped whole".to_owned());
            return words;
        }
        let needed = 32 * most.div_ceil(2);
        if payload.len() < needed {
            words.remark(format!(
                "truncated: {most} hits in a lane need {needed} bytes, there are {}",
                payload.len()
            ));
        } else if payload.len() > needed.max(24) {
            words.remark(format!(
                "{} bytes after the last row, ignored",
                payload.len() - needed.max(24)
            ));
        }
        words.line(format_args!("hits as strip:ADC"));
        for (lane, &n) in counts.iter().enumerate() {
            let mut line = format!("  lane {lane}:");
            let mut last = None;
            let mut unsorted = false;
            for hit in 0..n {
                let at = 8 + 2 * (16 * (hit / 2) + 2 * (LANES_PER_BOARD - 1 - lane) + hit % 2);
                let Some(word) = half_word(payload, at) else {
                    line += " (not there)";
                    break;
                };
                let strip = word >> 5 & 0x1FF;
                unsorted |= last.is_some_and(|last| last >= strip);
                last = Some(strip);
                let _ = write!(line, " {strip}:{}", word & 0x1F);
            }
            words.line(format_args!("{line}{}", if n == 0 { " -" } else { "" }));
            if unsorted {
                words.remark(format!("strips of lane {lane} do not ascend"));
            }
        }
        words
    }

    fn of_v4(payload: &[u8]) -> Self {
        let mut words = Self::default();
        let (Some(n), Some(high)) = (half_word(payload, 0), half_word(payload, 2)) else {
            words.remark(format!(
                "truncated: the header takes 4 bytes, there are {}",
                payload.len()
            ));
            return words;
        };
        let (pcn, error) = (high & 0xFF, high >> 8 & 1);
        words.line(format_args!(
            "header: {n} clusters, PCN {pcn}, error flag {error}"
        ));
        if error != 0 {
            words.remark("the error flag is set (ignored)".to_owned());
        }
        let needed = 4 + 2 * usize::from(n);
        if payload.len() < needed {
            words.remark(format!(
                "truncated: {n} clusters need {needed} bytes, there are {}",
                payload.len()
            ));
        }
        let mut tail = payload
            .get(needed.next_multiple_of(4)..)
            .unwrap_or_default()
            .iter();
        words.line(format_args!(
            "cluster  channel  hybrid  strip  quarters  size>2  high  neighbours  ADC"
        ));
        let mut beyond = 0;
        for i in 0..usize::from(n) {
            let Some(word) = half_word(payload, 4 + 2 * i) else {
                break;
            };
            let channel = word >> 2 & 0xFFF;
            let hybrid = channel / CHANNELS;
            match words.lanes.get_mut(usize::from(hybrid)) {
                Some(lane) => *lane += 1,
                None => beyond += 1,
            }
            let neighbours = tail
                .next()
                .map_or_else(|| "-".to_owned(), |&byte| (byte as i8).to_string());
            let mut adc = String::new();
            for &byte in tail.by_ref().take(4) {
                let _ = write!(adc, "{} ", byte & 0x7F);
                if byte & 0x80 != 0 {
                    break;
                }
            }
            words.line(format_args!(
                "{i:<7}  {channel:<7}  {hybrid:<6}  {:<5}  {:<8}  {:<6}  {:<4}  {neighbours:<10}  {}",
                channel % CHANNELS + 1,
                word & 3,
                word >> 14 & 1,
                word >> 15,
                adc.trim_end(),
            ));
        }
        if beyond > 0 {
            words.remark(format!(
                "{beyond} clusters on hybrids 6 and 7, which no board has"
            ));
        }
        words
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{line}");
    }

    fn remark(&mut self, remark: String) {
        self.remarks.push(remark);
    }
}

/// Returns the first `most` bytes in hexadecimal, 16 a line.
pub fn hex(bytes: &[u8], most: usize) -> String {
    let mut text = String::new();
    for (i, line) in bytes[..bytes.len().min(most)].chunks(16).enumerate() {
        let line: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(text, "{:>6}  {}", 16 * i, line.join(" "));
    }
    if bytes.len() > most {
        let _ = writeln!(text, "        and {} bytes more", bytes.len() - most);
    }
    text
}

fn list(values: [usize; LANES_PER_BOARD]) -> String {
    values.map(|value| value.to_string()).join(" ")
}

fn half_word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
