//! Events that are compressed inside MDF: blocks as ROOT makes them, back to back.
//!
//! A block has 9 bytes of header: two letters for the algorithm, one of its version, 3 bytes each
//! (little endian) of compressed and of uncompressed size. lz4 blocks begin with 8 bytes of
//! checksum, which count as compressed: the big-endian xxHash64, with seed 0, of the compressed
//! bytes after it.
//!
//! ```text
//! byte   0    2        3              6               9
//!        ZS | version | compressed   | uncompressed  | data ...
//!        5a 53 01       e8 03 00       d0 07 00        1000 bytes, which unpack to 2000
//! ```
//!
//! A small event can claim any size. The buffer grows block by block, each block to the size in its
//! header (16 MiB at most, as three bytes say no more), and the event to [`MAX_EVENT`] at most.

const HEADER: usize = 9;

/// Maximum size of an event: some hundred times the mean.
pub const MAX_EVENT: usize = 1 << 26;

/// Returns true if the packed bytes begin with a block of an algorithm that is known and not taken.
pub fn is_xz(packed: &[u8]) -> bool {
    packed.starts_with(b"XZ")
}

/// Compressed and uncompressed bytes of a block, as its header says them.
fn sizes(header: &[u8; HEADER]) -> (usize, usize) {
    let u24 =
        |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], 0]) as usize;
    (u24(3), u24(6))
}

/// Returns the unpacked size that the blocks of `packed` state.
pub fn claimed(mut packed: &[u8]) -> usize {
    let mut bytes = 0;
    while let Some(header) = packed.first_chunk() {
        let (compressed, size) = sizes(header);
        bytes += size;
        packed = packed.get(HEADER + compressed..).unwrap_or_default();
    }
    bytes
}

/// Appends the contents of the blocks of `packed`, which begin at byte `at` of the event; `body`
/// grows to at most `limit` bytes. After an error, which names the block and its byte of the event,
/// it holds the blocks before.
pub fn unpack(packed: &[u8], at: usize, limit: usize, body: &mut Vec<u8>) -> Result<(), String> {
    let mut from = 0;
    let mut block = 0;
    while from < packed.len() {
        let error = |what: String| {
            format!(
                "block {block} of the compressed event, at byte {}: {what}",
                at + from
            )
        };
        let left = &packed[from..];
        let Some(header) = left.first_chunk::<HEADER>() else {
            return Err(error(format!(
                "{} bytes are left, but a block's header takes {HEADER}",
                left.len()
            )));
        };
        let (compressed, size) = sizes(header);
        let Some(data) = left.get(HEADER..HEADER + compressed) else {
            let there = left.len() - HEADER;
            return Err(error(format!(
                "it takes {compressed} bytes, but {there} are left of the event"
            )));
        };
        let begin = body.len();
        if size > limit - begin.min(limit) {
            return Err(error(format!("the event grows beyond {} MiB", limit >> 20)));
        }
        body.resize(begin + size, 0);
        let unpacked = unpack_block([header[0], header[1]], data, &mut body[begin..]);
        let result = match unpacked {
            Ok(n) if n == size => Ok(()),
            Ok(n) => Err(error(format!("it holds {n} bytes, its header says {size}"))),
            Err(what) => Err(error(what)),
        };
        if result.is_err() {
            body.truncate(begin);
            return result;
        }
        from += HEADER + compressed;
        block += 1;
    }
    Ok(())
}

/// Unpacks a block into a buffer of the size that its header says, and returns the number of bytes
/// that came out.
#[cfg(feature = "containers")]
fn unpack_block(algorithm: [u8; 2], data: &[u8], out: &mut [u8]) -> Result<usize, String> {
    match &algorithm {
        b"ZL" => {
            let mut stream = flate2::Decompress::new(true);
            let status = stream.decompress(data, out, flate2::FlushDecompress::Finish);
            let status = status.map_err(|error| format!("zlib: {error}"))?;
            match status {
                flate2::Status::StreamEnd => Ok(stream.total_out() as usize),
                _ => Err("zlib: the stream does not end in the block".to_owned()),
            }
        }
        b"ZS" => {
            zstd::bulk::decompress_to_buffer(data, out).map_err(|error| format!("zstd: {error}"))
        }
        b"L4" => {
            let (stored, data) = data
                .split_first_chunk()
                .ok_or("lz4: no room for the checksum")?;
            let (stored, computed) = (
                u64::from_be_bytes(*stored),
                twox_hash::XxHash64::oneshot(0, data),
            );
            if stored != computed {
                return Err(format!(
                    "lz4: checksum 0x{stored:016x} in the block, 0x{computed:016x} computed"
                ));
            }
            lz4_flex::block::decompress_into(data, out).map_err(|error| format!("lz4: {error}"))
        }
        _ => Err(unknown(algorithm)),
    }
}

#[cfg(not(feature = "containers"))]
fn unpack_block(algorithm: [u8; 2], _: &[u8], _: &mut [u8]) -> Result<usize, String> {
    match &algorithm {
        b"ZL" | b"ZS" | b"L4" => Err("this build lacks the feature `containers`".to_owned()),
        _ => Err(unknown(algorithm)),
    }
}

fn unknown([a, b]: [u8; 2]) -> String {
    format!("no known algorithm begins with the bytes 0x{a:02x} 0x{b:02x}")
}
