// Package compat recomputes, from the event log of a run, the numbers that other
// tools would have printed for the very same requests.
//
// "Tool X and tool Y disagree: which is right?" is answered by evidence: one set
// of stamps, several definitions. What a tool measures beyond its definitions
// (its own scheduling lag, its tokenizer, its parser) is not in a view, and each
// view says so. The definitions were read in the sources of the tools, at the
// revisions that the views name; none was run.
package compat
