package dialect

import "encoding/json"

// chunk is what one frame, or one whole reply, of the OpenAI protocols says.
// The scanner and the full decode both fill it, and must fill it alike.
// Texts are sizes in bytes of decoded UTF-8, summed over the choices.
type chunk struct {
	// known: the frame has choices (perhaps none), usage or an error.
	known bool
	// choices counts the elements of "choices".
	choices int
	// index of the last choice; -1 when it is beyond what is followed.
	index int

	content, text                    int // delta.content (or message.content), and choices[].text
	reasoning, refusal, tool         int
	role                             bool
	ids, withIDs, logprobs, withLogs int

	// The content (of a list of parts, joined) and the text of the first choice.
	saidContent, saidText rawString

	finish, stop, model rawString
	usage               usage
	// err is the error's one line; an error object always has one.
	err string
}

// maxChoices bounds the choices followed one by one.
const maxChoices = 128

// usage as told by the server; ok when it has completion tokens at all.
type usage struct {
	ok                                    bool
	prompt, completion, cached, reasoning int
}

// rawString is the inside of a JSON string, not yet decoded.
type rawString struct {
	b       []byte
	escaped bool
}

func (r rawString) empty() bool { return len(r.b) == 0 }

// equals compares with a string that needs no escaping.
func (r rawString) equals(s string) bool { return !r.escaped && string(r.b) == s }

// len is the size of a decoded string, for one that is not escaped.
func (r rawString) len() int { return len(r.b) }

// String decodes; it allocates.
func (r rawString) String() string {
	if !r.escaped {
		return string(r.b)
	}
	quoted := make([]byte, 0, len(r.b)+2)
	quoted = append(quoted, '"')
	quoted = append(quoted, r.b...)
	quoted = append(quoted, '"')
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return string(r.b)
	}
	return s
}

// generated is the size of all generated text, the answer being a part of it.
func (c *chunk) generated(answer int) int {
	return answer + c.reasoning + c.refusal + c.tool
}
