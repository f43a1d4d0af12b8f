// Stands in for the header of this name: lengths are in millimetres.
#pragma once

namespace Allen::Units {
  constexpr float mm = 1.f;
}
