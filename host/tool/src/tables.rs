//! `ut-decode tables`: contents and oddities of a detector's tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::Failure;
use crate::args::DetectorArgs;
use crate::config;
use crate::output::{count, print_beside, write_json};
use crate::table::table;
use serde_json::{Value, json};
use ut_data::DetectorTables;
use ut_data::detector::{
    BankVersion, Connection, Geometry, LANES_PER_BOARD, LAYER_NAMES, N_SECTORS, parse_board,
    parse_sector, sectors_of_layer,
};
use ut_report::{Detector, hash};

/// Maximum number of lanes of a sector: 904 sectors of format v5 have one, 144 have two; all of
/// format v4 have one.
const MOST_LANES: usize = 2;

/// Show and check a detector's tables.
///
/// Reads the boards and the geometry that `decode` would use, from the options or else from
/// ut-decode.toml, and summarises them layer by layer. Lists what is odd: sectors that no lane
/// reads, sectors with more than two lanes, one channel on two lanes, and in format v5 boards
/// without a lane. Exits with code 1 if anything is odd.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    detector: DetectorArgs,
    /// Look up which board and lane read this sector, instead: its id, 0 to 1047.
    #[arg(long, value_name = "ID", value_parser = parse_sector)]
    sector: Option<u16>,
    /// Look up which sectors the lanes of this board read, instead: its number, as 3, or sourceID,
    /// as 0x2c02.
    #[arg(long, value_name = "BOARD", value_parser = parse_board)]
    board: Option<u32>,
    /// Write the same as JSON here; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let DetectorArgs {
        boards, geometry, ..
    } = &args.detector;
    let synthetic = args.detector.synthetic_detector;
    let set = || config::tables().filter(|_| synthetic.is_none());
    let detector = match boards.clone().zip(geometry.clone()).or_else(set) {
        // A misfit is reported as odd, and everything else is still shown.
        Some((boards, geometry)) => {
            let mut trusting = args.detector.clone();
            trusting.trust_tables = true;
            trusting.read(boards, geometry)?
        }
        None => args
            .detector
            .embedded(synthetic.flatten().unwrap_or(BankVersion::V5)),
    };
    let tables = &detector.tables;
    if args.sector.is_some() || args.board.is_some() {
        return look_up(args, tables);
    }
    let Cabling { lanes, idle, odd } = Cabling::of(tables);
    let fit = tables.check_fit().err().map(|error| error.to_string());
    let fit = fit.filter(|_| !args.detector.trust_tables);
    let odd: Vec<String> = fit.into_iter().chain(odd).collect();
    let (boards, geometry) = (tables.boards(), tables.geometry());
    let layers = layers(geometry, &lanes);
    let connected = lanes.iter().sum::<usize>();
    let of = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let value = json!({
        "boards_file": of(&detector.boards),
        "geometry_file": of(&detector.geometry),
        "boards_hash": hash(&boards.to_bytes()),
        "geometry_hash": hash(&geometry.to_bytes()),
        "bank_version": boards.version.byte(),
        "format": boards.version.name(),
        "boards": boards.n_boards(),
        "idle_boards": idle,
        "lanes": connected,
        "geometry_version": geometry.version,
        "grouping": tables.grouping().name(),
        "groups": tables.n_groups(),
        "flip": config::flip().name_for(boards.version),
        "layers": layers,
        "odd": odd,
    });
    if let Some(path) = &args.json {
        write_json(path, &value)?;
    }
    let mut text = head(&detector, idle.len(), connected) + &table_of(&layers);
    text += if odd.is_empty() {
        "\nNothing is odd.\n"
    } else {
        "\nodd:\n"
    };
    for line in &odd {
        let _ = writeln!(text, "  {line}");
    }
    print_beside(args.json.as_deref(), &text)?;
    if odd.is_empty() {
        Ok(())
    } else {
        Err("the tables are odd: they would lose, double or misplace hits".into())
    }
}

/// Returns what the tables are, in words; of the boards, `idle` have no lane, and the others
/// `connected` lanes.
fn head(detector: &Detector, idle: usize, connected: usize) -> String {
    let tables = &detector.tables;
    let (boards, geometry) = (tables.boards(), tables.geometry());
    let of = |path: &Option<PathBuf>| {
        path.as_ref().map_or_else(
            || "embedded synthetic detector".to_owned(),
            |path| path.display().to_string(),
        )
    };
    format!(
        "boards              {}\n                    {} boards, {idle} without a lane; {connected} lanes; bank version {} (format {})\n\
         geometry            {}\n                    {N_SECTORS} sectors, version {} (dx/dy by {})\n\
         groups              {} ({})\n\
         flip                {}\n\n",
        of(&detector.boards),
        boards.n_boards(),
        boards.version.byte(),
        boards.version.name(),
        of(&detector.geometry),
        geometry.version,
        if geometry.version == 0 {
            "layer"
        } else {
            "sector"
        },
        tables.n_groups(),
        tables.grouping().name(),
        match boards.version {
            BankVersion::V4 => "none: hits of v4 banks are never flipped".to_owned(),
            BankVersion::V5 => format!(
                "strips of flipped sectors count from {}",
                config::flip().name()
            ),
        },
    )
}

/// Returns numbers and ranges of each layer; `lanes` is the number of lanes of each sector.
fn layers(geometry: &Geometry, lanes: &[usize]) -> Vec<Value> {
    let of = |(layer, name): (usize, &&str)| {
        let of_layer = sectors_of_layer(layer);
        let range = |value: &dyn Fn(usize) -> f32| {
            let values = of_layer.clone().map(value);
            [
                values.clone().fold(f32::INFINITY, f32::min),
                values.fold(f32::NEG_INFINITY, f32::max),
            ]
        };
        let flipped = of_layer
            .clone()
            .filter(|&sector| geometry.sectors[sector].is_flipped())
            .count();
        json!({
            "layer": name,
            "sectors": of_layer.len(),
            "lanes": lanes[of_layer.clone()].iter().sum::<usize>(),
            "flipped": flipped,
            "pitch": range(&|sector| geometry.sectors[sector].pitch),
            "x": range(&|sector| geometry.sectors[sector].p0_x),
            "y": range(&|sector| geometry.sectors[sector].p0_y),
            "z": range(&|sector| geometry.sectors[sector].p0_z.abs()),
            "dx_dy": range(&|sector| geometry.sectors[sector].dx_dy),
        })
    };
    LAYER_NAMES.iter().enumerate().map(of).collect()
}

/// Returns a table of [`layers`].
fn table_of(layers: &[Value]) -> String {
    let head = [
        "layer", "sectors", "lanes", "flipped", "pitch/mm", "x/mm", "y/mm", "z/mm", "dx/dy",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for layer in layers {
        let mut row = vec![layer["layer"].as_str().unwrap_or_default().to_owned()];
        row.extend(["sectors", "lanes", "flipped"].map(|key| layer[key].to_string()));
        for (key, digits) in [("pitch", 4), ("x", 0), ("y", 0), ("z", 1), ("dx_dy", 4)] {
            let [least, most] = [0, 1].map(|end| layer[key][end].as_f64().unwrap_or(f64::NAN));
            row.push(format!("{least:.digits$} … {most:.digits$}"));
        }
        rows.push(row);
    }
    table(&rows)
}

/// Connections of the lanes with the sectors, and what is odd about them.
pub struct Cabling {
    /// Number of lanes of each sector.
    lanes: Vec<usize>,
    /// Boards without a lane.
    idle: Vec<usize>,
    pub odd: Vec<String>,
}

impl Cabling {
    pub fn of(tables: &DetectorTables) -> Self {
        let mut lanes = vec![0usize; N_SECTORS];
        let mut by_channel: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (i, slot) in tables.connected() {
            lanes[usize::from(slot.sector)] += 1;
            let (board, lane) = (i / LANES_PER_BOARD, i % LANES_PER_BOARD);
            let name = format!("board {board} lane {lane}");
            by_channel.entry(slot.chan_id).or_default().push(name);
        }
        let idle: Vec<usize> = tables
            .slots()
            .chunks(LANES_PER_BOARD)
            .enumerate()
            .filter(|(_, lanes)| lanes.iter().all(|slot| slot.chan_id == 0))
            .map(|(board, _)| board)
            .collect();
        let with = |is: fn(usize) -> bool| -> Vec<usize> {
            (0..N_SECTORS).filter(|&sector| is(lanes[sector])).collect()
        };
        let crowded = format!("with more than {MOST_LANES} lanes");
        let lists = [
            ("sector", with(|n| n == 0), "that no lane reads out"),
            ("sector", with(|n| n > MOST_LANES), &crowded),
            (
                "board",
                match tables.boards().version {
                    // Format v4 leaves a quarter of the ids unused.
                    BankVersion::V4 => Vec::new(),
                    BankVersion::V5 => idle.clone(),
                },
                "without any lane",
            ),
        ];
        let listed = lists
            .into_iter()
            .filter(|(_, numbers, _)| !numbers.is_empty());
        let mut odd: Vec<String> = listed
            .map(|(of, numbers, what)| {
                format!("{} {what}: {}", count(numbers.len(), of), list(&numbers))
            })
            .collect();
        let doubled = by_channel.iter().filter(|(_, names)| names.len() > 1);
        odd.extend(doubled.map(|(channel, names)| {
            format!(
                "the channel 0x{channel:08x} belongs to {}",
                names.join(" and ")
            )
        }));
        Self { lanes, idle, odd }
    }
}

/// Prints the lanes that read a sector, or the sectors that a board reads.
fn look_up(args: &Args, tables: &DetectorTables) -> Result<(), Failure> {
    let of_sector =
        |connection: &Connection| args.sector.is_none_or(|sector| connection.sector == sector);
    let of_board = |connection: &Connection| {
        args.board
            .is_none_or(|board| u32::from(connection.lane.board) == board)
    };
    let found: Vec<Connection> = tables
        .connections()
        .filter(of_sector)
        .filter(of_board)
        .collect();
    let head = [
        "board", "lane", "sector", "strips", "layer", "side", "stave", "face", "module", "part",
        "x/mm", "y/mm",
    ];
    let (mut rows, mut lanes) = (vec![head.map(str::to_owned).to_vec()], Vec::new());
    for Connection {
        lane,
        sector,
        strips: (first, last),
    } in &found
    {
        let (place, geometry) = (
            tables.places()[usize::from(*sector)],
            &tables.geometry().sectors[usize::from(*sector)],
        );
        let channel = place.channel;
        let (layer, side) = (
            LAYER_NAMES[usize::from(channel.layer())],
            ["C", "A"][usize::from(channel.side())],
        );
        let (stave, face, module, part) = (
            channel.stave(),
            channel.face(),
            channel.module(),
            channel.sector(),
        );
        let (x, y) = (geometry.p0_x, geometry.p0_y);
        let mut row = vec![
            lane.board.to_string(),
            lane.lane.to_string(),
            sector.to_string(),
            format!("{first}-{last}"),
        ];
        row.extend([layer, side].map(str::to_owned));
        row.extend([stave, face, module, part].map(|number| number.to_string()));
        row.extend([x, y].map(|place| format!("{place:.0}")));
        rows.push(row);
        lanes.push(json!({
            "board": lane.board, "lane": lane.lane, "sector": sector, "first_strip": first, "last_strip": last,
            "layer": layer, "side": side, "stave": stave, "face": face, "module": module, "part": part, "x": x, "y": y,
        }));
    }
    if let Some(path) = &args.json {
        write_json(path, &json!({ "lanes": lanes }))?;
    }
    if found.is_empty() {
        let of = |name: &str, number: Option<u32>| {
            number.map_or_else(String::new, |number| format!(" {name} {number}"))
        };
        let (board, sector) = (
            of("of board", args.board),
            of("reads sector", args.sector.map(u32::from)),
        );
        return Err(format!(
            "the tables have no lane{board} that{}",
            if sector.is_empty() {
                " is connected"
            } else {
                &sector
            }
        )
        .into());
    }
    print_beside(args.json.as_deref(), &table(&rows))
}

fn list(numbers: &[usize]) -> String {
    let first: Vec<String> = numbers.iter().take(10).map(usize::to_string).collect();
    let more = if numbers.len() > first.len() {
        ", …"
    } else {
        ""
    };
    format!("{}{more}", first.join(", "))
}
