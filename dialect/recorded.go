package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/assay-bench/assay/record"
)

var (
	errNotRecorded = errors.New("the recorded body is not a JSON object")
	errNoMessages  = errors.New("the recorded body has no messages: it is no chat")
	errNoText      = errors.New("the recorded body has no prompt: it is no completion")
)

// recorded writes a body as it was recorded, in the order of its members. The run's
// own say takes the place of model, stream, stream_options and, where there is one,
// of cache_salt; the extra body that of anything.
func (w *bodyWriter) recorded(r *record.Request, o *Options, prompt string, missing error) error {
	w.b = append(w.b, '{')
	found := false
	err := eachMember(r.Prompt.Body, func(name string, value []byte) {
		found = found || name == prompt
		switch {
		case name == "model" && o.Model != "", name == "stream", name == "stream_options", name == "cache_salt" && r.CacheSalt != "":
			return
		case len(w.extra) > 0 && hasMember(w.extra, name):
			return
		}
		w.comma()
		w.b = append(appendString(w.b, name), ':')
		w.b = append(w.b, value...)
	})
	switch {
	case err != nil:
		return err
	case !found && !hasMember(w.extra, prompt):
		return missing
	}
	if o.Model != "" && w.field("model") {
		w.b = appendString(w.b, o.Model)
	}
	w.salt(r)
	w.streaming(o)
	return w.close()
}

// eachMember visits the members of an object in their order. It is off the dispatch
// path, and takes whatever JSON allows.
func eachMember(b []byte, visit func(key string, value []byte)) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errNotRecorded
	}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return errNotRecorded
		}
		visit(key.(string), value) // keys of an object are strings
	}
	if t, err := d.Token(); err != nil || t != json.Delim('}') {
		return errNotRecorded
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errNotRecorded
	}
	return nil
}
