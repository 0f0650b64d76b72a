#pragma once
// In which order does a call try the upstreams of its route, and as whom?

#include "gateway/call.h"

namespace gateway {

/// Fills call.candidates and call.ways. Steps in order; neighbours that all have a weight, and the credentials of one
/// upstream, by weighted rendezvous hashing of tenant and run id: a conversation stays where the provider has its
/// prompt in the cache, and each gets its share (Thaler & Ravishankar 1998, weights after Schindelhauer & Schomaker
/// 2005). What has weight 0 comes last.
void choose_ways(Call& call, std::string_view query);

}  // namespace gateway
