#pragma once
// Where in a call's life do we die? For tests alone: under CALLGATE_KILL_AT=opened:2 the process ends as by kill -9
// when a call comes to that step for the second time. A build without CALLGATE_FAULT_POINTS, as releases are, does
// not look at it.
//
//   step      right behind
//   --------  ----------------------------------------------------------------------------------------
//   claimed   the store's answer to a call with a key; of one that is certainly new, its hand-over to the store
//   opened    the hand-over of the attempt's open row; if it is to be durable, its commit
//   started   the hand-over of the request: nothing of it has left
//   head      the provider's head
//   part      a part of an answer that the caller's socket has taken
//   answered  the provider's last word; the ending has not been handed over
//   ended     the ending's commit; the caller's last byte is still to come
//   said      the last byte that the caller's socket has taken

#include <cstdint>

namespace gateway {

enum class Step : std::uint8_t { Claimed, Opened, Started, Head, Part, Answered, Ended, Said };

/// I/O thread only.
void fault_point(Step step);

}  // namespace gateway
