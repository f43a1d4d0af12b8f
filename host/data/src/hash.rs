//! One hash for contents that are compared: of events, banks and tables.

/// Returns a hash of some numbers. It is meant for finding equal data and is not cryptographic.
pub fn hash(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers
        .into_iter()
        .fold(0x9E37_79B9_7F4A_7C15, |hash, number| {
            let product = u128::from(hash ^ number) * 0xBF58_476D_1CE4_E5B9;
            product as u64 ^ (product >> 64) as u64
        })
}
