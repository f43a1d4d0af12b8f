// Stands in for LHCb's header of this name: the types of raw banks that the UT decoder asks for.
#pragma once

namespace LHCb::Event::Enum::RawBank {
  enum class BankType : unsigned char { UT = 66, UTError = 68, LastType = 255 };
}
