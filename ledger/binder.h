#pragma once
// How are many parameters bound without counting them? One after the other: bind(a)(b)(c).

#include <string_view>

#include "ledger/sql.h"

namespace ledger {

class Binder {
 public:
  explicit Binder(Statement& statement) : statement_(statement) {}
  template <typename T>
  Binder& operator()(const T& value) {
    statement_.bind(at_++, value);
    return *this;
  }
  Binder& blob(std::string_view bytes) {
    statement_.bind_blob(at_++, bytes);
    return *this;
  }

 private:
  Statement& statement_;
  int at_ = 1;
};

}  // namespace ledger
