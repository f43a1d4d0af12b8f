//! The page: its sections in order, each picture with what it shows.

use std::path::PathBuf;

use chart_page::Page;

use super::names::{lanes_of_sectors, place_text, short};
use super::run::Run;
use super::{compare, maps, spectra, time};
use crate::args::{flip_of, position_name};
use crate::decode::in_words;
use crate::detector::{Detector, SYNTHETIC, hash};
use crate::summary::meaning;
use ut_data::input::{kind, version_in_words};
use ut_data::{DecodeOptions, DetectorTables};
use ut_decoders::{Count, Kind};
use ut_kernels::bank::board_of;
use ut_report::{Difference, Outlier, OutlierKind, Rules, RunView, Verdicts};

/// Files that the page names.
const NAMED_FILES: usize = 20;

/// Rows of the table of what stands out.
const LISTED: usize = 500;

/// What to say where nothing stands out: it may be that there was nothing to look at.
pub const fn nothing(view: &RunView) -> &'static str {
    match view {
        RunView { events: 0, .. } => "There was no event to look at",
        RunView { hits: 0, .. } => "There was no hit to look at: no event has one",
        _ => "Nothing stands out",
    }
}

/// How many sectors cannot be judged, where there are any.
pub fn unjudged(view: &RunView, verdicts: &Verdicts, tables: &DetectorTables) -> Option<String> {
    let lanes = lanes_of_sectors(tables);
    let read = (0..verdicts.judged.len()).filter(|&sector| !lanes[sector].is_empty());
    let n = read.clone().filter(|&sector| !verdicts.judged[sector]).count();
    (n > 0 && view.hits > 0).then(|| {
        format!(
            "{n} of {} sectors have so few hits expected in {} that a dead one cannot be told from chance",
            read.count(),
            crate::output::count(view.events as usize, "event")
        )
    })
}

/// The page about a run, or about two.
pub fn html(
    detector: &Detector,
    options: DecodeOptions,
    run: &Run<'_>,
    second: Option<(&Run<'_>, &[Difference])>,
) -> String {
    let title = match second {
        Some((second, _)) => format!("UT: {} and {}", run.name, second.name),
        None => format!("UT: {}", run.name),
    };
    let mut page = Page::new(&title);
    facts(&mut page, detector, options, run, second.map(|(second, _)| second));
    if let Some((second, differences)) = second {
        compare::section(&mut page, detector, run, second, differences);
    }
    let named = |word: &str, name: &str| if second.is_some() { format!(" {word} {name}") } else { String::new() };
    let of = |name: &str| named("of", name);
    outliers(&mut page, detector, run, &named("in", &run.name));
    if let Some((second, _)) = second {
        outliers(&mut page, detector, second, &named("in", &second.name));
    }
    let runs: Vec<&Run<'_>> = [Some(run), second.map(|(second, _)| second)].into_iter().flatten().collect();
    if runs.iter().all(|run| run.gathered.view.events == 0) {
        return page.html();
    }
    maps::sections(&mut page, detector, &runs);
    spectra::sections(&mut page, detector, &runs);
    for run in &runs {
        time::sections(&mut page, detector, run, &of(&run.name));
        troubles(&mut page, run, &of(&run.name));
    }
    maps::table(&mut page, detector, &runs);
    page.note(
        "PNG and SVG below a picture save it. Drag in a picture to zoom, click twice to zoom out. Heads of tables sort.",
    );
    page.html()
}

fn facts(page: &mut Page, detector: &Detector, options: DecodeOptions, run: &Run<'_>, second: Option<&Run<'_>>) {
    let both = |of: &dyn Fn(&Run<'_>) -> String| match second {
        Some(second) => format!("{}   |   {}", of(run), of(second)),
        None => of(run),
    };
    let per_event = |n: u64, events: u64| format!("{n}, {} an event", short(n as f64 / events.max(1) as f64));
    let tables = &detector.tables;
    let table = |path: &Option<PathBuf>, bytes: &[u8]| match path {
        Some(path) => format!("{} ({})", path.display(), hash(bytes)),
        None => format!("the embedded synthetic detector ({})", hash(bytes)),
    };
    let mut facts = vec![
        ("files".to_owned(), both(&|run| files(&run.gathered.files))),
        ("events".to_owned(), both(&|run| run.gathered.view.events.to_string())),
        ("runs".to_owned(), both(&runs)),
        (
            "event numbers".to_owned(),
            both(&|run| match run.gathered.numbers {
                Some((least, greatest)) => format!("{least} to {greatest}"),
                None => "none".to_owned(),
            }),
        ),
        ("hits".to_owned(), both(&|run| per_event(run.gathered.view.hits, run.gathered.view.events))),
        (
            "strips read".to_owned(),
            both(&|run| per_event(run.gathered.view.count(Count::Strips), run.gathered.view.events)),
        ),
        (
            "banks decoded".to_owned(),
            both(&|run| per_event(run.gathered.view.count(Count::Banks), run.gathered.view.events)),
        ),
        ("troubles".to_owned(), both(&trouble_text)),
        ("error banks".to_owned(), both(&error_banks)),
        ("boards".to_owned(), table(&detector.boards, &tables.boards().to_bytes())),
        ("geometry".to_owned(), table(&detector.geometry, &tables.geometry().to_bytes())),
        ("banks' version".to_owned(), version_in_words(tables.boards().version.byte())),
        (
            "clustering".to_owned(),
            if options.clustering {
                format!(
                    "position {}, at most {} strips, {} above, flip {}",
                    position_name(options.position),
                    options.max_cluster_size,
                    if options.save_above_max { "cut" } else { "dropped" },
                    flip_of(tables.boards().version, options.flip)
                )
            } else {
                "none: every strip is a hit".to_owned()
            },
        ),
        ("made by".to_owned(), format!("ut-decode {}", in_words())),
    ];
    facts.retain(|(_, value)| !value.is_empty());
    page.facts(facts);
    for run in [Some(run), second].into_iter().flatten() {
        if detector.is_embedded() && run.gathered.measured > 0 {
            page.text(&format!("Warning: {SYNTHETIC}."));
        }
        for trouble in run.gathered.troubles() {
            page.text(&format!("Incomplete: {trouble}."));
        }
    }
}

fn files(files: &[PathBuf]) -> String {
    let named: Vec<String> = files.iter().take(NAMED_FILES).map(|file| file.display().to_string()).collect();
    let more = files.len() - named.len();
    named.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

fn runs(run: &Run<'_>) -> String {
    let runs: Vec<String> = run.gathered.view.runs.iter().map(u32::to_string).collect();
    if runs.is_empty() { "none named".to_owned() } else { runs.join(", ") }
}

fn trouble_text(run: &Run<'_>) -> String {
    let view = &run.gathered.view;
    let of = |count: Count| (view.count(count) > 0).then(|| format!("{} {}", view.count(count), count.name()));
    let all: Vec<String> =
        Count::ALL.into_iter().filter(|count| count.kind() == Kind::Trouble).filter_map(of).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

fn error_banks(run: &Run<'_>) -> String {
    let banks = &run.gathered.view.error_banks;
    if banks.is_empty() { "none".to_owned() } else { banks.iter().map(|bank| bank.2).sum::<u64>().to_string() }
}

/// What stands out, as a table.
fn outliers(page: &mut Page, detector: &Detector, run: &Run<'_>, of: &str) {
    let Verdicts { outliers, spread, .. } = run.verdicts;
    page.heading(&format!("What stands out{of}"));
    if outliers.is_empty() {
        page.text(&format!("{}.", nothing(&run.gathered.view)));
        if run.gathered.view.events == 0 {
            return;
        }
    } else {
        let count = |kind: OutlierKind| outliers.iter().filter(|outlier| outlier.kind == kind).count();
        let kinds = [
            OutlierKind::SilentBoard,
            OutlierKind::DeadLane,
            OutlierKind::QuietLane,
            OutlierKind::HotLane,
            OutlierKind::HotStrip,
        ];
        let words: Vec<String> = kinds
            .into_iter()
            .filter(|&kind| count(kind) > 0)
            .map(|kind| crate::output::count(count(kind), kind.name()))
            .collect();
        page.text(&format!("{}.", words.join(", ")));
        let head = ["what", "where", "hits", "expected", "σ"].map(str::to_owned);
        let row = |outlier: &Outlier| {
            let place = place_text(outlier, &detector.tables);
            let cells = [short(outlier.hits as f64), short(outlier.expected), short(outlier.sigmas)];
            let [hits, expected, sigmas] = cells;
            (false, vec![outlier.kind.name().to_owned(), place, hits, expected, sigmas])
        };
        page.named_table(&format!("What stands out{of}"), &head, outliers.iter().take(LISTED).map(row));
        if outliers.len() > LISTED {
            page.note(&format!("And {} more.", outliers.len() - LISTED));
        }
    }
    if let Some(unjudged) = unjudged(&run.gathered.view, run.verdicts, &detector.tables) {
        page.text(&format!("{unjudged}."));
    }
    let Rules { dead, quiet, hot, sigmas, strip_hits, strip_factor, silent_expected } = *run.rules;
    page.note(&format!(
        "A lane is expected to have the median of the hits of lanes at the mirrored places, left and right, above and \
         below, in its own layer and in the other layer of its station. Dead: under {} % of that; quiet: under {} %; hot: \
         over {hot} times; and each by {sigmas} standard deviations, in which count how much a lane varies from event to \
         event and, but for dead lanes, that honest lanes differ from their expectation by {} % (lanes of half a sector: \
         {} %) in this run. A hot strip has {strip_hits} hits and {strip_factor} times the mean of its lane's others, and \
         does not count for its lane. A board is silent where it has under {} % of its usual hits among events in which \
         {silent_expected} are expected.",
        100.0 * dead,
        100.0 * quiet,
        short(100.0 * spread[0]),
        short(100.0 * spread[1]),
        100.0 * dead,
    ));
}

/// Troubles and error banks by board.
fn troubles(page: &mut Page, run: &Run<'_>, of: &str) {
    let view = &run.gathered.view;
    page.heading(&format!("Troubles by board and kind{of}"));
    if view.troubles.is_empty() && view.error_banks.is_empty() {
        page.text("None.");
        return;
    }
    let board = |board: Option<u32>| board.map_or_else(String::new, |board| board.to_string());
    if !view.troubles.is_empty() {
        let head = ["board", "trouble", "count", "first in event", "what it means"].map(str::to_owned);
        let mut rows: Vec<_> = view.troubles.iter().collect();
        rows.sort_by_key(|trouble| std::cmp::Reverse(trouble.count));
        let rows = rows.into_iter().take(LISTED).filter_map(|trouble| {
            let kind = *Count::ALL.get(trouble.kind)?;
            let cells = [board(trouble.board), kind.name().to_owned(), trouble.count.to_string()];
            Some((false, [&cells[..], &[trouble.first.to_string(), meaning(kind).to_owned()]].concat()))
        });
        page.named_table("Troubles by board and kind", &head, rows);
        page.note("The first event is counted over all files from 0, as ut-decode inspect --event counts.");
    }
    if !view.error_banks.is_empty() {
        let head = ["board", "sourceID", "bank", "type", "banks"].map(str::to_owned);
        let mut rows: Vec<_> = view.error_banks.iter().collect();
        rows.sort_by_key(|bank| std::cmp::Reverse(bank.2));
        let row = |&&(of, source, n): &&(u8, u32, u64)| {
            let cells = [board(board_of(source)), format!("0x{source:04x}"), kind::name(of).to_owned()];
            (false, [&cells[..], &[of.to_string(), n.to_string()]].concat())
        };
        page.named_table("Error banks by board", &head, rows.iter().take(LISTED).map(row));
        page.note(
            "UTError: the board reported an error, its hits are decoded. DaqError: the read-out sent this in place of the \
             board's fragment. ut-decode inspect shows their bytes.",
        );
    }
}
