//! Files of hits as text, column by column, whatever their format.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use parquet::file::reader::SerializedFileReader;
use parquet::record::Field;

/// The values of each column, in the order of the rows; `None` for a null.
pub type Table = BTreeMap<String, Vec<Option<String>>>;

/// Reads a CSV file without quoted fields, or a Parquet file. Floats that are equal to the last bit
/// have equal texts.
pub fn read(path: &Path) -> Table {
    let mut table = Table::new();
    if path
        .extension()
        .is_some_and(|extension| extension == "parquet")
    {
        let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        for row in file {
            for (name, value) in row.unwrap().get_column_iter() {
                let value = match value {
                    Field::Null => None,
                    Field::Bool(value) => Some(u8::from(*value).to_string()),
                    Field::Float(value) => Some(value.to_string()),
                    Field::Str(text) => Some(text.clone()),
                    other => Some(other.to_string()),
                };
                table.entry(name.clone()).or_default().push(value);
            }
        }
        return table;
    }
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), names.len(), "{line}");
        for (name, field) in names.iter().zip(fields) {
            // If two shortest decimals are equally near, the writer may take another one than Rust.
            let float = field
                .contains('.')
                .then(|| field.parse::<f32>().ok())
                .flatten();
            let value = (!field.is_empty())
                .then(|| float.map_or_else(|| field.to_owned(), |float| float.to_string()));
            table.entry((*name).to_owned()).or_default().push(value);
        }
    }
    table
}
