#pragma once
// How does one HTTP/2 connection do the same, as far as the protocol lets it?

#include <memory>
#include <string>

#include "tests/support/fake_provider_http.h"
#include "tests/support/fake_provider_transport.h"

namespace fake_provider {

/// `already_read` is what came before it was known that this is HTTP/2.
void serve_http2(Loop& loop, std::shared_ptr<Transport> transport, OpenExchange open, std::string already_read);

}  // namespace fake_provider
