//! The shape of the charge: the ADC values of each chip compared with its neighbours.
//!
//! The mean charge can be right and the electronics wrong: if a bit of the ADC is stuck at 1,
//! values below move up, and the mean changes by little. So the whole distribution of the 32 values
//! is compared. Only hits of one strip are taken: each is one reading of one channel, while a
//! cluster's charge is a sum.
//!
//! A stuck bit is recognised by what it does: the neighbours' spectrum, with this bit forced to 0
//! or 1, then describes the chip better than the spectrum itself does.

use super::outlier::{HIGH_CHARGE, LOW_CHARGE, Outlier, OutlierKind, PartOf, SIGMAS, median};
use super::run::{ADCS, CHIPS_PER_SECTOR, RunView};
use super::shape::Neighbours;
use super::when::When;

/// Minimum number of hits in a chip to judge its spectrum.
const LEAST: f64 = 60.0;

/// Minimum share of the hits of a chip, beyond chance, that has other ADC values than in its
/// neighbours.
const AWAY: f64 = 0.2;

/// A bit that this share of the hits has, and fewer of the neighbours', is stuck.
const STUCK: f64 = 0.99;

fn spectrum(view: &RunView, chips: std::ops::Range<usize>) -> Vec<u64> {
    let mut sum = vec![0; ADCS];
    for of_chip in view.adc[chips.start * ADCS..chips.end * ADCS].chunks(ADCS) {
        sum.iter_mut().zip(of_chip).for_each(|(sum, n)| *sum += n);
    }
    sum
}

fn shares(spectrum: &[u64]) -> Vec<f64> {
    let all = spectrum.iter().sum::<u64>().max(1) as f64;
    spectrum.iter().map(|&n| n as f64 / all).collect()
}

fn mean(shares: &[f64]) -> f64 {
    shares
        .iter()
        .enumerate()
        .map(|(adc, share)| adc as f64 * share)
        .sum()
}

/// Finds chips whose one-strip hits have ADC values that differ from their neighbours'.
pub fn of_spectra(view: &RunView, chips: &[PartOf], neighbours: &Neighbours) -> Vec<Outlier> {
    let mut found = Vec::new();
    let mut usual: Option<(usize, Vec<f64>)> = None;
    for chip in chips {
        let of_chip = spectrum(view, chip.chips.clone());
        let n = of_chip.iter().sum::<u64>() as f64;
        if n < LEAST {
            continue;
        }
        if usual
            .as_ref()
            .is_none_or(|(sector, _)| *sector != chip.sector)
        {
            usual = Some((chip.sector, usual_of(view, neighbours.of(chip.sector))));
        }
        let Some((_, usual)) = usual
            .as_ref()
            .filter(|(_, usual)| usual.iter().all(|share| share.is_finite()))
        else {
            continue;
        };
        let of_chip = shares(&of_chip);
        let (seen, expected) = (mean(&of_chip), mean(usual));
        let variance = (0..ADCS)
            .map(|adc| (adc as f64 - expected).powi(2) * usual[adc])
            .sum::<f64>()
            .max(1.0);
        let sigmas = (seen - expected) / (variance / n).sqrt();
        let chance = usual.iter().map(|share| (share / n).sqrt()).sum::<f64>() * 0.4;
        let stuck = stuck_bit(&of_chip, usual, (n, chance));
        let single = (0..ADCS).find(|&adc| of_chip[adc] > 0.95 && usual[adc] < 0.5);
        let away = of_chip
            .iter()
            .zip(usual)
            .map(|(here, there)| (here - there).abs())
            .sum::<f64>()
            / 2.0;
        let chi2: f64 = (0..ADCS)
            .map(|adc| (of_chip[adc] - usual[adc]).powi(2) * n / (usual[adc] + 1.0 / n))
            .sum();
        let shape = (chi2 - ADCS as f64) / (2.0 * ADCS as f64).sqrt();
        let (kind, sigmas, detail) = if let Some(adc) = single {
            (
                OutlierKind::Shape,
                sigmas,
                format!("every hit has ADC {adc}"),
            )
        } else if let Some(stuck) = stuck {
            (OutlierKind::Shape, shape, stuck)
        } else if seen < LOW_CHARGE * expected && sigmas <= -SIGMAS {
            (OutlierKind::LowCharge, sigmas, String::new())
        } else if seen > HIGH_CHARGE * expected && sigmas >= SIGMAS {
            (OutlierKind::HighCharge, sigmas, String::new())
        } else if away - chance > AWAY && shape >= SIGMAS {
            let percent = (100.0 * away).round();
            (
                OutlierKind::Shape,
                shape,
                format!("{percent} % of the hits have other charges than the neighbours'"),
            )
        } else {
            continue;
        };
        let when = if kind == OutlierKind::Shape {
            When::Unknown
        } else {
            When::Throughout
        };
        found.push(Outlier {
            when,
            detail,
            ..Outlier::of(kind, chip, (seen, expected), sigmas)
        });
    }
    found
}

/// Returns the usual shares of the ADC values in these sectors: the middle one of each value, as one
/// odd sector does not count. Not numbers without enough hits.
fn usual_of(view: &RunView, neighbours: &[u16]) -> Vec<f64> {
    let alike = neighbours.iter().map(|&other| {
        let first = usize::from(other) * CHIPS_PER_SECTOR;
        spectrum(view, first..first + CHIPS_PER_SECTOR)
    });
    let alike: Vec<Vec<f64>> = alike
        .filter(|of| of.iter().sum::<u64>() as f64 >= LEAST)
        .map(|of| shares(&of))
        .collect();
    let middle = |adc: usize| median(alike.iter().map(|of| of[adc])).unwrap_or_default();
    let middles: Vec<f64> = (0..ADCS).map(middle).collect();
    let sum: f64 = middles.iter().sum();
    middles.iter().map(|share| share / sum).collect()
}

/// Describes the bit that is the same in all hits of a chip of `n`; `chance` is the deviation of its
/// shares from the `usual` ones that is none.
fn stuck_bit(of_chip: &[f64], usual: &[f64], (n, chance): (f64, f64)) -> Option<String> {
    let with_bit = |of: &[f64], bit: usize| {
        (0..ADCS)
            .filter(|adc| adc >> bit & 1 == 1)
            .map(|adc| of[adc])
            .sum()
    };
    (0..5).find_map(|bit| {
        let [here, there]: [f64; 2] = [with_bit(of_chip, bit), with_bit(usual, bit)];
        let error = (there * (1.0 - there) / n).sqrt();
        // The spectrum that the neighbours would have with this bit.
        let mut with = vec![[0.0; 2]; ADCS];
        for (adc, share) in usual.iter().enumerate() {
            with[adc & !(1 << bit)][0] += share;
            with[adc | 1 << bit][1] += share;
        }
        let is_like = |value: usize| {
            let away: f64 = of_chip
                .iter()
                .zip(&with)
                .map(|(here, with)| (here - with[value]).abs())
                .sum();
            away / 2.0 - chance < 0.15
        };
        let differs = (here - there).abs() >= SIGMAS * error && (here - there).abs() > 0.1;
        let is = |far: bool, value: usize| far && differs && is_like(value);
        match (
            is(here >= STUCK && there < 0.9, 1),
            is(here <= 1.0 - STUCK && there > 0.1, 0),
        ) {
            (true, _) => Some(format!("bit {bit} of the ADC is always 1")),
            (_, true) => Some(format!("bit {bit} of the ADC is always 0")),
            _ => None,
        }
    })
}
