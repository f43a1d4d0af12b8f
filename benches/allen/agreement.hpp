// Whether two decoders made the same hits: group by group, whatever the order inside it, floats as bits.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "allens.hpp"
#include "ut_decoding.h"

/// yBegin, yEnd, zAtYEq0, xAtYEq0, dxDy, weight and the LHCbID of a hit; the floats as bits.
using HitBits = std::array<std::uint32_t, 7>;

struct Agreement {
  std::uint64_t hits = 0;          // of Allen
  std::uint64_t ours = 0;          // of ours
  std::uint64_t same_ids = 0;      // of both, in the same event and group, with the same LHCbID
  std::uint64_t same_bits = 0;     // of those: equal in all seven words
  std::uint64_t same_place = 0;    // of those: at the same place of the group, too
  std::uint64_t events = 0;        // all
  std::uint64_t equal_events = 0;  // where each hit of one is a hit of the other, in all seven words

  bool complete() const { return hits == ours && same_bits == hits && equal_events == events; }

  void add(const AllensHits& allens, const UtHits& our, std::size_t n_events)
  {
    std::vector<HitBits> a, b;
    for (std::size_t event = 0; event < n_events; ++event) {
      bool equal = true;
      for (std::size_t group = 0; group < AllensDecoder::n_groups; ++group) {
        const std::size_t at = event * AllensDecoder::n_groups + group;
        a.clear();
        b.clear();
        for (unsigned i = allens.offsets[at]; i < allens.offsets[at + 1]; ++i) a.push_back(hit_of(allens, i));
        for (unsigned i = our.offsets[at]; i < our.offsets[at + 1]; ++i) b.push_back(hit_of(our, i));
        hits += a.size();
        ours += b.size();
        for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) same_place += a[i] == b[i];
        equal &= a.size() == b.size() && match(a, b) == a.size();
      }
      ++events;
      equal_events += equal;
    }
  }

private:
  static HitBits hit_of(const AllensHits& hits, unsigned i)
  {
    HitBits bits;
    for (std::size_t column = 0; column < 7; ++column) {
      bits[column] = load<std::uint32_t>(hits.data + 4 * (column * hits.n_hits + i));
    }
    return bits;
  }

  static HitBits hit_of(const UtHits& h, unsigned i)
  {
    HitBits bits {0, 0, 0, 0, 0, 0, h.id[i]};
    const float floats[] {h.y_begin[i], h.y_end[i], h.z_at_y_eq0[i], h.x_at_y_eq0[i], h.dx_dy[i], h.weight[i]};
    std::memcpy(bits.data(), floats, sizeof floats);
    return bits;
  }

  /// Pairs the hits of a group by LHCbID and counts; returns how many pairs are equal in all words.
  std::size_t match(std::vector<HitBits>& a, std::vector<HitBits>& b)
  {
    const auto by_id = [](const HitBits& x, const HitBits& y) {
      return x[6] != y[6] ? x[6] < y[6] : x < y;
    };
    std::sort(a.begin(), a.end(), by_id);
    std::sort(b.begin(), b.end(), by_id);
    std::size_t equal = 0;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
      if (a[i][6] == b[j][6]) {
        ++same_ids;
        equal += a[i++] == b[j++];
      }
      else if (a[i][6] < b[j][6]) {
        ++i;
      }
      else {
        ++j;
      }
    }
    same_bits += equal;
    return equal;
  }
};
