//! Order of one event's hits.

use super::policy::NeedsFallback;
use ut_data::UtHitsMut;

/// Moves hit `place` down to its position among the sorted hits from `begin` on; `moves` limits
/// how far, and is reduced by the distance.
///
/// # Errors
/// If the limit does not suffice, or a hit has the same key.
pub fn move_down(
    hits: &mut UtHitsMut<'_>,
    begin: usize,
    place: usize,
    moves: &mut usize,
) -> Result<(), NeedsFallback> {
    let key = |hits: &UtHitsMut<'_>, i: usize| {
        let bits = hits.x_at_y_eq0[i].to_bits();
        let order = if bits >> 31 == 0 {
            bits | 1 << 31
        } else {
            !bits
        };
        u64::from(order) << 32 | u64::from(hits.id[i])
    };
    let this = key(hits, place);
    let mut to = place;
    while to > begin && key(hits, to - 1) > this {
        to -= 1;
    }
    if to > begin && key(hits, to - 1) == this {
        return Err(NeedsFallback);
    }
    if to == place {
        return Ok(());
    }
    *moves = moves.checked_sub(place - to).ok_or(NeedsFallback)?;
    for array in hits.floats() {
        array[to..=place].rotate_right(1);
    }
    hits.id[to..=place].rotate_right(1);
    if let Some(clusters) = &mut hits.clusters {
        clusters[to..=place].rotate_right(1);
    }
    Ok(())
}
