#pragma once
// How is the provider told what to do, and asked what it saw? HTTP on a port of its own; README.md lists the
// paths.

#include <functional>
#include <memory>

#include "tests/support/fake_provider_http.h"
#include "tests/support/fake_provider_records.h"
#include "tests/support/fake_provider_script.h"
#include "tests/support/fake_provider_transport.h"

namespace fake_provider {

class Control {
 public:
  /// All of them outlive it.
  Control(Loop& loop, Records& records, Script& script, Listener& data);
  ~Control();
  [[nodiscard]] std::shared_ptr<Exchange> open(Wire& wire, Request request);
  /// Something has happened that somebody may wait for.
  void changed();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace fake_provider
