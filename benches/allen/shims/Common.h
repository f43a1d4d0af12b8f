// Stands in for Allen's header of this name.
#pragma once

#include <experimental/type_traits>

using std::experimental::is_detected;
