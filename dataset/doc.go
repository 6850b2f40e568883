// Package dataset reads public traces and datasets of LLM requests as streams
// of one kind of row, in bounded memory.
//
//	r, err := dataset.Open("conversation_trace.jsonl", dataset.Options{})
//	for {
//		row, err := r.Next() // valid until the next call
//		...
//	}
//
// [Open] finds the format by content and header, never by the name of the file;
// .gz and .zst are unpacked on the way. [Scan] reads a trace once and says what
// is in it: duration, rate, the quantum of its stamps, lengths, sessions. [Dither]
// spreads quantised stamps, and [Thin], [Compress] and [Superpose] change the rate.
//
// # What goes wrong with traces, and what is done about it
//
// Units. Mooncake's stamps are milliseconds, Bailian's seconds, and a reader that
// takes one for the other turns one hour into 41 days. The unit comes from the
// user, else from the format, else from the column's name, a date or the
// magnitude of epoch stamps; where none of these says, reading fails and asks. A
// span longer than [Options].MaxSpan is refused ([ErrSpan]).
//
// Blocks. Where a row has hash_ids, their number must be the input length over
// the block size, rounded up or down: else prompts built from them would be cut.
//
// Failures. A row whose recorded output (or prompt) has no tokens is a request
// that failed. It is delivered with Failed set and counted apart: it is no sample
// of a length.
//
// Malformed rows. The error names file, line, column and value ([RowError]);
// reading may go on after it, and with SkipBad it does, and counts.
package dataset
