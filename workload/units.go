package workload

import (
	"errors"
	"slices"
	"strings"

	"github.com/assay-bench/assay/record"
)

// alphabet is a set of units that may be one token each.
type alphabet struct {
	units []string
	sep   string
}

// alphabets in the order in which they are tried.
func alphabets() []alphabet {
	return []alphabet{
		{nouns[0:16], " "},
		{nouns[16:32], " "},
		{letters[:], ""},
		{letters[:], " "},
	}
}

// findUnits sets the units of c: an alphabet in which every pair is two tokens,
// if there is one, and the fit of units to tokens. tokenized tells that
// /tokenize was asked. The counts come from /tokenize if the server has it,
// else from the usage of short requests.
func (k *calibration) findUnits() (tokenized bool, err error) {
	all := alphabets()
	k.c.units, k.c.sep = all[0].units, all[0].sep
	base, err := k.count(lead)
	if err != nil {
		return false, ignoreMissing(err)
	}
	tokenized = !k.noTokenize
	k.c.fit = line{float64(base), 1}
	for i, a := range all {
		text, order := pairs(a.units, a.sep)
		n, err := k.count(text)
		if k.ctx.Err() != nil {
			return tokenized, k.ctx.Err()
		}
		if err != nil {
			// Too long for this server, perhaps; the lengths are tried next anyway.
			break
		}
		if n-base == len(order) {
			k.use(a, base)
			return tokenized, nil
		}
		if i == 0 {
			k.c.fit = line{float64(base), max(float64(n-base)/float64(len(order)), 0.01)}
		}
		if i == 1 && tokenized {
			if found, ok := k.selectWords(); ok {
				k.use(found, base)
				return tokenized, nil
			}
		}
		if k.left <= probesALength {
			break
		}
	}
	return tokenized, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// use takes an alphabet that was found to be additive.
func (k *calibration) use(a alphabet, base int) {
	k.c.units, k.c.sep, k.c.additive = a.units, a.sep, true
	k.c.fit = line{float64(base), 1}
}

// count is the number of tokens of a text, by /tokenize or else by usage.
func (k *calibration) count(text string) (int, error) {
	if ids, err := k.tokenize(text); err == nil {
		return len(ids), nil
	} else if !errors.Is(err, errors.ErrUnsupported) {
		return 0, err
	}
	if k.c.chat {
		return k.promptTokens(record.Prompt{Messages: []record.Message{{Role: "user", Content: text}}})
	}
	return k.promptTokens(record.Prompt{Text: text})
}

// candidates is how many words are tried pair by pair at once, so that some can
// be left out.
const candidates = codeBase + codeBase/2

// selectWords picks single-token words out of all, by their ids, and leaves out
// those that merge with another.
func (k *calibration) selectWords() (a alphabet, ok bool) {
	words, ids := k.singles()
	words = words[:min(len(words), candidates)]
	if len(words) < codeBase {
		return alphabet{}, false
	}
	text, order := pairs(words, " ")
	got, err := k.tokenize(text)
	if err != nil {
		return alphabet{}, false
	}
	bad, ok := merging(got, ids, order)
	if !ok {
		return alphabet{}, false
	}
	var kept []string
	for i, w := range words {
		if !bad[i] {
			kept = append(kept, w)
		}
	}
	if len(kept) < codeBase {
		return alphabet{}, false
	}
	return alphabet{kept[:codeBase], " "}, true
}

// anchors stand between words whose tokens are counted. There are several, in
// turn, so that one lost in a merger does not shift all words after it.
var anchors = [...]string{"a", "I", "we", "it"}

// singles are the words that are one token each after a space, with their ids:
// those that stand as one id between two anchors.
func (k *calibration) singles() (words []string, ids []int32) {
	anchorIDs, ok := k.anchorIDs()
	if !ok {
		return nil, nil
	}
	var b strings.Builder
	b.WriteString(lead + " " + anchors[0])
	for i, w := range nouns {
		b.WriteString(" " + w + " " + anchors[(i+1)%len(anchors)])
	}
	got, err := k.tokenize(b.String())
	if err != nil {
		return nil, nil
	}
	first := slices.Index(got, anchorIDs[0])
	word := 0 // whose tokens follow the last anchor
	for i, last := first+1, first; first >= 0 && i < len(got); i++ {
		turn := slices.Index(anchorIDs, got[i])
		if turn < 0 {
			continue
		}
		passed := (turn-word%len(anchors)+len(anchors)-1)%len(anchors) + 1
		if passed == 1 && i-last == 2 && word < len(nouns) {
			words, ids = append(words, nouns[word]), append(ids, got[i-1])
		}
		word, last = word+passed, i
	}
	return words, ids
}

// anchorIDs are the ids of the anchors; ok is false if one is not one token.
func (k *calibration) anchorIDs() (ids []int32, ok bool) {
	text := lead
	for _, a := range anchors {
		text += " " + a + " " + a
	}
	got, err := k.tokenize(text)
	if err != nil || len(got) < 2*len(anchors) {
		return nil, false
	}
	got = got[len(got)-2*len(anchors):]
	for i := 0; i < len(got); i += 2 {
		if got[i] != got[i+1] || slices.Contains(ids, got[i]) {
			return nil, false
		}
		ids = append(ids, got[i])
	}
	return ids, true
}

// merging compares the ids of a text of pairs with those that its words have
// alone, and names words to leave out so that no pair merges: the later one of
// each pair found. ok is false where the ids cannot be explained in this way.
func merging(got, alone []int32, order []int) (bad map[int]bool, ok bool) {
	bad = map[int]bool{}
	at := slices.Index(got, alone[order[0]])
	if at < 0 {
		return nil, false
	}
	for i := 0; i < len(order); i++ {
		if at >= len(got) || got[at] != alone[order[i]] {
			// A token of two words stands where the first of them was expected.
			i++
			bad[order[min(i, len(order)-1)]] = true
		}
		at++
	}
	return bad, at == len(got)
}
