//! The page: its sections in order.
//!
//! The page, the JSON, the lines for a terminal and the mask come from the same verdicts, so that
//! they name the same parts. Two runs are called A and B everywhere; B is the reference. An outlier
//! of A that B has as well is *known*: it leaves the list, which is to show news, but it stays in
//! the mask of A, since its hits are as bad as before.
//!
//! The order of the sections is the order of questions: is the page about the right data, does
//! anything stand out, where is it, how do the distributions look, when did it begin, and which
//! banks were in trouble.

mod compare;
mod maps;
pub mod names;
mod spectra;
#[cfg(test)]
mod tests;
mod time;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use chart_page::Page;
use serde_json::Value;

use self::names::{
    count, difference_json, lanes_of_sectors, numbers, part_text, place_text, run_json, short,
    whole,
};
use crate::outlier::{
    DEAD, HOT, LEAST_EVENTS, LOW_CHARGE, NOISY, QUIET, SIGMAS, SILENT_EXPECTED, STRIP_FACTOR,
    STRIP_HITS,
};
use crate::overall;
use crate::{
    Against, Difference, MARKED, Outlier, OutlierKind, Overall, RunView, Sums, SumsError,
    TroubleSum, Verdicts, both, differences, mask, meaning, outliers,
};
use ut_data::detector::Mask;
use ut_data::input::{kind, utc};
use ut_data::{Count, DetectorTables, Kind};
use ut_format::bank::board_of;

const NAMED_FILES: usize = 20;

/// Maximum number of rows in a table of outliers. If half the detector is off, hundreds of lanes
/// are outliers, and more rows say no more.
const LISTED: usize = 500;

/// Maximum number of outliers to name on a terminal. The terminal should still show the line with
/// the number of outliers, which comes before them.
const SAID: usize = 10;

/// Facts on a page that are not in the sums.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Facts, by name: tables, options, program.
    pub facts: Vec<(String, String)>,
    /// Warnings at the beginning.
    pub warnings: Vec<String>,
    /// Mask that was applied to the hits of the sums.
    pub mask: Option<Mask>,
}

/// A page, and its contents in other forms.
#[derive(Clone, Debug)]
pub struct ReportPage {
    /// The page, HTML.
    pub html: String,
    /// JSON of counts, troubles, outliers and differences (`docs/report.md`).
    pub json: Value,
    /// Outliers and differences, in a few lines.
    pub text: String,
    /// Mask of the outliers of the run.
    pub mask: String,
}

pub struct Run<'a> {
    /// Name, and its letter where there are two.
    name: String,
    letter: &'static str,
    sums: &'a Sums,
    verdicts: &'a Verdicts,
}

impl Run<'_> {
    /// Returns the name in a legend.
    fn called(&self) -> String {
        if self.letter.is_empty() {
            self.name.clone()
        } else {
            format!("{}, {}", self.letter, self.name)
        }
    }

    /// Returns the end of headings and names of pictures that tells two runs apart.
    fn of(&self, word: &str) -> String {
        if self.letter.is_empty() {
            String::new()
        } else {
            format!(" {word} {}", self.letter)
        }
    }
}

/// A run, and maybe a reference with the differences by sector.
struct Drawing<'a> {
    run: Run<'a>,
    reference: Option<(Run<'a>, &'a [Difference])>,
}

impl<'a> Drawing<'a> {
    fn runs(&self) -> impl Iterator<Item = &Run<'a>> {
        std::iter::once(&self.run).chain(self.reference.iter().map(|(reference, _)| reference))
    }

    fn tables(&self) -> &'a DetectorTables {
        &self.run.sums.detector.tables
    }

    /// Returns the sectors that differ, the most first.
    fn marked(&self) -> Vec<&'a Difference> {
        let all = self
            .reference
            .iter()
            .flat_map(|(_, differences)| *differences);
        let mut marked: Vec<&Difference> = all
            .filter(|d| d.is_marked() || d.is_charge_marked())
            .collect();
        marked.sort_by(|a, b| compare::most(b).total_cmp(&compare::most(a)));
        marked
    }
}

/// Draws a run, alone or next to a reference.
///
/// # Errors
/// If the two are of different detectors or options: the page says these once, and has the same
/// maps for both.
pub fn draw(run: &Sums, reference: Option<&Sums>, about: &About) -> Result<ReportPage, SumsError> {
    reference.map_or(Ok(()), |reference| run.check_alike(reference))?;
    let tables = &run.detector.tables;
    let judge = |sums: &Sums| outliers(&sums.view, tables, about.mask.as_ref());
    let mut verdicts = judge(run);
    let other = reference.map(|sums| {
        (
            sums,
            judge(sums),
            differences(&run.view, &sums.view, tables),
        )
    });
    let [name, other_name] = names_of(&run.files, reference.map_or(&[], |sums| &sums.files));
    let letter = if reference.is_some() { "A" } else { "" };
    // The mask of a run also covers the known outliers.
    let mask = mask(&name, &verdicts, tables, &run.view);
    if let Some((_, reference, _)) = &other {
        let is_known = |outlier: &mut Outlier| {
            reference
                .outliers
                .iter()
                .any(|known| known.is_same_as(outlier))
        };
        verdicts.known = verdicts.outliers.extract_if(.., is_known).collect();
    }
    let drawing = Drawing {
        run: Run {
            name,
            letter,
            sums: run,
            verdicts: &verdicts,
        },
        reference: other.as_ref().map(|(sums, verdicts, differences)| {
            (
                Run {
                    name: other_name,
                    letter: "B",
                    sums,
                    verdicts,
                },
                differences.as_slice(),
            )
        }),
    };
    Ok(ReportPage {
        html: html(&drawing, about),
        json: json(&drawing),
        text: text(&drawing),
        mask,
    })
}

/// Returns the names of two runs: of files with the same name, with as many folders as tell them
/// apart.
fn names_of(run: &[OsString], reference: &[OsString]) -> [String; 2] {
    let names = [run, reference].map(name_of);
    if names[0] != names[1] {
        return names;
    }
    let ([run], [reference]) = (run, reference) else {
        return names;
    };
    let paths = [run, reference].map(|file| Path::new(file).components().collect::<Vec<_>>());
    let end = |n: usize| {
        paths.each_ref().map(|path| {
            let end: std::path::PathBuf = path[path.len().saturating_sub(n)..].iter().collect();
            end.display().to_string()
        })
    };
    let longest = paths[0].len().max(paths[1].len());
    (2..=longest)
        .map(end)
        .find(|[one, other]| one != other)
        .unwrap_or(names)
}

fn name_of(files: &[OsString]) -> String {
    match files {
        [file] => Path::new(file)
            .file_name()
            .unwrap_or(file)
            .to_string_lossy()
            .into_owned(),
        files => count(files.len() as u64, "file"),
    }
}

fn json(drawing: &Drawing<'_>) -> Value {
    let tables = drawing.tables();
    let mut json = run_json(&drawing.run, tables);
    if let Some((reference, _)) = &drawing.reference {
        let lanes = lanes_of_sectors(tables);
        let marked = drawing
            .marked()
            .into_iter()
            .map(|d| difference_json(d, &lanes[d.sector], tables));
        json.insert("differences".to_owned(), marked.collect());
        let Overall { hits, charge } = overall(&drawing.run.sums.view, &reference.sums.view);
        json.insert(
            "overall".to_owned(),
            serde_json::json!({"hits": hits, "charge": charge}),
        );
        json.insert("reference".to_owned(), run_json(reference, tables).into());
    }
    json.into()
}

fn text(drawing: &Drawing<'_>) -> String {
    let (mut text, tables) = (String::new(), drawing.tables());
    let mut list = |what: &str, lines: &[String]| {
        let (n, more) = (lines.len(), lines.len().saturating_sub(SAID));
        let shown = lines
            .iter()
            .take(SAID)
            .flat_map(|line| ["\n  ", line])
            .collect::<String>();
        let more = if more > 0 {
            format!("\n  and {} more", whole(more as u64))
        } else {
            String::new()
        };
        let _ = if n > 0 {
            writeln!(text, "{what}:{shown}{more}")
        } else {
            writeln!(text, "{what}")
        };
    };
    for run in drawing.runs() {
        let outliers = &run.verdicts.outliers;
        let line = |outlier: &Outlier| said(outlier, tables, &run.sums.view);
        let lines: Vec<String> = outliers.iter().map(line).collect();
        let of = run.of("in");
        match lines.len() {
            0 => list(&format!("{}{of}", nothing(&run.sums.view)), &[]),
            1 => list(&format!("1 thing stands out{of}"), &lines),
            n => list(&format!("{} things stand out{of}", whole(n as u64)), &lines),
        }
        if let Some(known) = known(run) {
            list(&known, &[]);
        }
        if let Some(unjudged) = unjudged(run, tables) {
            list(&format!("{unjudged}{of}"), &[]);
        }
    }
    if let Some((reference, _)) = &drawing.reference {
        let lanes = lanes_of_sectors(tables);
        let line = |d: &&Difference| compare::said(d, &lanes[d.sector], tables);
        let lines: Vec<String> = drawing.marked().iter().map(line).collect();
        let (a, b) = (&drawing.run.name, &reference.name);
        for line in compare::said_of_all(&drawing.run.sums.view, &reference.sums.view) {
            list(&line, &[]);
        }
        let verb = if lines.len() == 1 {
            "differs"
        } else {
            "differ"
        };
        let n = count(lines.len() as u64, "sector");
        list(
            &format!("A is {a}, B {b}: {n} {verb} by {MARKED} σ or more"),
            &lines,
        );
    }
    text
}

/// Returns the message of a run without outliers, or without hits.
const fn nothing(view: &RunView) -> &'static str {
    match view {
        RunView { events: 0, .. } => "There was no event to look at",
        RunView { hits: 0, .. } => "There was no hit to look at: no event has one",
        _ => "Nothing stands out",
    }
}

/// Counts the outliers that the reference has as well; `None` if it has none.
fn known(run: &Run<'_>) -> Option<String> {
    let known = &run.verdicts.known;
    (!known.is_empty()).then(|| {
        format!(
            "Known, because they stand out in B as well: {}",
            by_outlier_kind(known)
        )
    })
}

fn by_outlier_kind(outliers: &[Outlier]) -> String {
    let mut kinds: Vec<(String, u64)> = Vec::new();
    for name in outliers.iter().map(Outlier::name) {
        match kinds.iter_mut().find(|(of, _)| *of == name) {
            Some((_, n)) => *n += 1,
            None => kinds.push((name, 1)),
        }
    }
    list(
        kinds
            .into_iter()
            .map(|(name, n)| format!("{name} ({})", whole(n))),
        "",
    )
}

/// Returns an outlier in one line.
fn said(outlier: &Outlier, tables: &DetectorTables, view: &RunView) -> String {
    let place = place_text(outlier, tables, view);
    let [seen, expected] = numbers(outlier);
    let numbers = match outlier.kind {
        kind if kind < OutlierKind::Dead => String::new(),
        kind if kind.is_of_charge() => format!(", {seen} for {expected}"),
        _ if outlier.expected.is_nan() => String::new(),
        _ => format!(", {seen} hits for {expected}"),
    };
    format!("{}: {place}{numbers}", outlier.name())
}

/// Returns the number of sectors that cannot be judged, in words, if there are any.
fn unjudged(run: &Run<'_>, tables: &DetectorTables) -> Option<String> {
    let (view, judged) = (&run.sums.view, &run.verdicts.judged);
    let lanes = lanes_of_sectors(tables);
    let read = (0..judged.len()).filter(|&sector| !lanes[sector].is_empty());
    let n = read.clone().filter(|&sector| !judged[sector]).count() as u64;
    (n > 0 && view.hits > 0).then(|| {
        format!(
            "{} of {} have so few hits expected in {} that a dead one cannot be told from chance",
            whole(n),
            count(read.count() as u64, "sector"),
            count(view.events, "event")
        )
    })
}

fn html(drawing: &Drawing<'_>, about: &About) -> String {
    let title = match &drawing.reference {
        Some((reference, _)) => format!("UT: {} and {}", drawing.run.name, reference.name),
        None => format!("UT: {}", drawing.run.name),
    };
    let (mut page, tables) = (Page::new(&title), drawing.tables());
    drawing.runs().for_each(|run| page.text(&in_short(run)));
    warnings(&mut page, drawing, about);
    page.begin_details("Files, tables and options");
    facts(&mut page, drawing, about);
    page.end_details();
    if drawing.runs().all(|run| run.sums.view.events == 0) {
        drawing.runs().for_each(|run| found(&mut page, tables, run));
        return page.html();
    }
    maps::name_sectors(&mut page, tables);
    found(&mut page, tables, &drawing.run);
    if let Some((reference, differences)) = &drawing.reference {
        compare::summary(&mut page, drawing, reference, differences);
        found(&mut page, tables, reference);
    }
    match &drawing.reference {
        Some((reference, differences)) => {
            maps::beside(&mut page, tables, &drawing.run, reference, differences);
        }
        None => maps::sections(&mut page, tables, &drawing.run),
    }
    spectra::sections(&mut page, drawing);
    for run in drawing.runs() {
        time::sections(&mut page, tables, run);
        troubles(&mut page, run);
    }
    page.note(
        "PNG and SVG below a picture save it. Drag in a picture to zoom, click twice to zoom out. Heads of tables sort.",
    );
    page.html()
}

fn facts(page: &mut Page, drawing: &Drawing<'_>, about: &About) {
    let per_event = |n: u64, events: u64| {
        format!(
            "{}, {} per event",
            whole(n),
            short(n as f64 / events.max(1) as f64)
        )
    };
    let of_run = |run: &Run<'_>| {
        let (view, sums) = (&run.sums.view, run.sums);
        let numbers = |(least, greatest)| format!("{} to {}", whole(least), whole(greatest));
        [
            ("files", files(&sums.files)),
            ("events", whole(view.events)),
            (
                "runs",
                list(view.runs.keys().map(u32::to_string), "none named"),
            ),
            (
                "event numbers",
                view.numbers()
                    .filter(|_| view.against == Against::Number)
                    .map_or_else(|| "none".to_owned(), numbers),
            ),
            ("hits", per_event(view.hits, view.events)),
            (
                "strips read",
                per_event(view.count(Count::Strips), view.events),
            ),
            (
                "banks decoded",
                per_event(view.count(Count::Banks), view.events),
            ),
            ("troubles", trouble_text(view)),
            ("error banks", whole(view.error_banks.values().sum())),
            ("lost", sums.loss().to_string()),
        ]
    };
    let facts = of_run(&drawing.run);
    match &drawing.reference {
        None => page.facts(
            facts
                .iter()
                .map(|(name, value)| (*name, value))
                .chain(texts(&about.facts)),
        ),
        Some((reference, _)) => {
            let rows = facts.into_iter().zip(of_run(reference));
            let rows =
                rows.map(|((name, of_a), (_, of_b))| (false, vec![name.to_owned(), of_a, of_b]));
            let head = ["what", "A", "B, the reference"].map(str::to_owned);
            page.short_table("The two runs", &head, rows);
            page.facts(texts(&about.facts));
        }
    }
}

fn warnings(page: &mut Page, drawing: &Drawing<'_>, about: &About) {
    for warning in &about.warnings {
        page.text(&format!("Warning: {warning}."));
    }
    for run in drawing.runs() {
        let loss = run.sums.loss();
        if !loss.is_none() {
            page.text(&format!("Lost{}: {loss}.", run.of("of")));
        }
        let repeated = run.sums.repeats.repeated();
        if repeated.events.lost > 0 {
            page.text(&format!(
                "Repeated{}: {repeated} have the UT banks of another event.",
                run.of("in")
            ));
        }
    }
    for trouble in drawing.runs().flat_map(|run| run.sums.troubles()) {
        page.text(&format!("Incomplete: {trouble}."));
    }
}

/// Returns a run in one line: events, hits, run numbers and time.
fn in_short(run: &Run<'_>) -> String {
    let view = &run.sums.view;
    let name = if run.letter.is_empty() {
        String::new()
    } else {
        format!("{}: ", run.called())
    };
    let runs: Vec<String> = view.runs.keys().take(3).map(u32::to_string).collect();
    let runs = match (view.runs.len(), runs.join(", ")) {
        (0, _) => String::new(),
        (1, runs) => format!("run {runs}, "),
        (n, runs) => format!("runs {runs}{}, ", if n > 3 { " and more" } else { "" }),
    };
    let times = view
        .spans
        .iter()
        .fold(None, |all, (_, span)| both(all, span.times));
    let times = times.map_or_else(String::new, |(from, to)| {
        format!(
            ", {} to {} UTC",
            utc(from)[..19].replace('T', " "),
            &utc(to)[11..19]
        )
    });
    format!(
        "{name}{runs}{}, {}{times}.",
        count(view.events, "event"),
        count(view.hits, "hit")
    )
}

fn texts(facts: &[(String, String)]) -> impl Iterator<Item = (&str, &String)> {
    facts
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.as_str(), value))
}

fn list(texts: impl Iterator<Item = String>, none: &str) -> String {
    let all: Vec<String> = texts.collect();
    if all.is_empty() {
        none.to_owned()
    } else {
        all.join(", ")
    }
}

fn files(files: &[OsString]) -> String {
    let named: Vec<String> = files
        .iter()
        .take(NAMED_FILES)
        .map(|file| file.display().to_string())
        .collect();
    let more = files.len() - named.len();
    named.join(", ")
        + &if more > 0 {
            format!(" and {} more", whole(more as u64))
        } else {
            String::new()
        }
}

fn trouble_text(view: &RunView) -> String {
    let troubles = Count::ALL
        .into_iter()
        .filter(|&count| count.kind() == Kind::Trouble && view.count(count) > 0);
    list(
        troubles.map(|count| format!("{} {}", whole(view.count(count)), count.name())),
        "none",
    )
}

fn found(page: &mut Page, tables: &DetectorTables, run: &Run<'_>) {
    let Verdicts {
        outliers, spread, ..
    } = run.verdicts;
    let heading = format!("What stands out{}", run.of("in"));
    page.heading(&heading);
    if outliers.is_empty() {
        page.text(&format!("{}.", nothing(&run.sums.view)));
        if run.sums.view.events == 0 {
            return;
        }
    } else {
        let head = ["what", "where", "when", "seen", "expected", "σ"].map(str::to_owned);
        let row = |outlier: &Outlier| {
            let [seen, expected] = numbers(outlier);
            let place = part_text(outlier, tables);
            let (when, sigmas) = (outlier.when.text(&run.sums.view), short(outlier.sigmas));
            (
                false,
                vec![outlier.name(), place, when, seen, expected, sigmas],
            )
        };
        page.long_table(
            &heading,
            &head,
            outliers.iter().take(LISTED).map(row).collect(),
        );
        if outliers.len() > LISTED {
            page.note(&format!(
                "And {} more.",
                whole((outliers.len() - LISTED) as u64)
            ));
        }
    }
    if let Some(known) = known(run) {
        page.text(&format!("{known}."));
    }
    if let Some(unjudged) = unjudged(run, tables) {
        page.text(&format!("{unjudged}."));
    }
    let [dead, quiet, low, whole, half] =
        [DEAD, QUIET, LOW_CHARGE, spread[0], spread[1]].map(|of| short(100.0 * of));
    page.begin_details(&format!("The rules{}", run.of("for")));
    page.note(&format!(
        "A lane is expected to have the median of the hits of lanes at the mirrored places, in its own layer and in the \
         other layer of its station. Dead: under {dead} % of that; quiet: under {quiet} %; hot: over {HOT} times; and each \
         by {SIGMAS} standard deviations, in which count how much a lane varies from event to event and, but for dead \
         lanes, how far lanes differ from their expectation: in this run by {whole} %, lanes of half a sector by {half} %. \
         Hot strip: {STRIP_HITS} hits, and {STRIP_FACTOR} times the mean of its lane's others; it does not count for its \
         lane. Dead chip or strip: under {dead} % of the mean of the lane's others. Silent board or lane: under {dead} % of \
         its usual hits among events in which {SILENT_EXPECTED} are expected, and perhaps in some events more on either \
         side. Noisy lane: over {NOISY} times its usual hits for a while. Low charge: a mean under {low} % of the \
         neighbours', for all or some of the events. Fewer than {LEAST_EVENTS} events are not judged.",
    ));
    page.end_details();
}

/// Writes troubles by kind and by board, and error banks by board.
fn troubles(page: &mut Page, run: &Run<'_>) {
    let (view, of) = (&run.sums.view, run.of("of"));
    page.heading(&format!("Troubles{of}"));
    if view.troubles.is_empty() && view.error_banks.is_empty() {
        page.text("None.");
        return;
    }
    let board = |board: Option<u32>| board.map_or_else(String::new, |board| board.to_string());
    if !view.troubles.is_empty() {
        let mut kinds: Vec<_> = Count::ALL
            .into_iter()
            .filter_map(|count| Some((count, by_kind(view, count)?)))
            .collect();
        kinds.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.0));
        let head = [
            "trouble",
            "count",
            "boards",
            "first in event",
            "what it means",
        ]
        .map(str::to_owned);
        let rows = kinds.into_iter().map(|(kind, (n, boards, first))| {
            let cells = [
                kind.name().to_owned(),
                whole(n),
                whole(boards as u64),
                whole(first),
            ];
            (false, [&cells[..], &[meaning(kind).to_owned()]].concat())
        });
        page.short_table(&format!("Troubles{of}"), &head, rows);
        page.note("The first event is counted over all files from 0, as ut-decode inspect --event counts.");
        let mut rows: Vec<_> = view.troubles.iter().collect();
        rows.sort_by_key(|(_, trouble)| std::cmp::Reverse(trouble.count));
        let rows = rows.into_iter().take(LISTED).filter_map(
            |((kind, of), TroubleSum { count, first })| {
                let kind = Count::ALL.get(*kind)?.name().to_owned();
                Some((false, vec![board(*of), kind, whole(*count), whole(*first)]))
            },
        );
        let head = ["board", "trouble", "count", "first in event"].map(str::to_owned);
        page.folded_table(&format!("Troubles by board{of}"), &head, rows);
    }
    if !view.error_banks.is_empty() {
        let head = ["board", "sourceID", "bank", "type", "banks"].map(str::to_owned);
        let mut rows: Vec<_> = view.error_banks.iter().collect();
        rows.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        let row = |&(&(of, source), &n): &(&(u8, u32), &u64)| {
            let cells = [
                board(board_of(source)),
                format!("0x{source:04x}"),
                kind::name(of).to_owned(),
            ];
            (false, [&cells[..], &[of.to_string(), whole(n)]].concat())
        };
        page.long_table(
            &format!("Error banks by board{of}"),
            &head,
            rows.iter().take(LISTED).map(row).collect(),
        );
        page.note(
            "UTError: the board reported an error, its hits are decoded. DaqError: the read-out sent this in place of the \
             board's fragment. ut-decode inspect shows their bytes.",
        );
    }
}

/// Returns the number of troubles of a kind, of boards with it, and the first event with it, if
/// there are any.
fn by_kind(view: &RunView, count: Count) -> Option<(u64, usize, u64)> {
    let of_kind = view
        .troubles
        .iter()
        .filter(|((kind, _), _)| *kind == count as usize);
    let boards = of_kind
        .clone()
        .filter(|((_, board), _)| board.is_some())
        .count();
    let first = of_kind.clone().map(|(_, trouble)| trouble.first).min()?;
    Some((
        of_kind.map(|(_, trouble)| trouble.count).sum(),
        boards,
        first,
    ))
}
