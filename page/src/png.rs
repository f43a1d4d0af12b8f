//! Small images inside a page.

use std::io::Write as _;

use flate2::{Compression, Crc, write::ZlibEncoder};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns bytes as base64, without padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let four = |three: &[u8]| {
        let bits = three
            .iter()
            .chain(&[0; 2])
            .take(3)
            .fold(0, |bits, &byte| bits << 8 | usize::from(byte));
        [18, 12, 6, 0]
            .map(|shift| char::from(ALPHABET[bits >> shift & 63]))
            .into_iter()
            .take(three.len() + 1)
    };
    bytes.chunks(3).flat_map(four).collect()
}

/// Returns a PNG of pixels, row by row from the top, each the number of its colour; one beyond the
/// last is transparent.
pub(crate) fn encode(width: u32, pixels: &[u8], colours: &[[u8; 3]]) -> Vec<u8> {
    let rows = pixels.chunks(width.max(1) as usize);
    let header = [
        &width.to_be_bytes()[..],
        &(rows.len() as u32).to_be_bytes(),
        &[8, 3, 0, 0, 0],
    ]
    .concat();
    let mut deflate = ZlibEncoder::new(Vec::new(), Compression::best());
    for row in rows {
        // Writing to memory cannot fail. No filter.
        let _ = deflate
            .write_all(&[0])
            .and_then(|()| deflate.write_all(row));
    }
    let data = deflate.finish().unwrap_or_default();
    let palette = [colours.concat(), vec![0; 3]].concat();
    let opacities = [vec![255; colours.len()], vec![0]].concat();
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in [
        (b"IHDR", header),
        (b"PLTE", palette),
        (b"tRNS", opacities),
        (b"IDAT", data),
        (b"IEND", vec![]),
    ] {
        let mut crc = Crc::new();
        crc.update(kind);
        crc.update(&data);
        png.extend((data.len() as u32).to_be_bytes());
        png.extend([&kind[..], &data, &crc.sum().to_be_bytes()].concat());
    }
    png
}
