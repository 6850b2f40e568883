// Package wire owns the sockets and the stamps: it dials, sends, reads, and
// splits replies into events.
//
// # What is stamped, and where
//
// Every connection is wrapped below TLS and HTTP, and stamps are taken there.
// Sent is taken immediately before the first raw write of a request, armed for
// that request alone, so that handshakes and key updates never count. Received
// bytes follow the last-read rule: they carry the stamp of the latest raw read
// that happened while they were pulled through TLS. Bytes that came with no raw
// read of their own, or with more bytes behind them, are coalesced, and the
// events that they complete say so ([record.FlagCoalesced]).
//
// # How a reply is read
//
// There are two transports, with the same outcomes, timeouts and stamps.
// [Client.Do] runs one exchange in the goroutine of its caller, whatever lies
// between (TLS, a proxy). [Loop.Start] hands it to one of a few threads that read
// many thousand streams of plain HTTP/1.1 by epoll (Linux), without a goroutine
// a stream. The head is parsed by net/http; the body goes to
// the [Decoder], which is pure (no socket, no clock) and undoes the transfer
// coding and the event framing in one pass without allocating.
//
// # What it does not know
//
// Nothing here knows a dialect. A [Sink] says what framing a reply has and
// which event is the terminal marker. Nothing here decides that an attempt
// succeeded: Do reports how the transport ended, no more.
package wire
