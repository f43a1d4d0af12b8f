// The hits that an extrapolated track may have: in each layer, those whose x, at the track's y, is within a window. Groups of
// rows in y are sorted by x at y = 0, so that a binary search in each finds the first.
#pragma once
#include <algorithm>
#include <array>
#include <vector>

#include "ut_decoding.h"

// A straight line: x = x0 + tx * z, y = y0 + ty * z, in mm.
struct Track {
  float x0, y0, tx, ty;
};

constexpr size_t n_layers = 4, groups_per_layer = 18; // of UT_GROUPS_Y_ROWS

// Where the track is from the hit: its x less that of the hit at the track's y, if that is on the strip up to `margin`.
inline bool is_near(const UtHits& hits, uint32_t i, const Track& track, float window, float margin)
{
  const float z = hits.z_at_y_eq0[i], y = track.y0 + track.ty * z;
  const float low = std::min(hits.y_begin[i], hits.y_end[i]), high = std::max(hits.y_begin[i], hits.y_end[i]);
  const float x_of_hit = hits.x_at_y_eq0[i] + y * hits.dx_dy[i];
  return y >= low - margin && y <= high + margin && std::abs(track.x0 + track.tx * z - x_of_hit) <= window;
}

// The hits of event `event` near the track, layer by layer. The sectors of a layer lie within `depth` of z in mm, by which
// the search is wider than the window.
inline std::array<std::vector<uint32_t>, n_layers> hits_near(
  const UtHits& hits, size_t event, const Track& track, float window, float margin = 1, float depth = 50)
{
  std::array<std::vector<uint32_t>, n_layers> found;
  for (size_t layer = 0; layer < n_layers; ++layer) {
    for (size_t group = layer * groups_per_layer; group < (layer + 1) * groups_per_layer; ++group) {
      const uint32_t* ends = hits.offsets + event * n_layers * groups_per_layer + group;
      if (ends[0] == ends[1]) continue;
      // z and slope of the first hit stand for those of the group.
      const float z = hits.z_at_y_eq0[ends[0]], y = track.y0 + track.ty * z;
      const float x = track.x0 + track.tx * z - y * hits.dx_dy[ends[0]];
      // Slopes of a layer differ by a few thousandths in an aligned geometry.
      const float reach = window + depth * (std::abs(track.tx) + std::abs(track.ty)) + 0.003f * std::abs(y);
      const float* begin = hits.x_at_y_eq0;
      for (auto at = std::lower_bound(begin + ends[0], begin + ends[1], x - reach);
           at != begin + ends[1] && *at <= x + reach; ++at) {
        const auto i = static_cast<uint32_t>(at - begin);
        if (is_near(hits, i, track, window, margin)) found[layer].push_back(i);
      }
    }
  }
  return found;
}
