// Package environ is the environment log of a run: the machine of the client,
// what the server tells of itself, and what only its operator knows.
//
// # Recorded or not
//
// A number without its environment cannot be repeated. [Log.Settle] lists what
// must be known of a serving endpoint ([Required]) with the source of each
// value, and names what is not recorded. Nothing is guessed: a value is there
// because the server said it, because a tool of the same machine said it, or
// because the user declared it, and where two of them contradict each other, both
// are told.
//
// # Secrets
//
// Of pages that can hold anything ([FromServerInfo]), only fields of a fixed
// list are taken. Declared values that look like credentials are refused.
//
// The caller fetches, and runs tools: this package opens no socket.
package environ
