// Package metric holds the definitions: it turns records into the numbers of
// a result, and says why where a number does not exist.
//
// MEASUREMENT.md is the contract and this package its only implementation.
// Everything here is pure over [record]: there is no clock, no goroutine and no
// input or output, so that any number can be computed again from what a run
// wrote.
//
// # One attempt
//
// [TTFT], [TTFTFromSchedule], [TimeToFirstAnswer], [E2E], [TPOT], [TPOTPaired],
// [UserTPS] and their like measure one [record.Attempt]. Each returns a number
// and a [Reason]; the number means something only if the Reason is [Defined].
// They do not look at the outcome: whether an attempt belongs to a sample is
// the business of a [Stage].
//
// # One stage
//
// A [Stage] takes attempts in any order (usually that of completion) with their
// events and fills a [result.Stage]: the same attempts give the same numbers to
// the last bit, in whatever order or parts they came. The sample is the
// requests that were due in the window; they are judged by how they ended, even
// if that was after it.
//
// # Less than a record
//
// [NewTable] takes rows of the five columns request_id, prompt_tokens,
// completion_tokens, TTFT_ms and E2E_ms; [FiveColumnsLack] says what they do not
// allow. [Trace] takes the token times of a single request.
package metric
