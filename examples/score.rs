use ut_decoding::tuning::replay::read_csv;
use ut_decoding::tuning::score::{score, table};
use ut_decoding::tuning::strategy::StrategyKind;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let seeds: u64 = args[1].parse().unwrap();
    let kind: StrategyKind = args[2].parse().unwrap();
    let train = ["convolution_milo_A4000", "dedispersion_milo_W6600", "convolution_RTX_3090", "pnpoly_RTX_3090"];
    let test = ["convolution_milo_A100", "convolution_milo_W6600", "dedispersion_milo_MI250X", "gemm_RTX_3090"];
    let names: Vec<&str> = match args[3].as_str() {
        "train" => train.to_vec(),
        "test" => test.to_vec(),
        "all" => [train, test].concat(),
        "hard" => vec!["convolution_milo_A100", "convolution_milo_W6600", "convolution_milo_A4000"],
        n => vec![n],
    };
    let mut rows = Vec::new();
    for n in names {
        let r = read_csv(std::path::Path::new(&format!("/work/shared/data/tuning/compact/{n}.csv.gz"))).unwrap();
        rows.push(score(n, &r, kind, seeds, 220).unwrap());
    }
    print!("{}", table(&rows));
}
