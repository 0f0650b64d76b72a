#pragma once
// How does one HTTP/1.1 connection read requests and write answers, down to each byte?

#include <memory>

#include "tests/support/fake_provider_http.h"
#include "tests/support/fake_provider_transport.h"

namespace fake_provider {

/// Called when a connection turns out to begin with HTTP/2's preface; empty where that is not spoken.
using TakeHttp2 = std::function<void(std::shared_ptr<Transport> transport, std::string already_read)>;

/// Serves the connection until it ends; a read is outstanding all the time, so that the peer's end is seen at
/// once.
void serve_http1(Loop& loop, std::shared_ptr<Transport> transport, OpenExchange open, TakeHttp2 take_http2);

}  // namespace fake_provider
